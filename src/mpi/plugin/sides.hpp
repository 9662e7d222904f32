// What each collective sends and receives, and on which ranks.
#pragma once

#include <array>
#include <cstdint>

#include "coll/call.hpp"

namespace tutti::mpi {

/// The ranks that have a side; of the others MPI does not look at its arguments.
enum class Who : std::uint8_t { nobody, all, root, others };
/// What lies in its buffer: one block, one per rank, or one per rank with counts and displacements.
enum class Blocks : std::uint8_t { one, each, listed };
/// For which of its sides a rank that has both may say MPI_IN_PLACE: its data are then those of the
/// other side, or of these the rank's own block.
enum class InPlace : std::uint8_t { none, sent, received };

struct SideOf {
  Who who;
  Blocks blocks;
};

struct SidesOf {
  Coll coll;
  SideOf sent, received;
  InPlace in_place;
};

// Of each collective: who sends how many blocks, and who receives how many.
inline constexpr auto kSides = [] {
  using enum Coll;
  using enum Who;
  using enum Blocks;
  return std::to_array<SidesOf>({
      {barrier, {nobody, one}, {nobody, one}, InPlace::none},
      {bcast, {root, one}, {others, one}, InPlace::none},
      {reduce, {all, one}, {root, one}, InPlace::sent},
      {allreduce, {all, one}, {all, one}, InPlace::sent},
      {allgather, {all, one}, {all, each}, InPlace::sent},
      {allgatherv, {all, one}, {all, listed}, InPlace::sent},
      {gather, {all, one}, {root, each}, InPlace::sent},
      {scatter, {root, each}, {all, one}, InPlace::received},
      {reduce_scatter_block, {all, each}, {all, one}, InPlace::sent},
      {alltoall, {all, each}, {all, each}, InPlace::sent},
      {reduce_scatter, {all, listed}, {all, one}, InPlace::sent},
      {scan, {all, one}, {all, one}, InPlace::sent},
      {exscan, {all, one}, {all, one}, InPlace::sent},
      {gatherv, {all, one}, {root, listed}, InPlace::sent},
      {scatterv, {root, listed}, {all, one}, InPlace::received},
      {alltoallv, {all, listed}, {all, listed}, InPlace::sent},
      {alltoallw, {all, listed}, {all, listed}, InPlace::sent},
      {neighbor_allgather, {all, listed}, {all, listed}, InPlace::none},
      {neighbor_allgatherv, {all, listed}, {all, listed}, InPlace::none},
      {neighbor_alltoall, {all, listed}, {all, listed}, InPlace::none},
      {neighbor_alltoallv, {all, listed}, {all, listed}, InPlace::none},
      {neighbor_alltoallw, {all, listed}, {all, listed}, InPlace::none},
  });
}();

constexpr SidesOf sides_of(Coll coll) { return kSides[static_cast<std::size_t>(coll)]; }

static_assert([] {
  for (int i = 0; i < kColls; ++i) {
    if (sides_of(static_cast<Coll>(i)).coll != static_cast<Coll>(i)) return false;
  }
  return kSides.size() == kColls;
}());

/// Whether a rank has a side.
constexpr bool has(SideOf side, bool at_root) {
  return side.who == Who::all || (side.who == Who::root && at_root) ||
         (side.who == Who::others && !at_root);
}

}  // namespace tutti::mpi
