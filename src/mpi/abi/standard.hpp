// The standard ABI of MPI-5.
#pragma once

#include "mpi/generated/abi_standard.hpp"

#include "mpi/abi/usual.hpp"

namespace tutti::mpi {

struct Abi : UsualAbi {};

}  // namespace tutti::mpi
