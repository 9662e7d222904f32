// What plans of collectives of which each rank knows but its own counts have in common: the blocks
// of both sides, and how they become parcels.
#pragma once

#include <cstdint>
#include <vector>

#include "mpi/plugin/plan.hpp"

namespace tutti::mpi {

/// A side of a call on this rank: blocks by their index, which is that of a member or a neighbour.
class ListedSide {
 public:
  /// Block `index` alone.
  void set_one(int index, const Elements& elements) noexcept {
    kind_ = Kind::one;
    only_ = index;
    elements_ = elements;
  }
  /// The same block whatever the index is.
  void set_same(const Elements& elements) noexcept {
    kind_ = Kind::same;
    elements_ = elements;
  }
  /// As long blocks one behind the other.
  void set_each(const Elements& elements) noexcept {
    kind_ = Kind::each;
    elements_ = elements;
  }
  void set_all(const void* buffer, CountList counts, CountList displs, MPI_Datatype type) noexcept {
    kind_ = Kind::all;
    elements_ = {buffer, 0, type};
    counts_ = counts;
    displs_ = displs;
  }
  /// With a type for each, and displacements in bytes.
  void set_all(const void* buffer, CountList counts, CountList displs,
               const MPI_Datatype* types) noexcept {
    set_all(buffer, counts, displs, MPI_Datatype{});
    kind_ = Kind::typed;
    types_ = types;
  }
  /// The only block that there may be; -1: there may be one for each index.
  int only() const noexcept { return only_; }
  /// What can be wrong whatever the counts are.
  Reason check() const;
  /// A block; of those that there are none the count is 0, and nothing else is set.
  Reason read(int index, Data* out) const;
  /// Whether its blocks may be plain: dense, of predefined types and without a fault.
  bool may_be_plain() noexcept;
  /// Calls use(read), where read(index, &data, &bytes) gives a block, or is false where it is not
  /// plain. May be asked where may_be_plain() has said so. What `use` gives; true without blocks.
  /// Throws what it does.
  template <class Use>
  bool with_plain(Use use) const;

 private:
  enum class Kind : unsigned char { none, one, same, each, all, typed };
  Reason read_listed(int index, Data* out) const;

  Kind kind_ = Kind::none;
  int only_ = -1;
  Elements elements_{};
  CountList counts_{static_cast<const int*>(nullptr)}, displs_{static_cast<const int*>(nullptr)};
  const MPI_Datatype* types_ = nullptr;
  const TypeInfo* plain_ = nullptr;  // of all blocks
};

/// A block of `count` elements, `offset` bytes into the buffer. False where it is not plain. Of no
/// elements the offset and the type may be anything.
inline bool read_plain(const void* buffer, long long count, const TypeInfo* type,
                       std::size_t offset, std::byte** data, std::size_t* bytes) noexcept {
  *data = reinterpret_cast<std::byte*>(reinterpret_cast<std::uintptr_t>(buffer) + offset);
  *bytes = 0;
  return count == 0 ||
         (count > 0 && type != nullptr && type->dense &&
          !__builtin_mul_overflow(static_cast<std::size_t>(count), type->size, bytes));
}

template <class Use>
[[gnu::always_inline]] inline bool ListedSide::with_plain(Use use) const {
  const void* const buffer = elements_.buffer;
  const TypeInfo* const type = plain_;
  const MPI_Datatype* const types = types_;
  const long long count = elements_.count;
  switch (kind_) {
    case Kind::none:
      return true;
    case Kind::one:
    case Kind::same:
      return use([=](int /*index*/, std::byte** data, std::size_t* bytes) {
        return read_plain(buffer, count, type, 0, data, bytes);
      });
    case Kind::each: {
      const std::size_t step = static_cast<std::size_t>(count) * type->size;
      return use([=](int index, std::byte** data, std::size_t* bytes) {
        const std::size_t offset = static_cast<std::size_t>(index) * step;
        return read_plain(buffer, count, type, offset, data, bytes);
      });
    }
    case Kind::all:
      return CountList::with(counts_, displs_, [&](const auto* counts, const auto* displs) {
        return use([=](int index, std::byte** data, std::size_t* bytes) {
          const std::size_t offset = static_cast<std::size_t>(displs[index]) * type->size;
          return read_plain(buffer, counts[index], type, offset, data, bytes);
        });
      });
    case Kind::typed:
      break;
  }
  return CountList::with(counts_, displs_, [&](const auto* counts, const auto* displs) {
    return use([=](int index, std::byte** data, std::size_t* bytes) {
      const TypeInfo* const its = counts[index] == 0 ? nullptr : find_predefined_type(types[index]);
      const auto offset = static_cast<std::size_t>(displs[index]);
      return read_plain(buffer, counts[index], its, offset, data, bytes);
    });
  });
}

/// Where plain blocks become parcels, empty. nullptr: no memory, or buffers may be a GPU's.
Parcels* plain_parcels(Comm* comm) noexcept;

/// Data for a member, or from one.
struct Block {
  int member;
  Data data;
};

/// Both sides of a call, without empty blocks. Those of one member lie one behind the other, in the
/// order in which they meet.
struct ListedBlocks {
  std::vector<Block> sent, received;
  bool copies_sent = false;  // it is overwritten before it has been sent
  bool one_sent = false;     // all that is sent is the same data
};

/// Packs what is not in one piece. More than Parcels::kMostEach blocks for one other member become
/// one parcel, by the same rule on both sides.
Reason make_parcels(const ListedBlocks& blocks, const Comm& comm, Plan* plan);

}  // namespace tutti::mpi
