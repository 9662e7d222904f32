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

std::size_t first_difference(const std::vector<std::uint64_t>& values) {
  std::vector<long long> mine;
  for (const std::uint64_t value : values) {
    mine.push_back(static_cast<long long>(value));
    mine.push_back(~static_cast<long long>(value));
  }
  std::vector<long long> least(mine.size());
  native.Allreduce(mine.data(), least.data(), static_cast<int>(mine.size()), MPI_LONG_LONG, MPI_MIN,
                   MPI_COMM_WORLD);
  std::size_t at = 0;
  while (at < values.size() && least[2 * at] == ~least[2 * at + 1]) ++at;
  return at;
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
