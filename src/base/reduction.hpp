// Reductions: what an allreduce, reduce or reduce_scatter does with two operands.
//
// The kernels are elementwise and order-preserving: fold(left, right, out) computes
// out[i] = left[i] (op) right[i] for every element, so a caller that keeps the operands in rank
// order gets the same bits on every rank.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/status.hpp"

namespace tutti {

/// MPI's predefined operators (MPI-4.1 section 6.9.2).
enum class Op : std::uint8_t {
  sum,
  prod,
  min,
  max,
  land,
  lor,
  lxor,
  band,
  bor,
  bxor,
  minloc,
  maxloc,
  replace,
  no_op
};

/// Element types for which there are kernels. The pair types are those of MINLOC and MAXLOC and
/// have the layout of the C struct {value; index} (including its padding), or, for the Fortran
/// pairs, of two consecutive values of the same type.
enum class Type : std::uint8_t {
  i8,
  i16,
  i32,
  i64,
  u8,
  u16,
  u32,
  u64,
  f16,
  bf16,
  f32,
  f64,
  long_double,
  f128,
  c32,
  c64,
  c_long_double,  // complex of float, double, long double
  bool8,
  bool32,
  byte,  // bool8: C/C++ bool; bool32: Fortran LOGICAL of 4 bytes
  logical8,
  logical16,
  logical64,  // Fortran LOGICAL*1, *2, *8
  pair_f32_i32,
  pair_f64_i32,
  pair_i64_i32,
  pair_i16_i32,
  pair_i32_i32,
  pair_long_double_i32,
  pair_f32_f32,
  pair_f64_f64,  // MPI_2REAL, MPI_2DOUBLE_PRECISION
  count_         // number of types; not a type
};

struct Reduction;

/// out[i] = left[i] (op) right[i], i in [0, count). `out` may be `left` or `right` (whole overlap
/// or none). Pointers need the alignment of the element type only where they come from the user;
/// kernels must accept any alignment. Thread-safe.
using FoldFunction = void (*)(const void* left, const void* right, void* out, std::size_t count,
                              const Reduction& reduction);

/// The operands of a fold, by member: where each vector begins, computed when it is asked for, so
/// that no list of them is needed. Valid during one call.
struct Operands {
  const void* operator[](int member) const { return vector_of(self, member); }

  const void* (*vector_of)(const void* self, int member);
  const void* self;
  int count;  // 1 to 2^31 - 1
};

/// out[i] = the sum of element i of all operands, whatever their order, i in [0, count). `out` may
/// be one of the operands, or begin before it. Any alignment. Thread-safe.
using SumFunction = void (*)(const Operands& operands, void* out, std::size_t count);

/// A reduction: how to combine, and how large an element is. Does not own `context`.
struct Reduction {
  FoldFunction fold = nullptr;
  std::uint32_t element_bytes = 1;  // stride between elements in memory (with padding)
  bool commutative = true;
  bool divisible = true;      // a vector may be cut at any element; false: only folded as a whole
  bool any_thread = true;     // false: fold may call the host MPI, so only in blocking calls
  SumFunction sum = nullptr;  // set: all operands have to be folded at once, by this
  void* context = nullptr;    // for folds supplied by the host (user-defined operators)
  // What find_reduction() was asked for, so that another process can ask for the same; kNoName for
  // folds of the host's own.
  static constexpr std::uint8_t kNoName = 0xff;
  std::uint8_t op = kNoName, type = kNoName;
};

/// The kernel for (op, type). Returns false where MPI does not define the combination (band on
/// floats, land on complex, minloc on a scalar, ...); `*out` is set only on success. The widest
/// vector instructions of this machine are chosen at run time. Thread-safe.
bool find_reduction(Op op, Type type, Reduction* out) noexcept;

/// Bytes from one element to the next in memory, padding included. Thread-safe.
std::size_t extent_bytes(Type type) noexcept;

const char* name(Op op) noexcept;
const char* name(Type type) noexcept;

}  // namespace tutti
