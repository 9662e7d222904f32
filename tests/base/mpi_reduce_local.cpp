// The kernels against MPI_Reduce_local of a real MPI: every combination that the MPI accepts must
// give the same bits, but for the deviations below, each of which is checked to be what it is said
// to be. Run alone, without a launcher.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "base/half.hpp"
#include "base/reduction_kernels.hpp"
#include "oracle.hpp"
#include "random_seed.hpp"

namespace tutti {
namespace {

struct MpiType {
  const char* mpi_name;
  MPI_Datatype handle;
  Type type;
};

/// Every predefined MPI type for which there are kernels and which this MPI has.
std::vector<MpiType> mpi_types() {
  std::vector<MpiType> types = {
#define TUTTI_ROW(handle, type) {#handle, handle, Type::type}
      TUTTI_ROW(MPI_SIGNED_CHAR, i8),
      TUTTI_ROW(MPI_INT8_T, i8),
      TUTTI_ROW(MPI_UNSIGNED_CHAR, u8),
      TUTTI_ROW(MPI_UINT8_T, u8),
      TUTTI_ROW(MPI_SHORT, i16),
      TUTTI_ROW(MPI_INT16_T, i16),
      TUTTI_ROW(MPI_UINT16_T, u16),
      TUTTI_ROW(MPI_INT, i32),
      TUTTI_ROW(MPI_INT32_T, i32),
      TUTTI_ROW(MPI_UNSIGNED, u32),
      TUTTI_ROW(MPI_UINT32_T, u32),
      TUTTI_ROW(MPI_INT64_T, i64),
      TUTTI_ROW(MPI_UINT64_T, u64),
      TUTTI_ROW(MPI_AINT, i64),
      TUTTI_ROW(MPI_COUNT, i64),
      TUTTI_ROW(MPI_INTEGER, i32),
      TUTTI_ROW(MPI_INTEGER1, i8),
      TUTTI_ROW(MPI_INTEGER2, i16),
      TUTTI_ROW(MPI_INTEGER8, i64),
      TUTTI_ROW(MPI_FLOAT, f32),
      TUTTI_ROW(MPI_DOUBLE, f64),
      TUTTI_ROW(MPI_LONG_DOUBLE, long_double),
      TUTTI_ROW(MPI_REAL, f32),
      TUTTI_ROW(MPI_DOUBLE_PRECISION, f64),
      TUTTI_ROW(MPI_REAL16, f128),
      TUTTI_ROW(MPI_C_FLOAT_COMPLEX, c32),
      TUTTI_ROW(MPI_C_DOUBLE_COMPLEX, c64),
      TUTTI_ROW(MPI_C_LONG_DOUBLE_COMPLEX, c_long_double),
      TUTTI_ROW(MPI_CXX_FLOAT_COMPLEX, c32),
      TUTTI_ROW(MPI_CXX_DOUBLE_COMPLEX, c64),
      TUTTI_ROW(MPI_COMPLEX, c32),
      TUTTI_ROW(MPI_DOUBLE_COMPLEX, c64),
      TUTTI_ROW(MPI_C_BOOL, bool8),
      TUTTI_ROW(MPI_CXX_BOOL, bool8),
      TUTTI_ROW(MPI_LOGICAL, bool32),
      TUTTI_ROW(MPI_BYTE, byte),
      TUTTI_ROW(MPI_FLOAT_INT, pair_f32_i32),
      TUTTI_ROW(MPI_DOUBLE_INT, pair_f64_i32),
      TUTTI_ROW(MPI_LONG_INT, pair_i64_i32),
      TUTTI_ROW(MPI_SHORT_INT, pair_i16_i32),
      TUTTI_ROW(MPI_2INT, pair_i32_i32),
      TUTTI_ROW(MPI_LONG_DOUBLE_INT, pair_long_double_i32),
      TUTTI_ROW(MPI_2REAL, pair_f32_f32),
      TUTTI_ROW(MPI_2DOUBLE_PRECISION, pair_f64_f64),
      TUTTI_ROW(MPI_2INTEGER, pair_i32_i32),
#ifdef MPI_LOGICAL1
      TUTTI_ROW(MPI_LOGICAL1, logical8),
      TUTTI_ROW(MPI_LOGICAL2, logical16),
      TUTTI_ROW(MPI_LOGICAL4, bool32),
      TUTTI_ROW(MPI_LOGICAL8, logical64),
#endif
#ifdef MPIX_C_FLOAT16
      TUTTI_ROW(MPIX_C_FLOAT16, f16),
#endif
#ifdef MPIX_BFLOAT16
      TUTTI_ROW(MPIX_BFLOAT16, bf16),
#endif
#undef TUTTI_ROW
  };
  std::erase_if(types, [](const MpiType& row) { return row.handle == MPI_DATATYPE_NULL; });
  return types;
}

struct MpiOp {
  Op op;
  MPI_Op handle;
};

std::vector<MpiOp> mpi_ops() {
  return {{Op::sum, MPI_SUM},   {Op::prod, MPI_PROD},     {Op::min, MPI_MIN},
          {Op::max, MPI_MAX},   {Op::land, MPI_LAND},     {Op::lor, MPI_LOR},
          {Op::lxor, MPI_LXOR}, {Op::band, MPI_BAND},     {Op::bor, MPI_BOR},
          {Op::bxor, MPI_BXOR}, {Op::minloc, MPI_MINLOC}, {Op::maxloc, MPI_MAXLOC}};
}

std::string hex(const unsigned char* bytes, std::size_t count) {
  std::string text;
  for (std::size_t i = count; i-- > 0;) {
    text += "0123456789abcdef"[bytes[i] >> 4];
    text += "0123456789abcdef"[bytes[i] & 15];
  }
  return text;
}

// ---- deviations --------------------------------------------------------------------------------

enum class Vendor { mpich, openmpi, intel };

Vendor vendor() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(text, &length);
  const auto starts = [&](const char* with) {
    return std::strncmp(text, with, std::strlen(with)) == 0;
  };
  return starts("Open MPI") ? Vendor::openmpi : starts("Intel") ? Vendor::intel : Vendor::mpich;
}

/// Two operands and what came of them.
struct Result {
  Op op;
  Type type;
  const unsigned char *left, *right, *theirs, *ours;
};

template <class T>
T get(const unsigned char* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <class T>
bool saturates(const Result& at) {
  const int sum = get<T>(at.left) + get<T>(at.right);
  return at.op == Op::sum &&
         get<T>(at.theirs) ==
             std::clamp<int>(sum, std::numeric_limits<T>::min(), std::numeric_limits<T>::max());
}

bool saturates(const Result& at) {
  switch (at.type) {
    case Type::i8:
      return saturates<std::int8_t>(at);
    case Type::u8:
      return saturates<std::uint8_t>(at);
    case Type::i16:
      return saturates<std::int16_t>(at);
    case Type::u16:
      return saturates<std::uint16_t>(at);
    default:
      return false;
  }
}

bool both_are_zero(const Result& at) {
  if (at.type == Type::f32) return get<float>(at.left) == 0 && get<float>(at.right) == 0;
  return at.type == Type::f64 && get<double>(at.left) == 0 && get<double>(at.right) == 0;
}

bool takes_the_other_operand(const Result& at) {
  const bool chooses =
      at.op == Op::min || at.op == Op::max || at.op == Op::minloc || at.op == Op::maxloc;
  const bool nan = oracle::has_nan(at.type, at.left) || oracle::has_nan(at.type, at.right);
  return chooses && (nan || both_are_zero(at)) &&
         (oracle::same(at.type, at.theirs, at.left) || oracle::same(at.type, at.theirs, at.right));
}

bool loses_an_infinity(const Result& at) {
  return at.op == Op::prod && (at.type == Type::c32 || at.type == Type::c64) &&
         oracle::has_nan(at.type, at.theirs);
}

bool rounds_a_tie_away(const Result& at) {
  const auto value = [](const unsigned char* bits) {
    return static_cast<double>(bfloat16_to_float(get<std::uint16_t>(bits)));
  };
  if (at.type != Type::bf16 || at.op != Op::sum) return false;
  const double exact = value(at.left) + value(at.right);
  return value(at.theirs) - exact == exact - value(at.ours);
}

/// Why this MPI's result may differ from ours; nullptr where it may not.
///  - Open MPI's vector code saturates sums of 8 and 16 bits, and takes the other operand beside a
///    NaN and of two zeros; its scalar code, which does the rest of the vector, does as MPICH.
///  - Intel MPI takes the other operand beside a NaN, and does not follow Annex G of C in all of
///    its complex products.
///  - MPICH rounds ties of bfloat16 away from zero.
const char* known_deviation(const Result& at) {
  const Vendor mpi = vendor();
  if (mpi == Vendor::openmpi && saturates(at)) return "saturates";
  if (mpi != Vendor::mpich && takes_the_other_operand(at)) {
    return mpi == Vendor::intel ? "takes the other operand beside NaN"
                                : "takes the other operand beside NaN and of two zeros";
  }
  if (mpi == Vendor::intel && loses_an_infinity(at)) return "gives NaN for an infinite product";
  if (mpi != Vendor::openmpi && rounds_a_tie_away(at)) return "rounds ties away from zero";
  return nullptr;
}

/// Calls that this MPI does not survive: MPICH 5.0.2 has only the sum of bfloat16, and an
/// assertion for the rest.
bool ends_the_program(Op op, Type type) {
  return vendor() != Vendor::openmpi && type == Type::bf16 && op != Op::sum;
}

// ---- comparison --------------------------------------------------------------------------------

enum class Outcome { agrees, deviates, differs, refused };

/// As the oracle's, but a C bool is 0 or 1: of others C says nothing, and the MPIs differ.
void random_element(Type type, bool ordinary, oracle::Random& random, unsigned char* to) {
  oracle::random_element(type, ordinary, random, to);
  if (type == Type::bool8) *to &= 1;
}

/// One combination, ordinary values and special ones, few and many elements.
Outcome compare(const MpiType& row, const MpiOp& op, const Reduction& reduction) {
  oracle::Random random(testing::random_seed(static_cast<std::uint64_t>(row.type)));
  const std::size_t stride = extent_bytes(row.type);
  const char* deviation = nullptr;
  for (int round = 0; round < 40; ++round) {
    const std::size_t count = round < 30 ? random() % 70 : random() % 5000;
    std::vector<unsigned char> left(count * stride), right(count * stride);
    for (std::size_t i = 0; i < count; ++i) {
      random_element(row.type, round % 2 == 0, random, &left[i * stride]);
      random_element(row.type, round % 2 == 0, random, &right[i * stride]);
    }
    std::vector<unsigned char> theirs = right, ours = right;
    if (MPI_Reduce_local(left.data(), theirs.data(), static_cast<int>(count), row.handle,
                         op.handle) != MPI_SUCCESS) {
      return Outcome::refused;
    }
    reduction.fold(left.data(), ours.data(), ours.data(), count, reduction);
    for (std::size_t i = 0; i < count; ++i) {
      if (oracle::same(row.type, &theirs[i * stride], &ours[i * stride])) continue;
      const char* known = known_deviation({op.op, row.type, &left[i * stride], &right[i * stride],
                                           &theirs[i * stride], &ours[i * stride]});
      if (known != nullptr) {
        deviation = known;
        continue;
      }
      std::printf("DIFFERS: %s %s: element %zu of %zu: %s and %s: MPI %s, tutti %s\n", name(op.op),
                  row.mpi_name, i, count, hex(&left[i * stride], stride).c_str(),
                  hex(&right[i * stride], stride).c_str(), hex(&theirs[i * stride], stride).c_str(),
                  hex(&ours[i * stride], stride).c_str());
      return Outcome::differs;
    }
  }
  if (deviation == nullptr) return Outcome::agrees;
  std::printf("deviates, as is known: %s %s: this MPI %s\n", name(op.op), row.mpi_name, deviation);
  return Outcome::deviates;
}

int compare_all() {
  int counts[4] = {0, 0, 0, 0}, native = 0;
  for (const MpiType& row : mpi_types()) {
    MPI_Aint lower = 0, extent = 0;
    MPI_Type_get_extent(row.handle, &lower, &extent);
    if (static_cast<std::size_t>(extent) != extent_bytes(row.type)) {
      std::printf("DIFFERS: %s has an extent of %ld\n", row.mpi_name, static_cast<long>(extent));
      ++counts[static_cast<int>(Outcome::differs)];
      continue;
    }
    for (const MpiOp& op : mpi_ops()) {
      Reduction reduction;
      if (!find_reduction(op.op, row.type, &reduction)) {
        ++native;
        continue;
      }
      if (ends_the_program(op.op, row.type)) {
        std::printf("NOT COMPARED: %s %s: this MPI ends the program\n", name(op.op), row.mpi_name);
        continue;
      }
      ++counts[static_cast<int>(compare(row, op, reduction))];
    }
  }
  const auto number = [&](Outcome outcome) { return counts[static_cast<int>(outcome)]; };
  std::printf(
      "%d combinations agree, %d deviate as is known, %d are refused by this MPI, %d have no "
      "kernel, %d DIFFER\n",
      number(Outcome::agrees), number(Outcome::deviates), number(Outcome::refused), native,
      number(Outcome::differs));
  return number(Outcome::differs) == 0 && number(Outcome::agrees) > 0 ? 0 : 1;
}

}  // namespace
}  // namespace tutti

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  const int result = tutti::compare_all();
  MPI_Finalize();
  return result;
}
