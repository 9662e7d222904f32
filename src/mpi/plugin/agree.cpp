#include "mpi/plugin/agree.hpp"

#include <climits>
#include <cstddef>

#include "base/log.hpp"
#include "mpi/plugin/state.hpp"

namespace tutti::mpi {

bool all_ranks(bool mine) {
  int in = mine, out = 0;
  return native.Allreduce(&in, &out, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD) == MPI_SUCCESS &&
         out != 0;
}

// The least of each half, and of what it lacks: where these belong together all are equal. In ints,
// since the preload knows no other type (TUTTI_FIRST_EXCHANGE_INTS).
std::size_t first_difference(const std::vector<std::uint64_t>& values) {
  std::vector<int> mine;
  for (const std::uint64_t value : values) {
    for (const std::uint64_t half : {value & 0xffffffff, value >> 32}) {
      mine.push_back(static_cast<int>(half));
      mine.push_back(~static_cast<int>(half));
    }
  }
  std::vector<int> least(mine.size());
  native.Allreduce(mine.data(), least.data(), static_cast<int>(mine.size()), MPI_INT, MPI_MIN,
                   MPI_COMM_WORLD);
  std::size_t half = 0;
  while (half < mine.size() / 2 && least[2 * half] == ~least[2 * half + 1]) ++half;
  return half / 2;
}

bool equal_on_all_ranks(std::uint64_t value) { return first_difference({value}) == 1; }

void say_once(bool mine, const char* text) {
  int in = mine ? state.rank : INT_MAX, out = INT_MAX;
  native.Allreduce(&in, &out, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  if (mine && out == state.rank) {
    log(LogLevel::error, "%s; the program runs on its own MPI", text);
  }
}

}  // namespace tutti::mpi
