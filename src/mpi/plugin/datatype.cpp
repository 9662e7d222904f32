#include "mpi/plugin/datatype.hpp"

#include <memory>
#include <mutex>
#include <new>
#include <vector>

#include "base/exact_sum.hpp"
#include "mpi/plugin/flatten.hpp"
#include "mpi/plugin/handle_map.hpp"
#include "mpi/plugin/small_map.hpp"
#include "mpi/plugin/state.hpp"

namespace tutti::mpi {
namespace {

constexpr int kTypes = static_cast<int>(Type::count_);
constexpr int kOps = static_cast<int>(Op::no_op) + 1;

SmallMap<TypeInfo*, 256> predefined;  // filled by create_types
SmallMap<Op, 32> operators;
Reduction reductions[kOps][kTypes];  // fold is null where there is none
std::vector<std::unique_ptr<TypeInfo>> owned;
HandleMap<TypeInfo> derived;
std::mutex build_mutex;  // one thread flattens at a time
int keyval = MPI_KEYVAL_INVALID;

// What the standard says a predefined type is; its size tells the rest.
enum class Class {
  none,
  opaque,
  byte,
  signed_,
  unsigned_,
  integer,
  real,
  bfloat,
  long_double,
  complex,
  long_double_complex,
  bool_,
  logical,
  pair_f32_i32,
  pair_f64_i32,
  pair_i64_i32,
  pair_i16_i32,
  pair_i32_i32,
  pair_long_double_i32,
  pair_integer,
  pair_real
};

struct BySize {
  Class type_class;
  int size;
  Type type;
};

// Fortran types have the size that the Fortran compiler gave them, so (class, size) decides.
constexpr BySize kReducible[] = {
    {Class::byte, 1, Type::byte},
    {Class::bool_, 1, Type::bool8},
    {Class::signed_, 1, Type::i8},
    {Class::signed_, 2, Type::i16},
    {Class::signed_, 4, Type::i32},
    {Class::signed_, 8, Type::i64},
    {Class::integer, 1, Type::i8},
    {Class::integer, 2, Type::i16},
    {Class::integer, 4, Type::i32},
    {Class::integer, 8, Type::i64},
    {Class::unsigned_, 1, Type::u8},
    {Class::unsigned_, 2, Type::u16},
    {Class::unsigned_, 4, Type::u32},
    {Class::unsigned_, 8, Type::u64},
    {Class::real, 2, Type::f16},
    {Class::bfloat, 2, Type::bf16},
    {Class::real, 4, Type::f32},
    {Class::real, 8, Type::f64},
    {Class::real, 16, Type::f128},
    {Class::long_double, 16, Type::long_double},
    {Class::complex, 8, Type::c32},
    {Class::complex, 16, Type::c64},
    {Class::long_double_complex, 32, Type::c_long_double},
    {Class::logical, 1, Type::logical8},
    {Class::logical, 2, Type::logical16},
    {Class::logical, 4, Type::bool32},
    {Class::logical, 8, Type::logical64},
    {Class::pair_f32_i32, 8, Type::pair_f32_i32},
    {Class::pair_f64_i32, 12, Type::pair_f64_i32},
    {Class::pair_i64_i32, 12, Type::pair_i64_i32},
    {Class::pair_i16_i32, 6, Type::pair_i16_i32},
    {Class::pair_i32_i32, 8, Type::pair_i32_i32},
    {Class::pair_long_double_i32, 20, Type::pair_long_double_i32},
    {Class::pair_integer, 8, Type::pair_i32_i32},
    {Class::pair_real, 8, Type::pair_f32_f32},
    {Class::pair_real, 16, Type::pair_f64_f64},
};

// Padded pairs: bytes of the value, and where the int lies.
struct Padded {
  Class type_class;
  std::size_t value_bytes;
  std::ptrdiff_t index_offset;
};
constexpr Padded kPadded[] = {{Class::pair_f64_i32, 8, 8},
                              {Class::pair_i64_i32, 8, 8},
                              {Class::pair_i16_i32, 2, 4},
                              {Class::pair_long_double_i32, 16, 16}};

Layout::Pointer predefined_layout(Class type_class, std::size_t size) {
  for (const Padded& pair : kPadded) {
    if (pair.type_class == type_class) {
      return Layout::sequence(
          {{0, Layout::bytes(pair.value_bytes)}, {pair.index_offset, Layout::bytes(4)}});
    }
  }
  return Layout::bytes(size);
}

int reduce_type(Class type_class, std::size_t size, std::ptrdiff_t extent) {
  for (const BySize& row : kReducible) {
    if (row.type_class == type_class && row.size == static_cast<int>(size) &&
        extent_bytes(row.type) == static_cast<std::size_t>(extent)) {
      return static_cast<int>(row.type);
    }
  }
  return kNotReducible;
}

bool may_ask_about(MPI_Datatype handle) {
  int version = 0, subversion = 0;
  native.Get_version(&version, &subversion);
  return Abi::may_ask_about(handle, version);
}

/// False for a type that this MPI was built without. Only a question that names a communicator has
/// its error handled there; others end in the handler of MPI_COMM_SELF or of the world, which are
/// the program's: where MPICH has none on MPI_COMM_SELF, putting "the same" back installs one.
bool is_supported(MPI_Datatype handle) {
  int bytes = 0;
  return native.Pack_size(1, handle, state.pump_comm, &bytes) == MPI_SUCCESS;
}

void add_predefined(MPI_Datatype handle, Class type_class) {
  int size = 0;
  MPI_Aint lb = 0, extent = 0;
  if (key(handle) == 0 || key(handle) == key(MPI_DATATYPE_NULL) || !may_ask_about(handle)) return;
  if (!is_supported(handle)) return;
  if (native.Type_size(handle, &size) != MPI_SUCCESS || size <= 0) return;
  if (native.Type_get_extent(handle, &lb, &extent) != MPI_SUCCESS || lb != 0) return;
  auto info = std::make_unique<TypeInfo>();
  info->size = static_cast<std::size_t>(size);
  info->extent = extent;
  info->dense = extent == size;
  info->predefined = true;
  info->reduce_type = reduce_type(type_class, info->size, extent);
  info->logical_ops = type_class != Class::integer;
  info->handle = handle;
  info->layout = predefined_layout(type_class, info->size);
  if (info->layout->size() != info->size) return;
  predefined.insert(key(handle), info.get());
  owned.push_back(std::move(info));
}

int on_copy(MPI_Datatype, int, void*, void*, void*, int* flag) {
  *flag = 0;
  return MPI_SUCCESS;
}

// Runs when the type is freed, before its handle can come back.
int on_delete(MPI_Datatype type, int, void* value, void*) {
  derived.erase(key(type));
  release(static_cast<TypeInfo*>(value));
  return MPI_SUCCESS;
}

TypeInfo* build(MPI_Datatype handle) {
  auto info = std::make_unique<TypeInfo>();
  MPI_Aint lb = 0, extent = 0;
  if (native.Type_get_extent(handle, &lb, &extent) != MPI_SUCCESS) return nullptr;
  info->layout = flatten(handle);
  info->size = info->layout ? info->layout->size() : 0;
  info->extent = extent;
  info->dense = info->layout && info->layout->is_block() && info->layout->offset() == 0 &&
                extent == static_cast<MPI_Aint>(info->size);
  info->handle = handle;
  derived.insert(key(handle), info.get());
  if (native.Type_set_attr(handle, keyval, info.get()) != MPI_SUCCESS) {
    derived.erase(key(handle));
    throw std::bad_alloc();  // the type is a good one, so what fails here is memory
  }
  return info.release();
}

const TypeInfo* find_derived(MPI_Datatype type) {
  if (TypeInfo* found = derived.find(key(type))) return found;
  if (!Abi::plausible_type(type)) return nullptr;
  std::lock_guard lock(build_mutex);
  if (TypeInfo* found = derived.find(key(type))) return found;
  return build(type);
}

}  // namespace

const TypeInfo* find_type(MPI_Datatype type) {
  if (TypeInfo* const* found = predefined.find(key(type))) return *found;
  return find_derived(type);
}

const TypeInfo* find_predefined_type(MPI_Datatype type) noexcept {
  TypeInfo* const* found = predefined.find(key(type));
  return found != nullptr ? *found : nullptr;
}

void retain(const TypeInfo* type) noexcept {
  const_cast<TypeInfo*>(type)->references.fetch_add(1, std::memory_order_relaxed);
}

void release(const TypeInfo* type) noexcept {
  auto* mutable_type = const_cast<TypeInfo*>(type);
  if (mutable_type->references.fetch_sub(1, std::memory_order_acq_rel) == 1) delete mutable_type;
}

void pack(const TypeInfo& type, const void* user, std::size_t count, void* packed) noexcept {
  const char* element = static_cast<const char*>(user);
  char* out = static_cast<char*>(packed);
  for (std::size_t i = 0; i < count; ++i, element += type.extent, out += type.size) {
    type.layout->pack(element, out);
  }
}

void unpack(const TypeInfo& type, const void* packed, std::size_t count, void* user) noexcept {
  char* element = static_cast<char*>(user);
  const char* in = static_cast<const char*>(packed);
  for (std::size_t i = 0; i < count; ++i, element += type.extent, in += type.size) {
    type.layout->unpack(in, element);
  }
}

const Reduction* find_predefined_reduction(MPI_Op op, const TypeInfo& type) noexcept {
  const Op* found = operators.find(key(op));
  if (found == nullptr || type.reduce_type == kNotReducible) return nullptr;
  if (!type.logical_ops && (*found == Op::land || *found == Op::lor || *found == Op::lxor))
    return nullptr;
  const Reduction& reduction = reductions[static_cast<int>(*found)][type.reduce_type];
  return reduction.fold != nullptr ? &reduction : nullptr;
}

bool is_predefined(MPI_Op op) noexcept { return operators.find(key(op)) != nullptr; }

void create_types(bool exact) noexcept {
#define TUTTI_TYPE(handle, type_class) add_predefined(handle, Class::TUTTI_CLASS_##type_class);
#define TUTTI_CLASS_signed signed_
#define TUTTI_CLASS_unsigned unsigned_
#define TUTTI_CLASS_integer integer
#define TUTTI_CLASS_bool bool_
#define TUTTI_CLASS_none none
#define TUTTI_CLASS_opaque opaque
#define TUTTI_CLASS_byte byte
#define TUTTI_CLASS_real real
#define TUTTI_CLASS_bfloat bfloat
#define TUTTI_CLASS_long_double long_double
#define TUTTI_CLASS_complex complex
#define TUTTI_CLASS_long_double_complex long_double_complex
#define TUTTI_CLASS_logical logical
#define TUTTI_CLASS_pair_f32_i32 pair_f32_i32
#define TUTTI_CLASS_pair_f64_i32 pair_f64_i32
#define TUTTI_CLASS_pair_i64_i32 pair_i64_i32
#define TUTTI_CLASS_pair_i16_i32 pair_i16_i32
#define TUTTI_CLASS_pair_i32_i32 pair_i32_i32
#define TUTTI_CLASS_pair_long_double_i32 pair_long_double_i32
#define TUTTI_CLASS_pair_integer pair_integer
#define TUTTI_CLASS_pair_real pair_real
#include "mpi/generated/predefined_types.inc"
#undef TUTTI_TYPE
#define TUTTI_OP(handle, op) operators.insert(key(handle), Op::op);
#include "mpi/generated/predefined_ops.inc"
#undef TUTTI_OP
  for (int op = 0; op < kOps; ++op) {
    // In a collective these two mean nothing, and the MPI says so.
    if (op == static_cast<int>(Op::replace) || op == static_cast<int>(Op::no_op)) continue;
    for (int type = 0; type < kTypes; ++type) {
      find_reduction(static_cast<Op>(op), static_cast<Type>(type), &reductions[op][type]);
      if (exact) make_exact(&reductions[op][type]);
    }
  }
  native.Type_create_keyval(&on_copy, &on_delete, &keyval, nullptr);
}

void destroy_types() noexcept { native.Type_free_keyval(&keyval); }

}  // namespace tutti::mpi
