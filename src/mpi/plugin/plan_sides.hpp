// What a rank has of the sides of a call, and how it is packed.
#pragma once

#include <cstddef>
#include <vector>

#include "mpi/plugin/plan.hpp"
#include "mpi/plugin/sides.hpp"

namespace tutti::mpi {

/// One side on this rank.
struct Side {
  Data all;           // its blocks; listed ones from the lowest on
  std::size_t block;  // bytes of one; of listed ones, of the rank's own
  bool here;          // the rank has it, and it is not in place; else nothing of it is set

  bool packs() const { return here && !all.dense(); }
};

struct Sides {
  Side sent, received;
  const std::vector<Data>* listed = nullptr;  // the blocks of `received`, where it has such
  bool in_place = false;                      // one side lies in the other
  bool whole = false;                         // all of it, not only the rank's own block

  // Clears no more than it must: every call makes one.
  Sides() noexcept { sent.here = received.here = false; }
};

/// Describes packed data in the place of what is not dense. Not for a call that is left to the MPI:
/// that needs no memory here.
Reason pack_sides(const Sides& sides, const Comm& comm, bool blocking, Plan* plan);

}  // namespace tutti::mpi
