// How fast the kernels are beside MPI_Reduce_local of a real MPI, and beside memcpy: the least of
// interleaved rounds, in nanoseconds per call. Run alone, without a launcher.
//   time_reduce_local [ISA]    ISA: 0 baseline, 1 AVX2, 2 AVX-512; default: the widest
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/reduction_kernels.hpp"

namespace tutti {
namespace {

struct Subject {
  Op op;
  MPI_Op mpi_op;
  Type type;
  MPI_Datatype mpi_type;
};

std::vector<Subject> subjects() {
  return {
      {Op::sum, MPI_SUM, Type::f64, MPI_DOUBLE},
      {Op::sum, MPI_SUM, Type::f32, MPI_FLOAT},
      {Op::max, MPI_MAX, Type::f64, MPI_DOUBLE},
      {Op::max, MPI_MAX, Type::f32, MPI_FLOAT},
      {Op::sum, MPI_SUM, Type::i32, MPI_INT},
      {Op::sum, MPI_SUM, Type::i8, MPI_SIGNED_CHAR},
      {Op::prod, MPI_PROD, Type::u8, MPI_UINT8_T},
      {Op::prod, MPI_PROD, Type::i64, MPI_INT64_T},
      {Op::max, MPI_MAX, Type::u64, MPI_UINT64_T},
      {Op::land, MPI_LAND, Type::i32, MPI_INT},
      {Op::lxor, MPI_LXOR, Type::u8, MPI_UINT8_T},
      {Op::bxor, MPI_BXOR, Type::byte, MPI_BYTE},
      {Op::prod, MPI_PROD, Type::c32, MPI_C_FLOAT_COMPLEX},
      {Op::prod, MPI_PROD, Type::c64, MPI_C_DOUBLE_COMPLEX},
      {Op::sum, MPI_SUM, Type::long_double, MPI_LONG_DOUBLE},
      {Op::prod, MPI_PROD, Type::c_long_double, MPI_C_LONG_DOUBLE_COMPLEX},
      {Op::maxloc, MPI_MAXLOC, Type::pair_f64_i32, MPI_DOUBLE_INT},
      {Op::minloc, MPI_MINLOC, Type::pair_i32_i32, MPI_2INT},
#ifdef MPIX_C_FLOAT16
      {Op::sum, MPI_SUM, Type::f16, MPIX_C_FLOAT16},
#endif
#ifdef MPIX_BFLOAT16
      {Op::sum, MPI_SUM, Type::bf16, MPIX_BFLOAT16},
#endif
  };
}

/// Nanoseconds per call, over enough calls to take 200 us.
template <class Function>
double nanoseconds(long calls, Function&& function) {
  const auto start = std::chrono::steady_clock::now();
  for (long i = 0; i < calls; ++i) function();
  const std::chrono::duration<double, std::nano> taken = std::chrono::steady_clock::now() - start;
  return taken.count() / static_cast<double>(calls);
}

void time_one(const Subject& subject, const Reduction& reduction, std::size_t bytes) {
  const std::size_t count = std::max<std::size_t>(1, bytes / reduction.element_bytes);
  bytes = count * reduction.element_bytes;
  std::vector<unsigned char> left(bytes), right(bytes);  // zeros: neither grow nor overflow
  const auto tutti_call = [&] {
    reduction.fold(left.data(), right.data(), right.data(), count, reduction);
  };
  const auto mpi_call = [&] {
    MPI_Reduce_local(left.data(), right.data(), static_cast<int>(count), subject.mpi_type,
                     subject.mpi_op);
  };
  const auto copy = [&] {
    std::memcpy(right.data(), left.data(), bytes);
    __asm__ volatile("" ::: "memory");
  };
  const long calls =
      std::max<long>(1, static_cast<long>(200e3 / (5 + static_cast<double>(bytes) / 20)));
  double best[3] = {1e18, 1e18, 1e18};
  for (int round = 0; round < 25; ++round) {
    best[0] = std::min(best[0], nanoseconds(calls, tutti_call));
    best[1] = std::min(best[1], nanoseconds(calls, mpi_call));
    best[2] = std::min(best[2], nanoseconds(calls, copy));
  }
  std::printf("%-7s %-20s %9zu %10.1f %10.1f %10.1f %8.2f\n", name(subject.op), name(subject.type),
              bytes, best[0], best[1], best[2], best[1] / best[0]);
}

}  // namespace
}  // namespace tutti

int main(int argc, char** argv) {
  using namespace tutti;
  MPI_Init(&argc, &argv);
  const Isa isa = argc > 1 ? static_cast<Isa>(std::atoi(argv[1])) : widest_isa();
  std::printf("%-7s %-20s %9s %10s %10s %10s %8s   (%s)\n", "op", "type", "bytes", "tutti ns",
              "MPI ns", "memcpy ns", "MPI/tutti", name(isa));
  for (const Subject& subject : subjects()) {
    Reduction reduction;
    if (isa > widest_isa() || !find_reduction(subject.op, subject.type, isa, &reduction)) return 1;
    for (const std::size_t bytes : {1, 8, 24, 64, 256, 4096, 65536, 1 << 20, 4 << 20, 64 << 20}) {
      time_one(subject, reduction, bytes);
    }
  }
  MPI_Finalize();
  return 0;
}
