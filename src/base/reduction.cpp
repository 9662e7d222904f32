#include "base/reduction.hpp"

#include <complex>

#include "base/pairs.hpp"
#include "base/reduction_kernels.hpp"

namespace tutti {

bool find_reduction(Op op, Type type, Isa isa, Reduction* out) noexcept {
  FoldFunction fold = find_integer_kernel(op, type, isa);
  if (fold == nullptr) fold = find_float_kernel(op, type, isa);
  if (fold == nullptr) fold = find_half_kernel(op, type, isa);
  if (fold == nullptr) fold = find_wide_kernel(op, type);
  if (fold == nullptr) fold = find_pair_kernel(op, type, isa);
  if (fold == nullptr) return false;
  // Every predefined operator commutes, may be cut anywhere and needs nothing of the host.
  Reduction reduction;
  reduction.fold = fold;
  reduction.element_bytes = static_cast<std::uint32_t>(extent_bytes(type));
  reduction.op = static_cast<std::uint8_t>(op);
  reduction.type = static_cast<std::uint8_t>(type);
  *out = reduction;
  return true;
}

bool find_reduction(Op op, Type type, Reduction* out) noexcept {
  return find_reduction(op, type, widest_isa(), out);
}

std::size_t extent_bytes(Type type) noexcept {
  switch (type) {
    case Type::i8:
    case Type::u8:
    case Type::bool8:
    case Type::logical8:
    case Type::byte:
      return 1;
    case Type::i16:
    case Type::u16:
    case Type::f16:
    case Type::bf16:
    case Type::logical16:
      return 2;
    case Type::i32:
    case Type::u32:
    case Type::f32:
    case Type::bool32:
      return 4;
    case Type::i64:
    case Type::u64:
    case Type::f64:
    case Type::logical64:
    case Type::c32:
      return 8;
    case Type::f128:
    case Type::c64:
      return 16;
    case Type::long_double:
      return sizeof(long double);
    case Type::c_long_double:
      return sizeof(std::complex<long double>);
    default:
      return with_pair(type, std::size_t{0}, []<class P>() { return sizeof(P); });
  }
}

const char* name(Op op) noexcept {
  switch (op) {
    case Op::sum:
      return "sum";
    case Op::prod:
      return "prod";
    case Op::min:
      return "min";
    case Op::max:
      return "max";
    case Op::land:
      return "land";
    case Op::lor:
      return "lor";
    case Op::lxor:
      return "lxor";
    case Op::band:
      return "band";
    case Op::bor:
      return "bor";
    case Op::bxor:
      return "bxor";
    case Op::minloc:
      return "minloc";
    case Op::maxloc:
      return "maxloc";
    case Op::replace:
      return "replace";
    case Op::no_op:
      return "no_op";
  }
  return "?";
}

const char* name(Type type) noexcept {
  switch (type) {
    case Type::i8:
      return "i8";
    case Type::i16:
      return "i16";
    case Type::i32:
      return "i32";
    case Type::i64:
      return "i64";
    case Type::u8:
      return "u8";
    case Type::u16:
      return "u16";
    case Type::u32:
      return "u32";
    case Type::u64:
      return "u64";
    case Type::f16:
      return "f16";
    case Type::bf16:
      return "bf16";
    case Type::f32:
      return "f32";
    case Type::f64:
      return "f64";
    case Type::long_double:
      return "long double";
    case Type::f128:
      return "f128";
    case Type::c32:
      return "c32";
    case Type::c64:
      return "c64";
    case Type::c_long_double:
      return "complex long double";
    case Type::bool8:
      return "bool8";
    case Type::bool32:
      return "bool32";
    case Type::byte:
      return "byte";
    case Type::logical8:
      return "logical8";
    case Type::logical16:
      return "logical16";
    case Type::logical64:
      return "logical64";
    case Type::pair_f32_i32:
      return "f32+i32";
    case Type::pair_f64_i32:
      return "f64+i32";
    case Type::pair_i64_i32:
      return "i64+i32";
    case Type::pair_i16_i32:
      return "i16+i32";
    case Type::pair_i32_i32:
      return "i32+i32";
    case Type::pair_long_double_i32:
      return "long double+i32";
    case Type::pair_f32_f32:
      return "f32+f32";
    case Type::pair_f64_f64:
      return "f64+f64";
    case Type::count_:
      break;
  }
  return "?";
}

}  // namespace tutti
