// What plans of collectives of which each rank knows but its own counts have in common: the blocks
// of both sides, and how they become parcels.
#pragma once

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
  bool empty() const noexcept { return kind_ == Kind::none; }
  /// What can be wrong whatever the counts are.
  Reason check() const;
  /// A block; of those that there are none the count is 0, and nothing else is set.
  Reason read(int index, Data* out) const;
  /// Whether read_plain() may be asked.
  bool is_plain() noexcept;
  /// The block if it is dense, of a predefined type and without a fault. False where it is not.
  bool read_plain(int index, std::byte** data, std::size_t* bytes) const noexcept;

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

/// Where read_plain() collects them, empty. nullptr: no memory, or buffers may be a GPU's.
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
