#include "mpi/plugin/agree.hpp"

#include <climits>

#include "base/log.hpp"
#include "mpi/plugin/state.hpp"

namespace tutti::mpi {

bool all_ranks(bool mine) {
  int in = mine, out = 0;
  return native.Allreduce(&in, &out, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD) == MPI_SUCCESS &&
         out != 0;
}

bool equal_on_all_ranks(std::uint64_t value) {
  const long long mine[2] = {static_cast<long long>(value), ~static_cast<long long>(value)};
  long long least[2] = {0, 0};
  native.Allreduce(mine, least, 2, MPI_LONG_LONG, MPI_MIN, MPI_COMM_WORLD);
  return least[0] == ~least[1];
}

void say_once(bool mine, const char* text) {
  int in = mine ? state.rank : INT_MAX, out = INT_MAX;
  native.Allreduce(&in, &out, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  if (mine && out == state.rank) {
    log(LogLevel::error, "%s; the program runs on its own MPI", text);
  }
}

}  // namespace tutti::mpi
