// A collective call: what is to be done, in bytes and reductions, without any MPI types.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/reduction.hpp"

namespace tutti {

class Parcels;

enum class Coll : std::uint8_t {
  barrier,
  bcast,
  reduce,
  allreduce,
  allgather,
  allgatherv,
  gather,
  scatter,
  reduce_scatter_block,
  alltoall,
  reduce_scatter,
  scan,
  exscan,
  gatherv,
  scatterv,
  alltoallv,
  alltoallw,
  neighbor_allgather,
  neighbor_allgatherv,
  neighbor_alltoall,
  neighbor_alltoallv,
  neighbor_alltoallw,
  count_  // number of collectives; not a collective
};
inline constexpr int kColls = static_cast<int>(Coll::count_);

/// The collective's name as in settings and reports ("allreduce"). Static string.
const char* name(Coll coll) noexcept;

/// One collective call. Buffers hold packed bytes (or elements at their extent for reductions),
/// belong to the caller, and must stay valid and unchanged until the operation completes.
/// In place is expressed by pointers: bcast uses only `recv`; reduce (root), allreduce,
/// reduce_scatter_block, reduce_scatter, scan, exscan: send == recv; allgather, gather (root):
/// send == recv + own offset; scatter (root): recv == send + own offset; alltoall: send == recv.
/// Exscan leaves `recv` of rank 0 alone.
struct Call {
  Coll coll = Coll::barrier;
  bool copied = false;  // the host copies before and after: it says what a trial took (Job::took)
  std::int32_t root = 0;
  const void* send = nullptr;
  void* recv = nullptr;
  /// Bytes: of the whole vector for bcast, reduce, allreduce, scan, exscan; of one rank's block for
  /// the others. Equal on all ranks. For allgatherv and reduce_scatter: of all blocks together.
  std::size_t bytes = 0;
  const Reduction* reduction = nullptr;  // by reference: must outlive the operation
  /// Bytes of each rank's block (team size entries): allgatherv, and reduce_scatter, whose blocks
  /// follow each other in `send`.
  const std::size_t* counts = nullptr;
  const std::size_t* displs = nullptr;  // allgatherv: offset of each block in recv, in bytes
  /// Where each rank knows but its own counts (has_parcels): what this rank sends and receives, in
  /// place of all of that: bytes is 0 on all ranks. By reference: must outlive the operation.
  const Parcels* parcels = nullptr;
};

/// Collectives between neighbours in a topology, of which each rank knows but its own.
constexpr bool has_neighbours(Coll coll) noexcept {
  return coll >= Coll::neighbor_allgather && coll <= Coll::neighbor_alltoallw;
}

/// Collectives of which each rank knows but its own counts.
constexpr bool has_parcels(Coll coll) noexcept {
  return coll == Coll::gatherv || coll == Coll::scatterv || coll == Coll::alltoallv ||
         coll == Coll::alltoallw || has_neighbours(coll);
}

/// Collectives in which a rank may wait for data without having any to send.
constexpr bool goes_one_way(Coll coll) noexcept {
  return coll == Coll::bcast || coll == Coll::reduce || coll == Coll::gather ||
         coll == Coll::scatter || coll == Coll::gatherv || coll == Coll::scatterv ||
         coll == Coll::scan || coll == Coll::exscan;
}

/// Collectives with an operator.
constexpr bool reduces(Coll coll) noexcept {
  return coll == Coll::reduce || coll == Coll::allreduce || coll == Coll::reduce_scatter_block ||
         coll == Coll::reduce_scatter || coll == Coll::scan || coll == Coll::exscan;
}

/// True when no algorithm has to run: there are no bytes, and nobody has to wait for anybody.
inline bool moves_nothing(const Call& call) noexcept {
  return call.bytes == 0 && call.coll != Coll::barrier && !has_parcels(call.coll);
}

/// The collective of a team of one: the own block, put where it belongs. Algorithms need two
/// members.
void run_on_one_rank(const Call& call) noexcept;

}  // namespace tutti
