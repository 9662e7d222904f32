// What moves a communicator's messages and collectives. The group of its messages is made when it
// is met, by each member for itself. Its teams are made with its first collectives: a program makes
// many communicators that it uses for messages only, or not at all.
//
// Where the members share memory they meet through tutti's own tables, and a member that has no
// room is seen by all of them there. Over nodes the MPI agrees, once, in the first blocking
// collective.
#include "base/log.hpp"
#include "mpi/plugin/comm.hpp"
#include "mpi/plugin/state.hpp"

namespace tutti::mpi {
namespace {

bool all_reachable(const std::vector<std::int32_t>& members) {
  for (const std::int32_t member : members) {
    if (!state.job->reachable(member)) return false;
  }
  return true;
}

// The members, where tutti could serve them: the same answer on all of them.
bool find_members(Comm& comm) {
  if (!comm.members.empty()) return true;
  std::vector<std::int32_t> members;
  if (!state.job || comm.foreign || comm.size <= 1 ||
      !world_ranks(comm.handle, comm.size, &members) || !all_reachable(members))
    return false;
  comm.spans = !state.job->shares_memory(members.data(), comm.size);
  comm.members = std::move(members);
  return true;
}

// A list that grows with the communicator is kept for messages alone.
void drop_members(Comm& comm) noexcept {
  if (!comm.group) comm.members = {};
}

// Members of several communicators may have come out of one call.
void number(const Comm& comm, std::uint64_t id[2]) {
  id[0] = comm.birth[0];
  id[1] = mix(comm.birth[1] + static_cast<std::uint64_t>(comm.members.front()) + 1);
}

Status create_team(const Comm& comm, bool blocking, Team** team) {
  TeamSpec spec;
  number(comm, spec.id);
  if (!blocking) {
    spec.id[0] ^= 0x6e6f6e626c6f636bu;
    spec.id[1] = mix(spec.id[1]);
  }
  spec.rank = comm.rank;
  spec.size = comm.size;
  spec.members = comm.members.data();
  spec.hosted = true;
  spec.waits = blocking;
  return state.job->create_team(spec, team);
}

// True on all members when it is true on all of them. Collective over the communicator.
bool all_members(const Comm& comm, bool mine) {
  const NativeCall inside;
  int value = mine ? 1 : 0, all = 0;
  return native.Allreduce(&value, &all, 1, MPI_INT, MPI_MIN, comm.handle) == MPI_SUCCESS &&
         all == 1;
}

// A team on all members or on none (`*team` is nullptr then). An error is that a member is lost.
Status create_everywhere(const Comm& comm, Team** team) {
  Status status = create_team(comm, true, team);
  bool served = status.ok();
  if (comm.spans) {
    served = all_members(comm, served);
  } else if (served) {
    status = state.job->meet(**team);
    served = status.ok();
    if (!served && status.code != Code::no_memory) return status;
  }
  if (served) return Status::success();
  log(LogLevel::info, "a communicator of %d ranks stays with the MPI: %s", comm.size,
      status.detail != nullptr ? status.detail : "a member has no room for it");
  if (*team != nullptr) state.job->discard_team(*team);
  *team = nullptr;
  return Status::success();
}

}  // namespace

bool world_ranks(MPI_Comm comm, int size, std::vector<std::int32_t>* members) {
  MPI_Group group{};
  if (native.Comm_group(comm, &group) != MPI_SUCCESS) return false;
  std::vector<int> all(static_cast<std::size_t>(size));
  for (int i = 0; i < size; ++i) all[static_cast<std::size_t>(i)] = i;
  members->resize(static_cast<std::size_t>(size));
  const int code =
      native.Group_translate_ranks(group, size, all.data(), state.world_group, members->data());
  native.Group_free(&group);
  if (code != MPI_SUCCESS) return false;
  for (const std::int32_t member : *members) {
    if (member < 0) return false;  // MPI_UNDEFINED: not of this world
  }
  return true;
}

void settle_messages(Comm& comm) noexcept {
  if (state.messages == nullptr || !find_members(comm)) return;
  std::uint64_t id[2];
  number(comm, id);
  comm.group = std::make_unique<Group>(id, comm.rank, comm.size, comm.members.data());
}

Status open_blocking(Comm& comm) noexcept {
  if (comm.serves_blocking != Comm::Served::unknown) return Status::success();
  if (find_members(comm)) TUTTI_TRY(create_everywhere(comm, &comm.team));
  drop_members(comm);
  comm.serves_blocking = comm.team != nullptr ? Comm::Served::yes : Comm::Served::no;
  return Status::success();
}

Status open_nonblocking(Comm& comm) noexcept {
  if (comm.serves_nonblocking != Comm::Served::unknown) return Status::success();
  if (find_members(comm)) TUTTI_TRY(create_team(comm, false, &comm.nonblocking));
  drop_members(comm);
  comm.serves_nonblocking = comm.nonblocking != nullptr ? Comm::Served::yes : Comm::Served::no;
  return Status::success();
}

void close_teams(Comm& comm) noexcept {
  if (comm.group) state.messages->give_up(*comm.group);
  comm.group.reset();
  for (Team** team : {&comm.team, &comm.nonblocking}) {
    if (*team != nullptr) state.job->release_team(*team);
    *team = nullptr;
  }
}

}  // namespace tutti::mpi
