#include "coll/parcels.hpp"

#include <algorithm>
#include <cstring>

namespace tutti {
namespace {

/// By distance, and those of one distance in the order in which they came.
template <class Distance>
void sort(std::vector<Parcel>* parcels, Distance distance) {
  const auto nearer = [&](const Parcel& a, const Parcel& b) { return distance(a) < distance(b); };
  if (!std::is_sorted(parcels->begin(), parcels->end(), nearer))
    std::stable_sort(parcels->begin(), parcels->end(), nearer);
}

}  // namespace

Parcels Parcels::even(Coll coll, int root, int rank, int size, const void* send, void* recv,
                      std::size_t bytes) {
  Parcels parcels(rank, size);
  for (int i = 0; i < size; ++i) {
    const bool neighbour = (i + 1) % size == rank || (rank + 1) % size == i;
    if (has_neighbours(coll) && !neighbour) continue;
    const std::size_t place = static_cast<std::size_t>(i) * bytes;
    if ((coll != Coll::scatterv || rank == root) && (coll != Coll::gatherv || i == root))
      parcels.send(i, static_cast<const std::byte*>(send) + (coll == Coll::gatherv ? 0 : place),
                   bytes);
    if ((coll != Coll::gatherv || rank == root) && (coll != Coll::scatterv || i == root))
      parcels.receive(i, static_cast<std::byte*>(recv) + (coll == Coll::scatterv ? 0 : place),
                      bytes);
  }
  parcels.arrange();
  return parcels;
}

void Parcels::arrange() {
  sort(&sent_, [this](const Parcel& p) { return distance_to(p); });
  sort(&received_, [this](const Parcel& p) { return distance_from(p); });
  arrange_added();
}

const Parcel* Parcels::first_from(int member) const noexcept {
  const std::span<const Parcel> all = received();
  const auto found = std::lower_bound(
      all.begin(), all.end(), apart(member, rank_),
      [this](const Parcel& p, int distance) { return distance_from(p) < distance; });
  return found != all.end() && found->member == member ? &*found : nullptr;
}

void Parcels::deliver_own() const noexcept {
  (void)each_own([](std::byte* to, const std::byte* from, std::size_t bytes) {
    if (to != from) std::memcpy(to, from, bytes);
  });
}

}  // namespace tutti
