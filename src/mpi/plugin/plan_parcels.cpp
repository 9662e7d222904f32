// Plans of the collectives of which each rank knows but its own counts: what it sends and receives
// becomes parcels. Whether tutti takes a call depends on the communicator and the collective alone.
#include <new>

#include "mpi/plugin/plan_listed.hpp"
#include "mpi/plugin/sides.hpp"

namespace tutti::mpi {
namespace {

/// Both sides. In place, alltoallv and alltoallw send what is where they receive; of the others the
/// root's own block stays where it is.
struct ListedSides {
  ListedSide sent, received;
  bool in_place = false;
};

void read_sides(const GathervArgs& args, int rank, ListedSides* out) {
  const bool root = rank == args.root;
  out->in_place = root && args.sendbuf == MPI_IN_PLACE;
  if (!out->in_place) out->sent.set_one(args.root, {args.sendbuf, args.sendcount, args.sendtype});
  if (root) out->received.set_all(args.recvbuf, args.recvcounts, args.displs, args.recvtype);
}

void read_sides(const ScattervArgs& args, int rank, ListedSides* out) {
  const bool root = rank == args.root;
  out->in_place = root && args.recvbuf == MPI_IN_PLACE;
  if (!out->in_place)
    out->received.set_one(args.root, {args.recvbuf, args.recvcount, args.recvtype});
  if (root) out->sent.set_all(args.sendbuf, args.sendcounts, args.displs, args.sendtype);
}

void read_sides(const AlltoallvArgs& args, int /*rank*/, ListedSides* out) {
  out->in_place = args.sendbuf == MPI_IN_PLACE;
  out->received.set_all(args.recvbuf, args.recvcounts, args.rdispls, args.recvtype);
  if (!out->in_place) out->sent.set_all(args.sendbuf, args.sendcounts, args.sdispls, args.sendtype);
}

void read_sides(const AlltoallwArgs& args, int /*rank*/, ListedSides* out) {
  out->in_place = args.sendbuf == MPI_IN_PLACE;
  out->received.set_all(args.recvbuf, args.recvcounts, args.rdispls, args.recvtypes);
  if (!out->in_place)
    out->sent.set_all(args.sendbuf, args.sendcounts, args.sdispls, args.sendtypes);
}

/// Whether this MPI calls buffers that are the same an error, and they are.
template <class Args>
bool same_buffers(const Args& args, const Data& sent, const Data& received) noexcept {
  if constexpr (requires { args.sdispls; }) {
    // It looks only where lists and types are the same, too.
    bool same_types = false;
    if constexpr (requires { args.sendtypes; }) {
      same_types = args.sendtypes == args.recvtypes;
    } else {
      same_types = args.sendtype == args.recvtype;
    }
    return same_types && args.sendbuf == args.recvbuf && args.sendcounts == args.recvcounts &&
           received.bytes != 0 && alias_is_error(Args::kColl);
  } else {
    return sent.bytes != 0 && args.sendbuf == args.recvbuf && aliased(Args::kColl, sent, received);
  }
}

/// By distance, as parcels are; what the rank keeps for itself comes first, empty or not.
Reason read_blocks(const ListedSides& sides, const Comm& comm, ListedBlocks* out) {
  TUTTI_PLAN_TRY(sides.sent.check());
  TUTTI_PLAN_TRY(sides.received.check());
  const auto add = [](const ListedSide& side, int member, bool always, std::vector<Block>* blocks) {
    Block block{member, {}};
    TUTTI_PLAN_TRY(side.read(member, &block.data));
    if (always || block.data.bytes != 0) blocks->push_back(block);
    return Reason::none;
  };
  for (int d = 0; d < comm.size; ++d) {
    const int to = (comm.rank + d) % comm.size, from = (comm.rank - d + comm.size) % comm.size;
    TUTTI_PLAN_TRY(add(sides.sent, to, d == 0, &out->sent));
    TUTTI_PLAN_TRY(add(sides.received, from, d == 0, &out->received));
  }
  return Reason::none;
}

/// Those that are exchanged; in place a rank keeps its own block where it is.
void settle(const ListedSides& sides, bool exchanges, ListedBlocks* blocks) {
  const auto drop_own = [](std::vector<Block>& side, bool always) {
    if (always || side.front().data.bytes == 0) side.erase(side.begin());
  };
  drop_own(blocks->sent, sides.in_place);
  drop_own(blocks->received, sides.in_place);
  if (!sides.in_place || !exchanges) return;
  blocks->sent = blocks->received;  // the same members: arranged with the parcels
  blocks->copies_sent = true;
}

/// Calls add(member, data, bytes) for the blocks of a side by distance, which grows with the rank
/// or against it. False where one is not plain.
template <class Add>
bool each_plain(const ListedSide& side, const Comm& comm, bool rising, Add add) {
  return side.with_plain([&](auto read) {
    std::byte* data = nullptr;
    std::size_t bytes = 0;
    const int only = side.only(), last = comm.size - 1;
    int member = only >= 0 ? only : comm.rank;
    for (int left = only >= 0 ? 1 : comm.size; left > 0; --left) {
      if (!read(member, &data, &bytes)) return false;
      add(member, data, bytes);
      if (rising) {
        member = member == last ? 0 : member + 1;
      } else {
        member = member == 0 ? last : member - 1;
      }
    }
    return true;
  });
}

}  // namespace

template <class Args>
Reason plan_parcels(const Args& args, const Comm& comm, bool blocking, Plan* plan) {
  constexpr bool exchanges = requires { args.sdispls; };
  ListedSides sides;
  read_sides(args, comm.rank, &sides);
  ListedBlocks blocks;
  TUTTI_PLAN_TRY(read_blocks(sides, comm, &blocks));
  if (!sides.in_place && same_buffers(args, blocks.sent.front().data, blocks.received.front().data))
    return Reason::arguments;
  // The core is asked all the same: it counts the calls that it leaves.
  if (left(*team_of(comm, blocking), plan->call) != Reason::none) return Reason::none;
  settle(sides, exchanges, &blocks);
  return make_parcels(blocks, comm, plan);
}

template <class Args>
bool read_plain_parcels(const Args& args, Comm* comm) noexcept {
  if constexpr (requires { args.root; })
    if (args.root < 0 || args.root >= comm->size) return false;
  ListedSides sides;
  read_sides(args, comm->rank, &sides);
  if (sides.in_place || args.sendbuf == args.recvbuf || !sides.sent.may_be_plain() ||
      !sides.received.may_be_plain())
    return false;
  Parcels* const parcels = plain_parcels(comm);
  if (parcels == nullptr) return false;
  const auto send = [&](int member, const std::byte* data, std::size_t bytes) {
    parcels->send(member, data, bytes);
  };
  const auto receive = [&](int member, std::byte* data, std::size_t bytes) {
    parcels->receive(member, data, bytes);
  };
  try {
    if (!each_plain(sides.sent, *comm, true, send) ||
        !each_plain(sides.received, *comm, false, receive))
      return false;
  } catch (const std::bad_alloc&) {
    return false;
  }
  parcels->arrange_added();
  return true;
}

template Reason plan_parcels(const GathervArgs&, const Comm&, bool, Plan*);
template bool read_plain_parcels(const GathervArgs&, Comm*) noexcept;
template Reason plan_parcels(const ScattervArgs&, const Comm&, bool, Plan*);
template bool read_plain_parcels(const ScattervArgs&, Comm*) noexcept;
template Reason plan_parcels(const AlltoallvArgs&, const Comm&, bool, Plan*);
template bool read_plain_parcels(const AlltoallvArgs&, Comm*) noexcept;
template Reason plan_parcels(const AlltoallwArgs&, const Comm&, bool, Plan*);
template bool read_plain_parcels(const AlltoallwArgs&, Comm*) noexcept;

}  // namespace tutti::mpi
