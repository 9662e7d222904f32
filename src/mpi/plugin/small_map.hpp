// A table of the predefined handles: filled once, then only read, a few instructions per look-up.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace tutti::mpi {

/// Maps up to 3/4 * kSlots handles to values. Not for concurrent writing; reading is thread-safe.
template <class Value, std::size_t kSlots>
class SmallMap {
  static_assert((kSlots & (kSlots - 1)) == 0);

 public:
  void insert(std::uintptr_t key, Value value) noexcept {
    Slot* slot = &slots_[home(key)];
    while (slot->key != 0 && slot->key != key) slot = next(slot);
    if (slot->key == 0) *slot = {key, value};
  }

  /// nullptr when `key` is not there.
  const Value* find(std::uintptr_t key) const noexcept {
    const Slot* slot = &slots_[home(key)];
    while (slot->key != key) {
      if (slot->key == 0) return nullptr;
      slot = next(const_cast<Slot*>(slot));
    }
    return &slot->value;
  }

 private:
  struct Slot {
    std::uintptr_t key = 0;
    Value value{};
  };
  static std::size_t home(std::uintptr_t key) noexcept {
    return static_cast<std::size_t>((key * 0x9e3779b97f4a7c15u) >> 40) & (kSlots - 1);
  }
  Slot* next(Slot* slot) noexcept { return slot == &slots_.back() ? slots_.data() : slot + 1; }
  const Slot* next(Slot* slot) const noexcept {
    return slot == &slots_.back() ? slots_.data() : slot + 1;
  }

  std::array<Slot, kSlots> slots_{};
};

}  // namespace tutti::mpi
