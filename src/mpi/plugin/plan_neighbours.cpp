// Plans of the collectives between neighbours: what they send and receive becomes parcels. Whether
// tutti takes a call depends on the communicator and the collective alone.
#include <algorithm>
#include <new>

#include "mpi/plugin/neighbours.hpp"
#include "mpi/plugin/plan_listed.hpp"

namespace tutti::mpi {
namespace {

template <class Args>
ListedSide sent_of(const Args& args) noexcept {
  ListedSide side;
  if constexpr (requires { args.sendtypes; }) {
    side.set_all(args.sendbuf, args.sendcounts, args.sdispls, args.sendtypes);
  } else if constexpr (requires { args.sendcounts; }) {
    side.set_all(args.sendbuf, args.sendcounts, args.sdispls, args.sendtype);
  } else if constexpr (Args::kColl == Coll::neighbor_alltoall) {
    side.set_each({args.sendbuf, args.sendcount, args.sendtype});
  } else {
    side.set_same({args.sendbuf, args.sendcount, args.sendtype});
  }
  return side;
}

template <class Args>
ListedSide received_of(const Args& args) noexcept {
  ListedSide side;
  if constexpr (requires { args.recvtypes; }) {
    side.set_all(args.recvbuf, args.recvcounts, args.rdispls, args.recvtypes);
  } else if constexpr (requires { args.rdispls; }) {
    side.set_all(args.recvbuf, args.recvcounts, args.rdispls, args.recvtype);
  } else if constexpr (requires { args.recvcounts; }) {
    side.set_all(args.recvbuf, args.recvcounts, args.displs, args.recvtype);
  } else {
    side.set_each({args.recvbuf, args.recvcount, args.recvtype});
  }
  return side;
}

/// The blocks of a side, of which the n-th one is number index_of(n) of the buffer. Of a rank
/// without neighbours nothing is looked at.
template <class IndexOf>
Reason read_blocks(const ListedSide& side, const std::vector<int>& members, IndexOf index_of,
                   std::vector<Block>* out) {
  if (members.empty()) return Reason::none;
  TUTTI_PLAN_TRY(side.check());
  for (int n = 0; n < static_cast<int>(members.size()); ++n) {
    const int index = index_of(n);
    Block block{members[static_cast<std::size_t>(index)], {}};
    TUTTI_PLAN_TRY(side.read(index, &block.data));
    if (block.member >= 0 && block.data.bytes != 0) out->push_back(block);
  }
  std::stable_sort(out->begin(), out->end(),
                   [](const Block& a, const Block& b) { return a.member < b.member; });
  return Reason::none;
}

/// Calls add(member, data, bytes) for those, in the same order. False where one is not plain.
template <class IndexOf, class Add>
bool each_plain(const ListedSide& side, const std::vector<int>& members, IndexOf index_of,
                Add add) {
  return side.with_plain([&](auto read) {
    std::byte* data = nullptr;
    std::size_t bytes = 0;
    for (int n = 0; n < static_cast<int>(members.size()); ++n) {
      const int index = index_of(n);
      if (!read(index, &data, &bytes)) return false;
      const int member = members[static_cast<std::size_t>(index)];
      if (member >= 0) add(member, data, bytes);
    }
    return true;
  });
}

}  // namespace

template <class Args>
Reason plan_neighbours(const Args& args, const Comm& comm, bool blocking, Plan* plan) {
  const Neighbours* const neighbours = neighbours_of(comm);
  if (neighbours == nullptr) return Reason::arguments;
  ListedBlocks blocks;
  blocks.one_sent =
      Args::kColl == Coll::neighbor_allgather || Args::kColl == Coll::neighbor_allgatherv;
  TUTTI_PLAN_TRY(read_blocks(
      sent_of(args), neighbours->destinations, [](int n) { return n; }, &blocks.sent));
  TUTTI_PLAN_TRY(read_blocks(
      received_of(args), neighbours->sources, [&](int n) { return neighbours->received_as(n); },
      &blocks.received));
  // The core is asked all the same: it counts the calls that it leaves.
  if (left(*team_of(comm, blocking), plan->call) != Reason::none) return Reason::none;
  return make_parcels(blocks, comm, plan);
}

template <class Args>
bool read_plain_neighbours(const Args& args, Comm* comm) noexcept {
  ListedSide sent = sent_of(args), received = received_of(args);
  if (args.sendbuf == args.recvbuf || !sent.may_be_plain() || !received.may_be_plain())
    return false;
  Parcels* const parcels = plain_parcels(comm);
  if (parcels == nullptr) return false;
  try {
    const Neighbours* const neighbours = neighbours_of(*comm);
    if (neighbours == nullptr || neighbours->most_alike > Parcels::kMostEach) return false;
    const auto same = [](int n) { return n; };
    const auto received_as = [&](int n) { return neighbours->received_as(n); };
    const auto send = [&](int to, const std::byte* data, std::size_t bytes) {
      parcels->send(to, data, bytes);
    };
    const auto receive = [&](int from, std::byte* data, std::size_t bytes) {
      parcels->receive(from, data, bytes);
    };
    if (!each_plain(sent, neighbours->destinations, same, send) ||
        !each_plain(received, neighbours->sources, received_as, receive))
      return false;
  } catch (const std::bad_alloc&) {
    return false;
  }
  parcels->arrange();
  return true;
}

template Reason plan_neighbours(const Neighbor_allgatherArgs&, const Comm&, bool, Plan*);
template bool read_plain_neighbours(const Neighbor_allgatherArgs&, Comm*) noexcept;
template Reason plan_neighbours(const Neighbor_allgathervArgs&, const Comm&, bool, Plan*);
template bool read_plain_neighbours(const Neighbor_allgathervArgs&, Comm*) noexcept;
template Reason plan_neighbours(const Neighbor_alltoallArgs&, const Comm&, bool, Plan*);
template bool read_plain_neighbours(const Neighbor_alltoallArgs&, Comm*) noexcept;
template Reason plan_neighbours(const Neighbor_alltoallvArgs&, const Comm&, bool, Plan*);
template bool read_plain_neighbours(const Neighbor_alltoallvArgs&, Comm*) noexcept;
template Reason plan_neighbours(const Neighbor_alltoallwArgs&, const Comm&, bool, Plan*);
template bool read_plain_neighbours(const Neighbor_alltoallwArgs&, Comm*) noexcept;

}  // namespace tutti::mpi
