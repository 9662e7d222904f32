#include "mpi/plugin/data.hpp"

#include "mpi/plugin/native.hpp"

namespace tutti::mpi {
namespace {

// Whether this MPI calls a send buffer that is the receive buffer an error, by collective. Written
// inside MPI_Init.
bool alias_errors[kColls] = {};

}  // namespace

bool alias_is_error(Coll coll) noexcept { return alias_errors[static_cast<int>(coll)]; }

void learn_argument_checks() noexcept {
  int x = 0;
  const auto learn = [](Coll coll, int code) {
    alias_errors[static_cast<int>(coll)] = code != MPI_SUCCESS;
  };
  // A communicator of its own, so that the program's error handlers are left alone.
  MPI_Comm self = MPI_COMM_NULL;
  if (native.Comm_dup(MPI_COMM_SELF, &self) != MPI_SUCCESS) return;
  native.Comm_set_errhandler(self, MPI_ERRORS_RETURN);
  learn(Coll::reduce, native.Reduce(&x, &x, 1, MPI_INT, MPI_SUM, 0, self));
  learn(Coll::allreduce, native.Allreduce(&x, &x, 1, MPI_INT, MPI_SUM, self));
  learn(Coll::reduce_scatter_block, native.Reduce_scatter_block(&x, &x, 1, MPI_INT, MPI_SUM, self));
  learn(Coll::allgather, native.Allgather(&x, 1, MPI_INT, &x, 1, MPI_INT, self));
  learn(Coll::gather, native.Gather(&x, 1, MPI_INT, &x, 1, MPI_INT, 0, self));
  learn(Coll::scatter, native.Scatter(&x, 1, MPI_INT, &x, 1, MPI_INT, 0, self));
  learn(Coll::alltoall, native.Alltoall(&x, 1, MPI_INT, &x, 1, MPI_INT, self));
  const int one = 1, none = 0;
  MPI_Datatype type = MPI_INT;
  learn(Coll::reduce_scatter, native.Reduce_scatter(&x, &x, &one, MPI_INT, MPI_SUM, self));
  learn(Coll::scan, native.Scan(&x, &x, 1, MPI_INT, MPI_SUM, self));
  learn(Coll::exscan, native.Exscan(&x, &x, 1, MPI_INT, MPI_SUM, self));
  learn(Coll::gatherv, native.Gatherv(&x, 1, type, &x, &one, &none, type, 0, self));
  learn(Coll::scatterv, native.Scatterv(&x, &one, &none, type, &x, 1, type, 0, self));
  learn(Coll::alltoallv, native.Alltoallv(&x, &one, &none, type, &x, &one, &none, type, self));
  learn(Coll::alltoallw, native.Alltoallw(&x, &one, &none, &type, &x, &one, &none, &type, self));
  native.Comm_free(&self);
}

}  // namespace tutti::mpi
