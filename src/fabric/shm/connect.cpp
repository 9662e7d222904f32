#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <map>
#include <new>
#include <string>
#include <utility>

#include "base/cores.hpp"
#include "base/hash.hpp"
#include "base/log.hpp"
#include "fabric/agree.hpp"
#include "fabric/shm/meeting.hpp"
#include "fabric/shm/shm.hpp"
#include "topo/topo.hpp"

namespace tutti::shm {
namespace {

/// Which namespace of a kind this process is in; 0 where that cannot be seen.
std::uint64_t namespace_of(const char* kind) noexcept {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/self/ns/%s", kind);
  struct stat info;
  return stat(path, &info) == 0 ? hash_of(&info.st_ino, sizeof info.st_ino) : 0;
}

}  // namespace

std::uint64_t machine_identity() noexcept {
  std::uint64_t hash = hash_of("tutti", 5);
  char text[128];
  if (std::FILE* file = std::fopen("/proc/sys/kernel/random/boot_id", "re")) {
    const std::size_t length = std::fread(text, 1, sizeof text, file);
    std::fclose(file);
    hash = hash_of(text, length, hash);
  }
  return hash;
}

std::uint64_t node_identity(const std::string& name) noexcept {
  const std::uint64_t hash = hash_of(name.data(), name.size(), machine_identity());
  // What the sockets over which ranks meet belong to. Namespaces of other kinds (user, pid, mount,
  // ipc, uts) do not keep a descriptor from being passed, so they separate nobody.
  const std::uint64_t network = namespace_of("net");
  return hash_of(&network, sizeof network, hash);
}

namespace {

std::uint64_t layout_version() {
  const std::size_t shape[] = {sizeof(NodeHeader), sizeof(NodeSlot), sizeof(Key)};
  return hash_of(shape, sizeof shape, hash_of(TUTTI_VERSION, sizeof TUTTI_VERSION));
}

/// What a neighbour must find in the memory of a rank.
std::uint64_t probe_of(std::size_t rank) { return ~static_cast<std::uint64_t>(rank); }

Introduction introduce(const Settings& settings, int core_limit) {
  Introduction me{};
  me.version = layout_version();
  me.node = node_identity(settings.node);
  me.machine = machine_identity();
  me.name = hash_of(settings.node.data(), settings.node.size());
  me.processes = namespace_of("pid");
  me.users = namespace_of("user");
  me.arena_bytes = settings.arena;
  me.pid = getpid();
  me.core_limit = static_cast<std::uint32_t>(core_limit);
  me.barrier = register_barrier();
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    std::memcpy(me.cpus, &set, std::min(sizeof me.cpus, sizeof set));
    me.locality = read_locality(set_of(set));
  }
  return me;
}

/// Who is there: what every rank says of itself. Fails on all of them where one cannot take part.
Status introduce_all(Bootstrap& bootstrap, const Settings& settings, const std::uint64_t* probe,
                     Meeting& meeting, Status status, std::vector<Introduction>* out) {
  Introduction me = introduce(settings, available_cores());
  me.probe = reinterpret_cast<std::uint64_t>(probe);
  if (status.ok() && bootstrap.rank() == 0) status = draw_secret(&me.secret);
  if (status.ok()) status = meeting.open(&me.listens_at);
  me.code = static_cast<std::uint8_t>(status.code);
  std::vector<Introduction> all(static_cast<std::size_t>(bootstrap.size()));
  TUTTI_TRY(bootstrap.allgather(&me, all.data(), sizeof me));
  TUTTI_TRY(status);
  for (std::size_t peer = 0; peer < all.size(); ++peer) {
    const auto rank = static_cast<std::int32_t>(peer);
    if (all[peer].version != me.version)
      return {Code::version_mismatch, rank, "the ranks run different versions of tutti"};
    if (all[peer].code != 0)
      return {static_cast<Code>(all[peer].code), rank, "another rank failed"};
  }
  *out = std::move(all);
  return Status::success();
}

/// Cores that the ranks of a node may use together: the union of their affinity masks, within the
/// quota of the cgroup.
int cores_of(const std::vector<Introduction>& all, const std::vector<std::int32_t>& ranks) {
  std::uint64_t together[16] = {};
  int quota = 0;
  for (const std::int32_t rank : ranks) {
    const auto& one = all[static_cast<std::size_t>(rank)];
    for (int i = 0; i < 16; ++i) together[i] |= one.cpus[i];
    int own = 0;
    for (const std::uint64_t word : one.cpus) own += __builtin_popcountll(word);
    // A limit below the own mask comes from the quota, which the ranks share.
    if (static_cast<int>(one.core_limit) < own) quota = static_cast<int>(one.core_limit);
  }
  int cores = 0;
  for (const std::uint64_t word : together) cores += __builtin_popcountll(word);
  if (quota > 0) cores = std::min(cores, quota);
  return std::max(1, cores);
}

/// What a rank finds out about a proposal of who is on a node with whom.
struct Trial {
  std::uint32_t reaches;  // its leader
  Code cma;
};

/// Of each rank: the leader that it has found, or the lowest of those that have none yet and may be
/// on its node.
std::vector<std::int32_t> propose_leaders(const std::vector<Introduction>& all,
                                          const std::vector<std::int32_t>& found) {
  std::vector<std::int32_t> leaders = found;
  std::map<std::uint64_t, std::int32_t> lowest;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (found[rank] >= 0) continue;
    leaders[rank] =
        lowest.try_emplace(all[rank].node, static_cast<std::int32_t>(rank)).first->second;
  }
  return leaders;
}

/// Cross-memory attach is tried on the probe word of the next rank with the same leader, and used
/// only if all of the node may.
Code try_cross_memory(const std::vector<Introduction>& all,
                      const std::vector<std::int32_t>& leaders, std::size_t me) {
  std::size_t next = (me + 1) % all.size();
  while (leaders[next] != leaders[me]) next = (next + 1) % all.size();
  if (all[next].processes != all[me].processes)
    return Code::unsupported;  // its number means others
  std::uint64_t seen = 0;
  const Status status =
      cma_read(all[next].pid, reinterpret_cast<const void*>(all[next].probe), &seen, sizeof seen);
  if (!status.ok()) return Code::not_permitted;
  return seen == probe_of(next) ? Code::ok : Code::unsupported;
}

/// The leader of each rank: the lowest of those that may be on one node, and that the rank's socket
/// really reaches. Who does not reach it looks among those that are left, and may end up alone. The
/// trials are those with the leaders that were found.
Status find_leaders(Bootstrap& bootstrap, Meeting& meeting, const Settings& settings,
                    const std::vector<Introduction>& all, std::vector<std::int32_t>* leaders,
                    std::vector<Trial>* trials) {
  const auto me = static_cast<std::size_t>(bootstrap.rank());
  std::vector<std::int32_t> found(all.size(), -1);
  trials->resize(all.size());
  while (std::find(found.begin(), found.end(), -1) != found.end()) {
    *leaders = propose_leaders(all, found);
    const auto leader = static_cast<std::size_t>((*leaders)[me]);
    const bool reaches = found[me] >= 0 || leader == me || meeting.call(all[leader].listens_at);
    const Trial mine{reaches, settings.cma == Switch::off ? Code::unsupported
                                                          : try_cross_memory(all, *leaders, me)};
    TUTTI_TRY(bootstrap.allgather(&mine, trials->data(), sizeof mine));
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      if ((*trials)[rank].reaches != 0) found[rank] = (*leaders)[rank];
    }
  }
  return Status::success();
}

/// The first rank has made the segment by the time that the others ask for it.
Status share_segment(const Settings& settings, const std::vector<std::int32_t>& neighbours,
                     bool leads, Meeting& meeting, std::unique_ptr<Segment>* out) {
  if (!leads) {
    int descriptor = -1;
    TUTTI_TRY(meeting.receive(&descriptor));
    return Segment::adopt(descriptor, out);
  }
  std::string message;
  const Status status = Segment::create(settings.segment, static_cast<int>(neighbours.size()),
                                        settings.arena, out, &message);
  if (status.ok())
    return meeting.serve((*out)->descriptor(), {neighbours.begin() + 1, neighbours.end()});
  if (!message.empty()) log(LogLevel::error, "%s", message.c_str());
  meeting.refuse();
  return status;
}

}  // namespace

/// Two ranks of this machine that nobody has told to be on nodes of their own, and that are; or -1.
std::int32_t ShmFabric::find_separated(const std::vector<Introduction>& all,
                                       const std::vector<std::int32_t>& leaders,
                                       std::int32_t* other) noexcept {
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::int32_t> first;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const auto [place, added] =
        first.try_emplace({all[rank].machine, all[rank].name}, static_cast<std::int32_t>(rank));
    if (added || leaders[rank] == leaders[static_cast<std::size_t>(place->second)]) continue;
    *other = static_cast<std::int32_t>(rank);
    return place->second;
  }
  return -1;
}

/// Where the neighbours run: as each of them has said, so that all of the node know the same.
Status ShmFabric::find_localities(const Settings& settings, const std::vector<Introduction>& all) {
  MadeUpMachine made_up;  // of a text that is the same on all ranks
  TUTTI_TRY(MadeUpMachine::parse(settings.topology, &made_up));
  for (std::size_t local = 0; local < neighbours_.size(); ++local) {
    const auto peer = static_cast<std::size_t>(neighbours_[local]);
    localities_.push_back(settings.topology.empty() ? all[peer].locality
                                                    : made_up.locality_of(static_cast<int>(local)));
  }
  return Status::success();
}

/// Who is on this node, and on this machine, and what the ranks of this node can do together.
Status ShmFabric::find_neighbours(Bootstrap& bootstrap, Meeting& meeting, const Settings& settings,
                                  const std::vector<Introduction>& all) {
  const auto rank = static_cast<std::size_t>(rank_);
  const Introduction& me = all[rank];
  std::vector<std::int32_t> leaders, machine;
  std::vector<Trial> trials;
  TUTTI_TRY(find_leaders(bootstrap, meeting, settings, all, &leaders, &trials));
  local_of_.assign(all.size(), -1);
  bool all_registered = true;
  traits_.user_memory = true;
  for (std::size_t peer = 0; peer < all.size(); ++peer) {
    if (all[peer].machine == me.machine) machine.push_back(static_cast<std::int32_t>(peer));
    if (leaders[peer] != leaders[rank]) continue;
    local_of_[peer] = static_cast<std::int32_t>(neighbours_.size());
    neighbours_.push_back(static_cast<std::int32_t>(peer));
    shares_processes_.push_back(all[peer].processes == me.processes);
    all_registered = all_registered && all[peer].barrier != 0;
    traits_.user_memory = traits_.user_memory && trials[peer].cma == Code::ok;
  }
  use_barrier(all_registered);
  TUTTI_TRY(find_localities(settings, all));
  node_cores_ = cores_of(all, machine);
  machine_ranks_ = static_cast<int>(machine.size());
  traits_.scarce = machine_ranks_ > node_cores_;
  losses_.separated = find_separated(all, leaders, &losses_.from);
  for (std::size_t peer = 0; peer < all.size() && losses_.without_cma < 0; ++peer) {
    if (trials[peer].cma != Code::ok) note_lost_cma(all, peer);
  }
  return Status::success();
}

/// The node's segment, which its first rank makes.
Status ShmFabric::join_segment(const Settings& settings, Meeting& meeting) {
  std::unique_ptr<Segment> segment;
  TUTTI_TRY(share_segment(settings, neighbours_, neighbours_[0] == rank_, meeting, &segment));
  attach_segment(std::move(segment), local_of_[static_cast<std::size_t>(rank_)]);
  if (!segment_->hold(local_))
    return Status::error(Code::not_permitted, "the system does not lock the shared segment");
  if (settings.cma == Switch::on && !traits_.user_memory) {
    return Status::error(Code::not_permitted,
                         "TUTTI_CMA=on, but the kernel refuses cross-memory attach");
  }
  return Status::success();
}

Status ShmFabric::connect(Bootstrap& bootstrap, const Settings& settings,
                          std::unique_ptr<ShmFabric>* out, Status ready) {
  std::unique_ptr<ShmFabric> fabric(new (std::nothrow)
                                        ShmFabric(bootstrap.rank(), bootstrap.size()));
  if (!fabric) return Status::error(Code::no_memory, "out of memory");
  Meeting meeting(bootstrap.rank());
  std::vector<Introduction> all;
  const std::uint64_t probe = probe_of(static_cast<std::size_t>(bootstrap.rank()));
  MadeUpMachine made_up;
  if (ready.ok()) ready = MadeUpMachine::parse(settings.topology, &made_up);
  TUTTI_TRY(introduce_all(bootstrap, settings, &probe, meeting, ready, &all));
  fabric->secret_ = all.front().secret;  // of all ranks, the first one's
  meeting.adopt(fabric->secret_);
  TUTTI_TRY(fabric->find_neighbours(bootstrap, meeting, settings, all));
  Status joined = fabric->join_segment(settings, meeting);
  if (fabric->neighbours_.size() != all.size()) joined = agree(bootstrap, joined);
  TUTTI_TRY(joined);
  *out = std::move(fabric);
  return Status::success();
}

void ShmFabric::note_lost_cma(const std::vector<Introduction>& all, std::size_t rank) noexcept {
  for (std::size_t other = 0; other < all.size(); ++other) {
    if (other == rank || all[other].node != all[rank].node) continue;  // alone it loses nothing
    losses_.without_cma = static_cast<std::int32_t>(rank);
    losses_.users = losses_.users || all[other].users != all[rank].users;
    losses_.processes = losses_.processes || all[other].processes != all[rank].processes;
  }
}

/// The last step, which tells the others also whether this rank has `joined` its node.

}  // namespace tutti::shm
