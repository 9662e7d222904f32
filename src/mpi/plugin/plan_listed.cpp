#include "mpi/plugin/plan_listed.hpp"

#include <cstdint>
#include <new>
#include <span>

namespace tutti::mpi {
namespace {

using Group = std::span<const Block>;  // that make one parcel

/// Calls visit(group) for all of them.
template <class Visit>
void each_group(const std::vector<Block>& blocks, int rank, Visit&& visit) {
  for (std::size_t first = 0; first < blocks.size();) {
    std::size_t run = 1;
    while (first + run < blocks.size() && blocks[first + run].member == blocks[first].member) ++run;
    const bool merged = run > Parcels::kMostEach && blocks[first].member != rank;
    const std::size_t step = merged ? run : 1;
    for (std::size_t k = 0; k < run; k += step) visit(Group(blocks).subspan(first + k, step));
    first += run;
  }
}

std::size_t bytes_of(Group group) noexcept {
  std::size_t bytes = 0;
  for (const Block& block : group) bytes += block.data.bytes;
  return bytes;
}

/// False where there can be no so many.
bool add_bytes(const std::vector<Block>& blocks, std::size_t* bytes) noexcept {
  for (const Block& block : blocks)
    if (__builtin_add_overflow(*bytes, block.data.bytes, bytes)) return false;
  return true;
}

/// One side while it is packed.
class Packing {
 public:
  Packing(const std::vector<Block>& blocks, int rank, bool all, bool same)
      : blocks_(blocks), rank_(rank), all_(all), same_(same) {}

  /// Bytes of packed data.
  std::size_t bytes() const {
    std::size_t bytes = 0;
    bool shared = false;
    each_group(blocks_, rank_, [&](Group group) {
      if (!packs(group) || (shares(group) && shared)) return;
      shared |= shares(group);
      bytes += bytes_of(group);
    });
    return bytes;
  }
  /// Calls pack(data, place) for all that is packed at `packed`, and add(member, place, bytes).
  template <class Pack, class Add>
  void place(char* packed, Pack&& pack, Add&& add) const {
    char* shared = nullptr;
    each_group(blocks_, rank_, [&](Group group) {
      char* place = packs(group) ? packed : group[0].data.user;
      if (packs(group) && shares(group) && shared != nullptr) {
        place = shared;
      } else if (packs(group)) {
        if (shares(group)) shared = packed;
        for (const Block& block : group) {
          pack(block.data, packed);
          packed += block.data.bytes;
        }
      }
      add(group[0].member, place, bytes_of(group));
    });
  }

 private:
  bool packs(Group group) const { return all_ || group.size() > 1 || !group[0].data.dense(); }
  bool shares(Group group) const { return same_ && group.size() == 1; }

  const std::vector<Block>& blocks_;
  const int rank_;
  const bool all_, same_;
};

}  // namespace

Reason ListedSide::check() const {
  if (kind_ != Kind::all && kind_ != Kind::typed) return Reason::none;
  if (counts_.null() || displs_.null() || elements_.buffer == MPI_IN_PLACE)
    return Reason::arguments;
  if (kind_ == Kind::typed) return types_ != nullptr ? Reason::none : Reason::arguments;
  return find_type(elements_.type) != nullptr ? Reason::none : Reason::arguments;
}

Reason ListedSide::read(int index, Data* out) const {
  out->count = out->bytes = 0;
  if (kind_ == Kind::none || (kind_ == Kind::one && index != only_)) return Reason::none;
  if (kind_ == Kind::all || kind_ == Kind::typed) return read_listed(index, out);
  TUTTI_PLAN_TRY(read_data(elements_.buffer, elements_.count, elements_.type, out));
  if (kind_ != Kind::each) return Reason::none;
  out->user += static_cast<std::ptrdiff_t>(out->count) * index * out->type->extent;
  out->locate();
  return Reason::none;
}

/// Under MPI_BOTTOM displacements may be addresses, where they are wide enough.
Reason ListedSide::read_listed(int index, Data* out) const {
  if (counts_[index] == 0) return Reason::none;
  const bool typed = kind_ == Kind::typed;
  const MPI_Datatype type = typed ? types_[index] : elements_.type;
  const std::ptrdiff_t unit = typed ? 1 : find_type(type)->extent;
  const auto address = reinterpret_cast<std::uintptr_t>(elements_.buffer) +
                       static_cast<std::uintptr_t>(displs_[index] * unit);
  TUTTI_PLAN_TRY(read_data(reinterpret_cast<const void*>(address), counts_[index], type, out));
  return displs_.wide() || is_buffer(elements_.buffer, *out) ? Reason::none : Reason::arguments;
}

bool ListedSide::may_be_plain() noexcept {
  if (kind_ == Kind::none) return true;
  // Null may be MPI_BOTTOM.
  if (elements_.buffer == nullptr || elements_.buffer == MPI_IN_PLACE) return false;
  if ((kind_ == Kind::all || kind_ == Kind::typed) && (counts_.null() || displs_.null()))
    return false;
  if (kind_ == Kind::typed) return types_ != nullptr;
  plain_ = find_predefined_type(elements_.type);
  return plain_ != nullptr && plain_->dense;
}

Parcels* plain_parcels(Comm* comm) noexcept {
  if (may_have_spaces()) return nullptr;
  if (!comm->parcels) comm->parcels.reset(new (std::nothrow) Parcels(comm->rank, comm->size));
  if (comm->parcels) comm->parcels->clear();
  return comm->parcels.get();
}

Reason make_parcels(const ListedBlocks& blocks, const Comm& comm, Plan* plan) {
  std::size_t all = 0;
  if (!add_bytes(blocks.sent, &all) || !add_bytes(blocks.received, &all)) return Reason::arguments;
  plan->staging = std::make_unique<Staging>();
  Staging& stage = *plan->staging;
  const Packing sent(blocks.sent, comm.rank, blocks.copies_sent, blocks.one_sent);
  const Packing received(blocks.received, comm.rank, false, false);
  const std::size_t out = sent.bytes(), in = received.bytes();
  if (out + in != 0 && !stage.reserve(out + in)) return Reason::no_memory;
  Parcels& parcels = stage.parcels.emplace(comm.rank, comm.size);
  sent.place(
      out != 0 ? stage.take(out) : nullptr,
      [&](const Data& data, char* packed) { stage.pack_before(data, packed); },
      [&](int to, char* place, std::size_t bytes) { parcels.send(to, place, bytes); });
  received.place(
      in != 0 ? stage.take(in) : nullptr,
      [&](const Data& data, char* packed) { stage.unpack_after(data, packed); },
      [&](int from, char* place, std::size_t bytes) { parcels.receive(from, place, bytes); });
  parcels.arrange();
  plan->call.parcels = &parcels;
  return Reason::none;
}

}  // namespace tutti::mpi
