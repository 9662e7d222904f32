// What all processes of the MPI's world must agree on inside MPI_Init. Collective over that world.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tutti::mpi {

/// That first_difference() exchanges for each value.
inline constexpr std::size_t kIntsPerValue = 4;

/// True when it is true on all ranks.
bool all_ranks(bool mine);
/// True when `value` is the same on all ranks.
bool equal_on_all_ranks(std::uint64_t value);
/// The place of the first value that is not the same on all ranks; their number when all are. The
/// ranks must bring equally many.
std::size_t first_difference(const std::vector<std::uint64_t>& values);
/// The lowest rank that has something to say says it: one line for the whole job.
void say_once(bool mine, const char* text);

}  // namespace tutti::mpi
