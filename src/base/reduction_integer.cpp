// Integers, logical values and bytes: sum prod min max land lor lxor band bor bxor.
#include "base/isa_targets.hpp"
#include "base/reduction_kernels.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "base/reduction_integer.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "base/reduction_loop-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tutti::HWY_NAMESPACE {
namespace {

struct Sum {
  using Scalar = scalar::Sum;

  template <class D, class V>
  static HWY_INLINE V combine(D, V left, V right) {
    return hn::Add(left, right);
  }
};

struct Prod {
  using Scalar = scalar::Prod;

  template <class D, class V>
  static HWY_INLINE V combine(D d, V left, V right) {
    if constexpr (hn::MaxLanes(D()) == 1) {
      return hn::Set(d, Scalar::combine(hn::GetLane(left), hn::GetLane(right)));
    } else if constexpr (sizeof(hn::TFromD<D>) == 1) {
      // Bytes have no multiplication of their own: those of even and of odd index in turn, each
      // in 16 bits, of which the lower 8 count.
      const hn::RepartitionToWide<D> wide;
      const auto l = hn::BitCast(wide, left);
      const auto r = hn::BitCast(wide, right);
      const auto even = hn::And(hn::Mul(l, r), hn::Set(wide, 0xff));
      const auto odd = hn::Mul(hn::ShiftRight<8>(l), hn::ShiftRight<8>(r));
      return hn::BitCast(d, hn::Or(even, hn::ShiftLeft<8>(odd)));
    } else {
      return hn::Mul(left, right);
    }
  }
};

struct Min {
  using Scalar = scalar::Min;

  template <class D, class V>
  static HWY_INLINE V combine(D, V left, V right) {
    return hn::Min(left, right);
  }
};

struct Max {
  using Scalar = scalar::Max;

  template <class D, class V>
  static HWY_INLINE V combine(D, V left, V right) {
    return hn::Max(left, right);
  }
};

struct And {
  using Scalar = scalar::And;

  template <class D, class V>
  static HWY_INLINE V combine(D, V left, V right) {
    return hn::And(left, right);
  }
};

struct Or {
  using Scalar = scalar::Or;

  template <class D, class V>
  static HWY_INLINE V combine(D, V left, V right) {
    return hn::Or(left, right);
  }
};

struct Xor {
  using Scalar = scalar::Xor;

  template <class D, class V>
  static HWY_INLINE V combine(D, V left, V right) {
    return hn::Xor(left, right);
  }
};

/// All bits where the lane is zero.
template <class D, class V>
HWY_INLINE V is_false(D d, V value) {
  return hn::VecFromMask(d, hn::Eq(value, hn::Zero(d)));
}

struct LogicalAnd {
  using Scalar = scalar::LogicalAnd;

  template <class D, class V>
  static HWY_INLINE V combine(D d, V left, V right) {
    return hn::AndNot(hn::Or(is_false(d, left), is_false(d, right)), hn::Set(d, 1));
  }
};

struct LogicalOr {
  using Scalar = scalar::LogicalOr;

  template <class D, class V>
  static HWY_INLINE V combine(D d, V left, V right) {
    return hn::AndNot(is_false(d, hn::Or(left, right)), hn::Set(d, 1));
  }
};

struct LogicalXor {
  using Scalar = scalar::LogicalXor;

  template <class D, class V>
  static HWY_INLINE V combine(D d, V left, V right) {
    return hn::And(hn::Xor(is_false(d, left), is_false(d, right)), hn::Set(d, 1));
  }
};

template <class Unsigned>
FoldFunction bitwise(Op op) {
  switch (op) {
    case Op::band:
      return plain_kernel<Unsigned, And>();
    case Op::bor:
      return plain_kernel<Unsigned, Or>();
    case Op::bxor:
      return plain_kernel<Unsigned, Xor>();
    default:
      return nullptr;
  }
}

template <class Unsigned>
FoldFunction logical(Op op) {
  switch (op) {
    case Op::land:
      return plain_kernel<Unsigned, LogicalAnd>();
    case Op::lor:
      return plain_kernel<Unsigned, LogicalOr>();
    case Op::lxor:
      return plain_kernel<Unsigned, LogicalXor>();
    default:
      return nullptr;
  }
}

/// Only the order of values depends on the sign; the rest is shared.
template <class T>
FoldFunction integer(Op op) {
  using Unsigned = std::make_unsigned_t<T>;
  switch (op) {
    case Op::sum:
      return plain_kernel<Unsigned, Sum>();
    case Op::prod:
      return plain_kernel<Unsigned, Prod>();
    case Op::min:
      return plain_kernel<T, Min>();
    case Op::max:
      return plain_kernel<T, Max>();
    default:
      const FoldFunction found = bitwise<Unsigned>(op);
      return found != nullptr ? found : logical<Unsigned>(op);
  }
}

FoldFunction find(Op op, Type type) {
  switch (type) {
    case Type::i8:
      return integer<std::int8_t>(op);
    case Type::i16:
      return integer<std::int16_t>(op);
    case Type::i32:
      return integer<std::int32_t>(op);
    case Type::i64:
      return integer<std::int64_t>(op);
    case Type::u8:
      return integer<std::uint8_t>(op);
    case Type::u16:
      return integer<std::uint16_t>(op);
    case Type::u32:
      return integer<std::uint32_t>(op);
    case Type::u64:
      return integer<std::uint64_t>(op);
    case Type::byte:
      return bitwise<std::uint8_t>(op);
    case Type::bool8:
    case Type::logical8:
      return logical<std::uint8_t>(op);
    case Type::logical16:
      return logical<std::uint16_t>(op);
    case Type::bool32:
      return logical<std::uint32_t>(op);
    case Type::logical64:
      return logical<std::uint64_t>(op);
    default:
      return nullptr;
  }
}

}  // namespace
}  // namespace tutti::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti {

FoldFunction find_integer_kernel(Op op, Type type, Isa isa) noexcept {
  TUTTI_RETURN_FOR_ISA(isa, find(op, type));
}

}  // namespace tutti
#endif
