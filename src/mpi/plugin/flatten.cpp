#include "mpi/plugin/flatten.hpp"

#include <algorithm>
#include <vector>

#include "mpi/plugin/datatype.hpp"

namespace tutti::mpi {
namespace {

// The arguments of a type constructor (MPI-4.1 section 5.1.13). Types made by a large-count
// constructor have their counts and displacements in `counts`, the others in `integers` and
// `addresses`.
struct Contents {
  int combiner = 0;
  std::vector<int> integers;
  std::vector<MPI_Aint> addresses;
  std::vector<MPI_Count> counts;
  std::vector<MPI_Datatype> types;

  Contents() = default;
  Contents(const Contents&) = delete;
  Contents& operator=(const Contents&) = delete;
  ~Contents() {
    for (MPI_Datatype type : types) free_if_derived(type);
  }

  bool large() const { return !counts.empty(); }
  static void free_if_derived(MPI_Datatype type);
};

bool is_named(MPI_Datatype type) {
  int integers = 0, addresses = 0, types = 0, combiner = MPI_COMBINER_NAMED;
  if (native.Type_get_envelope_c != nullptr) {
    MPI_Count ni = 0, na = 0, nc = 0, nt = 0;
    native.Type_get_envelope_c(type, &ni, &na, &nc, &nt, &combiner);
  } else {
    native.Type_get_envelope(type, &integers, &addresses, &types, &combiner);
  }
  return combiner == MPI_COMBINER_NAMED || combiner == MPI_COMBINER_F90_REAL ||
         combiner == MPI_COMBINER_F90_COMPLEX || combiner == MPI_COMBINER_F90_INTEGER;
}

void Contents::free_if_derived(MPI_Datatype type) {
  if (!is_named(type)) native.Type_free(&type);
}

bool read_contents_large(MPI_Datatype type, Contents* out) {
  MPI_Count integers = 0, addresses = 0, counts = 0, types = 0;
  if (native.Type_get_envelope_c(type, &integers, &addresses, &counts, &types, &out->combiner) !=
      MPI_SUCCESS) {
    return false;
  }
  if (types == 0) return true;  // named
  out->integers.resize(static_cast<std::size_t>(integers));
  out->addresses.resize(static_cast<std::size_t>(addresses));
  out->counts.resize(static_cast<std::size_t>(counts));
  std::vector<MPI_Datatype> inner(static_cast<std::size_t>(types));
  if (native.Type_get_contents_c(type, integers, addresses, counts, types, out->integers.data(),
                                 out->addresses.data(), out->counts.data(),
                                 inner.data()) != MPI_SUCCESS) {
    return false;
  }
  out->types = std::move(inner);
  return true;
}

bool read_contents(MPI_Datatype type, Contents* out) {
  if (native.Type_get_envelope_c != nullptr && native.Type_get_contents_c != nullptr) {
    return read_contents_large(type, out);
  }
  int integers = 0, addresses = 0, types = 0;
  if (native.Type_get_envelope(type, &integers, &addresses, &types, &out->combiner) !=
      MPI_SUCCESS) {
    return false;
  }
  if (types == 0) return true;
  out->integers.resize(static_cast<std::size_t>(integers));
  out->addresses.resize(static_cast<std::size_t>(addresses));
  std::vector<MPI_Datatype> inner(static_cast<std::size_t>(types));
  if (native.Type_get_contents(type, integers, addresses, types, out->integers.data(),
                               out->addresses.data(), inner.data()) != MPI_SUCCESS) {
    return false;
  }
  out->types = std::move(inner);
  return true;
}

// One child type and the distance between its consecutive elements.
struct Child {
  Layout::Pointer layout;
  std::ptrdiff_t extent = 0;
};

bool read_child(MPI_Datatype type, Child* out) {
  MPI_Aint lb = 0, extent = 0;
  if (native.Type_get_extent(type, &lb, &extent) != MPI_SUCCESS) return false;
  out->layout = flatten(type);
  out->extent = extent;
  return out->layout != nullptr;
}

Layout::Pointer elements(const Child& child, MPI_Count count) {
  return Layout::repeat(static_cast<std::size_t>(count), child.extent, child.layout);
}

// A list of numbers that lies in one of three arrays of the contents.
class Numbers {
 public:
  Numbers(const Contents& contents, std::size_t in_counts, std::size_t in_integers)
      : contents_(contents), first_(contents.large() ? in_counts : in_integers) {}
  MPI_Count operator[](std::size_t i) const {
    return contents_.large() ? contents_.counts[first_ + i] : contents_.integers[first_ + i];
  }

 private:
  const Contents& contents_;
  std::size_t first_;
};

Layout::Pointer vector_layout(const Contents& c, const Child& child, bool stride_in_bytes) {
  const Numbers numbers(c, 0, 0);
  std::ptrdiff_t stride = 0;
  if (!stride_in_bytes) {
    stride = static_cast<std::ptrdiff_t>(numbers[2]) * child.extent;
  } else {
    stride = c.large() ? c.counts[2] : c.addresses.empty() ? c.integers[2] : c.addresses[0];
  }
  return Layout::repeat(static_cast<std::size_t>(numbers[0]), stride, elements(child, numbers[1]));
}

// Displacements in bytes: large counts, addresses, or (MPI-1) integers.
std::ptrdiff_t byte_displacement(const Contents& c, std::size_t in_counts, std::size_t in_integers,
                                 std::size_t i) {
  if (c.large()) return c.counts[in_counts + i];
  return c.addresses.empty() ? c.integers[in_integers + i] : c.addresses[i];
}

Layout::Pointer indexed_layout(const Contents& c, const Child& child, bool in_bytes,
                               bool one_length) {
  const Numbers numbers(c, 0, 0);
  const auto count = static_cast<std::size_t>(numbers[0]);
  const std::size_t first = one_length ? 2 : 1 + count;
  std::vector<Layout::Part> parts;
  parts.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    const MPI_Count length = numbers[one_length ? 1 : 1 + i];
    const std::ptrdiff_t offset =
        in_bytes ? byte_displacement(c, first, first, i)
                 : static_cast<std::ptrdiff_t>(numbers[first + i]) * child.extent;
    parts.push_back({offset, elements(child, length)});
  }
  return Layout::sequence(std::move(parts));
}

Layout::Pointer struct_layout(const Contents& c) {
  const Numbers numbers(c, 0, 0);
  const auto count = static_cast<std::size_t>(numbers[0]);
  std::vector<Layout::Part> parts;
  for (std::size_t i = 0; i < count; ++i) {
    Child child;
    if (!read_child(c.types[i], &child)) return nullptr;
    parts.push_back(
        {byte_displacement(c, 1 + count, 1 + count, i), elements(child, numbers[1 + i])});
  }
  return Layout::sequence(std::move(parts));
}

// A pair of MPI_Type_get_value_index that has no name: a C struct of the two.
Layout::Pointer pair_layout(const Contents& c) {
  Child value, index;
  if (!read_child(c.types[0], &value) || !read_child(c.types[1], &index)) return nullptr;
  const std::ptrdiff_t offset = (value.extent + index.extent - 1) / index.extent * index.extent;
  return Layout::sequence({{0, value.layout}, {offset, index.layout}});
}

// Dimensions from the fastest to the slowest in memory.
std::vector<int> dimension_order(int dimensions, int order) {
  std::vector<int> result(static_cast<std::size_t>(dimensions));
  for (int i = 0; i < dimensions; ++i) {
    result[static_cast<std::size_t>(i)] = order == MPI_ORDER_FORTRAN ? i : dimensions - 1 - i;
  }
  return result;
}

Layout::Pointer subarray_layout(const Contents& c, Child child) {
  const auto n = static_cast<std::size_t>(c.integers[0]);
  const Numbers sizes(c, 0, 1), subsizes(c, n, 1 + n), starts(c, 2 * n, 1 + 2 * n);
  const int order = c.large() ? c.integers[1] : c.integers[1 + 3 * n];
  for (const int dimension : dimension_order(static_cast<int>(n), order)) {
    const auto d = static_cast<std::size_t>(dimension);
    Layout::Pointer line = elements(child, subsizes[d]);
    child.layout =
        Layout::sequence({{static_cast<std::ptrdiff_t>(starts[d]) * child.extent, line}});
    child.extent *= static_cast<std::ptrdiff_t>(sizes[d]);
  }
  return child.layout;
}

// The part of one dimension that process `coordinate` of `processes` owns (MPI-4.1 section 5.1.4).
Layout::Pointer distributed_line(const Child& child, MPI_Count size, int distribution, int argument,
                                 int processes, int coordinate) {
  MPI_Count block = argument;
  if (distribution == MPI_DISTRIBUTE_NONE) {
    block = size;
  } else if (argument == MPI_DISTRIBUTE_DFLT_DARG) {
    block = distribution == MPI_DISTRIBUTE_BLOCK ? (size + processes - 1) / processes : 1;
  }
  const MPI_Count cycle = block * (distribution == MPI_DISTRIBUTE_NONE ? 1 : processes);
  std::vector<Layout::Part> parts;
  for (MPI_Count begin = block * coordinate; begin < size; begin += cycle) {
    parts.push_back({static_cast<std::ptrdiff_t>(begin) * child.extent,
                     elements(child, std::min(block, size - begin))});
  }
  return Layout::sequence(std::move(parts));
}

Layout::Pointer darray_layout(const Contents& c, Child child) {
  const auto n = static_cast<std::size_t>(c.integers[2]);
  int rank = c.integers[1];
  const Numbers sizes(c, 0, 3);
  const std::size_t base = c.large() ? 3 : 3 + n;  // distribs, dargs, psizes, order
  const int* distributions = c.integers.data() + base;
  const int* arguments = distributions + n;
  const int* processes = arguments + n;
  const int order = processes[n];
  std::vector<int> coordinates(n);  // the process grid is always in C order
  for (std::size_t d = n; d-- > 0;) {
    coordinates[d] = rank % processes[d];
    rank /= processes[d];
  }
  for (const int dimension : dimension_order(static_cast<int>(n), order)) {
    const auto d = static_cast<std::size_t>(dimension);
    child.layout = distributed_line(child, sizes[d], distributions[d], arguments[d], processes[d],
                                    coordinates[d]);
    child.extent *= static_cast<std::ptrdiff_t>(sizes[d]);
  }
  return child.layout;
}

Layout::Pointer named_layout(MPI_Datatype type) {
  int size = 0;
  MPI_Aint lb = 0, extent = 0;
  if (native.Type_size(type, &size) != MPI_SUCCESS || size < 0) return nullptr;
  if (native.Type_get_true_extent(type, &lb, &extent) != MPI_SUCCESS) return nullptr;
  if (size == 0) return Layout::bytes(0);
  // A named type with holes that tutti does not know by name: the MPI keeps it.
  return lb == 0 && extent == size ? Layout::bytes(static_cast<std::size_t>(size)) : nullptr;
}

}  // namespace

Layout::Pointer flatten(MPI_Datatype type) {
  if (const TypeInfo* known = find_predefined_type(type)) return known->layout;
  Contents c;
  if (!read_contents(type, &c)) return nullptr;
  if (c.types.empty()) return named_layout(type);
  if (c.combiner == MPI_COMBINER_STRUCT || c.combiner == MPI_COMBINER_STRUCT_INTEGER) {
    return struct_layout(c);
  }
  if (c.combiner == MPI_COMBINER_VALUE_INDEX) return pair_layout(c);
  Child child;
  if (!read_child(c.types[0], &child)) return nullptr;
  switch (c.combiner) {
    case MPI_COMBINER_DUP:
    case MPI_COMBINER_RESIZED:
      return child.layout;
    case MPI_COMBINER_CONTIGUOUS:
      return elements(child, Numbers(c, 0, 0)[0]);
    case MPI_COMBINER_VECTOR:
      return vector_layout(c, child, false);
    case MPI_COMBINER_HVECTOR:
    case MPI_COMBINER_HVECTOR_INTEGER:
      return vector_layout(c, child, true);
    case MPI_COMBINER_INDEXED:
      return indexed_layout(c, child, false, false);
    case MPI_COMBINER_HINDEXED:
    case MPI_COMBINER_HINDEXED_INTEGER:
      return indexed_layout(c, child, true, false);
    case MPI_COMBINER_INDEXED_BLOCK:
      return indexed_layout(c, child, false, true);
    case MPI_COMBINER_HINDEXED_BLOCK:
      return indexed_layout(c, child, true, true);
    case MPI_COMBINER_SUBARRAY:
      return subarray_layout(c, child);
    case MPI_COMBINER_DARRAY:
      return darray_layout(c, child);
    default:
      return nullptr;
  }
}

}  // namespace tutti::mpi
