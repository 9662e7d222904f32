#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "base/log.hpp"
#include "fabric/agree.hpp"
#include "fabric/key.hpp"
#include "fabric/nodes/nodes.hpp"

namespace tutti::nodes {

/// What a rank tells the others about itself.
struct NodesFabric::Introduction {
  NetworkAddress address;
  std::uint64_t arena_address;
  std::uint64_t arena_key;
  std::uint32_t network_version;
  std::int32_t first_of_node;  // lowest rank of its node: the node's identity
  char network[32];
  char node[48];
  std::uint8_t code;    // of what it has done so far
  std::uint8_t scarce;  // its machine has more ranks than processors
};

namespace {

template <std::size_t Size>
void copy_name(char (&out)[Size], const std::string& name) {
  std::memset(out, 0, Size);
  std::memcpy(out, name.data(), std::min(name.size(), Size - 1));
}

std::string node_name(const Settings& settings) {
  if (!settings.node.empty()) return settings.node;
  char name[64] = "?";
  gethostname(name, sizeof name - 1);
  return name;
}

}  // namespace

NodesFabric::NodesFabric(std::unique_ptr<shm::ShmFabric> shm,
                         std::unique_ptr<Network> network) noexcept
    : Fabric(shm->rank(), shm->size()), shm_(std::move(shm)), network_(std::move(network)) {
  // Where ranks sleep often, each of them would interrupt all processors each time.
  if (shm_->traits().scarce) shm_->add_before_wake();
  mirror(*shm_);
  arena_ = shm_->arena();
  arena_.bytes -= kBoxBytes;
}

Status NodesFabric::connect(Bootstrap& bootstrap, const Settings& settings,
                            std::unique_ptr<shm::ShmFabric>* shm, std::unique_ptr<Network> network,
                            std::unique_ptr<NodesFabric>* out, std::string* message) {
  const auto size = static_cast<std::size_t>(bootstrap.size());
  Introduction me{};
  NetworkMemory memory;
  Status status = network ? Status::success() : Status::error(Code::unsupported, "no network");
  if (status.ok()) {
    const Region& arena = (*shm)->arena();
    status = arena.bytes > 2 * kBoxBytes
                 ? (*shm)->reserve(arena.bytes - kBoxBytes, kBoxBytes)
                 : Status::error(Code::no_memory, "TUTTI_ARENA is too small for a network");
    if (!status.ok()) *message = status.detail;
  }
  if (status.ok()) {
    const Region& arena = (*shm)->arena();
    status = network->expose(arena.base, arena.bytes, &memory);
    if (!status.ok()) *message = std::string(network->name()) + ": " + status.detail;
    me.address = network->address();
    me.network_version = network->version();
    copy_name(me.network, network->name());
  }
  me.arena_address = memory.address;
  me.arena_key = memory.key;
  me.first_of_node = (*shm)->neighbours().front();
  me.scarce = (*shm)->traits().scarce;
  copy_name(me.node, node_name(settings));
  me.code = static_cast<std::uint8_t>(status.code);
  std::vector<Introduction> all(size);
  TUTTI_TRY(bootstrap.allgather(&me, all.data(), sizeof me));
  for (std::size_t rank = 0; rank < size && status.ok(); ++rank) {
    const auto peer = static_cast<std::int32_t>(rank);
    if (all[rank].code != 0) {
      status = {static_cast<Code>(all[rank].code), peer, "another rank has no network"};
    } else if (std::strcmp(all[rank].network, me.network) != 0 ||
               all[rank].network_version != me.network_version) {
      *message = "rank " + std::to_string(rank) + " on " + all[rank].node + " has the network " +
                 all[rank].network + " of another kind or version than " + me.network + " on " +
                 me.node;
      status = {Code::version_mismatch, peer, "the ranks have different networks"};
    }
  }
  if (!status.ok()) {
    if (network && memory.handle != 0) network->withdraw(memory);
    return status;
  }
  std::vector<NetworkAddress> addresses(size);
  for (std::size_t rank = 0; rank < size; ++rank) addresses[rank] = all[rank].address;
  status =
      network->meet(addresses.data(), static_cast<int>(size), bootstrap.rank(), (*shm)->secret());
  const std::vector<std::int32_t> neighbours = (*shm)->neighbours();
  Doorbells doorbells;
  const Status gathered = gather_doorbells(bootstrap, **shm, &doorbells);
  std::unique_ptr<NodesFabric> fabric;
  if (status.ok()) {
    fabric.reset(new (std::nothrow) NodesFabric(std::move(*shm), std::move(network)));
    if (!fabric) status = Status::error(Code::no_memory, "out of memory");
  }
  if (!gathered.ok()) status = gathered;
  status = conclude(bootstrap, status, neighbours, &doorbells);
  if (!status.ok()) {
    doorbells.close_all();
    if (fabric) {
      fabric->dead_ = true;
      *shm = std::move(fabric->shm_);
    }
    return status;
  }
  fabric->arena_memory_ = memory;
  fabric->adopt(all, settings);
  fabric->adopt(doorbells);
  fabric->throw_lifelines(addresses);
  fabric->start_thread();
  *out = std::move(fabric);
  return Status::success();
}

/// Every rank gets the doorbells of its node's ranks, from their processes. Where the kernel does
/// not give them (as it refuses cross-memory attach) the ranks of that node sleep without.
Status NodesFabric::gather_doorbells(Bootstrap& bootstrap, const shm::ShmFabric& shm,
                                     Doorbells* out) noexcept {
  struct Offer {
    std::int32_t pid, descriptor;
  };
  out->own = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  const Offer mine{getpid(), out->own};
  std::vector<Offer> offers(static_cast<std::size_t>(bootstrap.size()));
  TUTTI_TRY(bootstrap.allgather(&mine, offers.data(), sizeof mine));
  out->complete = out->own >= 0;
  for (const std::int32_t peer : shm.neighbours()) {
    const Offer& offer = offers[static_cast<std::size_t>(peer)];
    int doorbell = -1;
    if (peer == bootstrap.rank()) {
      doorbell = out->own;
    } else if (offer.descriptor < 0 || !shm.shares_processes(peer)) {
    } else if (offer.pid == mine.pid) {  // a thread
      doorbell = fcntl(offer.descriptor, F_DUPFD_CLOEXEC, 0);
    } else if (const long process = syscall(SYS_pidfd_open, offer.pid, 0); process >= 0) {
      doorbell = static_cast<int>(syscall(SYS_pidfd_getfd, process, offer.descriptor, 0));
      close(static_cast<int>(process));
    }
    out->all.push_back(doorbell);
    if (doorbell < 0) out->complete = false;
  }
  return Status::success();
}

/// The last exchange: an error on all ranks where one of them has one, and doorbells only where all
/// ranks of the node have all of them.
Status NodesFabric::conclude(Bootstrap& bootstrap, const Status& mine,
                             const std::vector<std::int32_t>& neighbours,
                             Doorbells* doorbells) noexcept {
  struct Answer {
    Code code;
    std::uint32_t complete;
  };
  const Answer answer{mine.code, doorbells->complete ? 1U : 0U};
  std::vector<Answer> answers(static_cast<std::size_t>(bootstrap.size()));
  TUTTI_TRY(bootstrap.allgather(&answer, answers.data(), sizeof answer));
  for (const std::int32_t peer : neighbours)
    if (answers[static_cast<std::size_t>(peer)].complete == 0) doorbells->complete = false;
  std::vector<Code> codes;
  for (const Answer& one : answers) codes.push_back(one.code);
  return agreed(codes, mine);
}

void NodesFabric::Doorbells::close_all() noexcept {
  if (all.empty() && own >= 0) close(own);  // they were not gathered
  for (const int doorbell : all) {
    if (doorbell >= 0) close(doorbell);
  }
}

void NodesFabric::adopt(Doorbells& doorbells) noexcept {
  doorbell_ = doorbells.own;
  doorbells_ = std::move(doorbells.all);
  watches_ = doorbells.complete;
  if (watches_) shm_->adopt_doorbells(doorbells_);
}

/// Of every rank of another node, where the network gives a port that can be asked.
void NodesFabric::throw_lifelines(const std::vector<NetworkAddress>& addresses) {
  lifelines_.set_timeout(timeout_ns_);
  for (std::int32_t peer = 0; peer < size_; ++peer) {
    sockaddr_storage port;
    if (is_remote(peer) && network_->listens_at(addresses[static_cast<std::size_t>(peer)], &port))
      lifelines_.know(peer, port);
  }
  network_->consult(lifelines_);
}

void NodesFabric::adopt(const std::vector<Introduction>& all, const Settings& settings) noexcept {
  timeout_ns_ = static_cast<std::uint64_t>(settings.net_timeout_s * 1e9);
  thread_cpu_ = settings.progress_cpu;
  trait_name_ = std::string("shm+") + network_->name();
  traits_.name = trait_name_.c_str();
  traits_.bypass = network_->bypasses_kernel();
  traits_.selective_events = network_->selective();
  node_of_.resize(all.size());
  peers_ = std::vector<Peer>(all.size());
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const auto first = static_cast<std::size_t>(all[rank].first_of_node);
    if (first == rank) {
      node_of_[rank] = static_cast<std::int32_t>(names_.size());
      names_.emplace_back(all[rank].node);
    } else {
      node_of_[rank] = node_of_[first];
    }
    peers_[rank].address = all[rank].arena_address;
    peers_[rank].key = all[rank].arena_key;
    if (all[rank].scarce != 0) traits_.scarce = true;
  }
}

}  // namespace tutti::nodes
