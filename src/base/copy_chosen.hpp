// One copy by the stores that have cost the least of late. Internal to base.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/copy.hpp"
#include "base/store_choice.hpp"
#include "base/ticks.hpp"

namespace tutti {

/// `copy(stores, to, from, bytes)` makes it.
template <class Copy>
void copy_chosen(StoreChoice& choice, void* to, const void* from, std::size_t bytes,
                 Copy copy) noexcept {
  const StoreChoice::Decision decision = choice.next();
  // Which copies are unfit for strings is known beforehand, and says nothing of the others.
  if (decision.stores == Stores::string && !copies_strings_well(to, from))
    return copy(choice.best_vectors(), to, from, bytes);
  if (!decision.timed) return copy(decision.stores, to, from, bytes);
  const std::uint64_t start = ticks();
  copy(decision.stores, to, from, bytes);
  choice.record(decision.stores, static_cast<float>(ticks() - start) / static_cast<float>(bytes));
}

}  // namespace tutti
