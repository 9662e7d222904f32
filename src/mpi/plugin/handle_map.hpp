// A hash table from MPI handles to state, for tables that are read by every call and written
// rarely.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace tutti::mpi {

/// Open addressing with linear probing; erasure moves later entries back, so that nothing piles up
/// under thousands of creations and frees. Readers take no lock: a writer makes `version_` odd
/// while it works, and a reader that saw it odd or changed tries again. Key 0 is not allowed.
///
/// Shared state: slots, the table pointer and `version_` are written under `mutex_`, read by any
/// thread. Tables that were outgrown stay allocated, because a reader may still look at one.
template <class Value>
class HandleMap {
 public:
  HandleMap() { grow(64); }
  HandleMap(const HandleMap&) = delete;
  HandleMap& operator=(const HandleMap&) = delete;

  /// The value for `key`, or nullptr. Thread-safe, wait-free unless a writer is at work.
  Value* find(std::uintptr_t key) const noexcept {
    for (;;) {
      const std::uint32_t before = version_.load(std::memory_order_acquire);
      Value* value = probe(key);
      std::atomic_thread_fence(std::memory_order_acquire);
      if ((before & 1) == 0 && version_.load(std::memory_order_relaxed) == before) return value;
    }
  }

  /// Adds or replaces. Thread-safe. Throws std::bad_alloc.
  void insert(std::uintptr_t key, Value* value) {
    std::lock_guard lock(mutex_);
    if (2 * (size_ + 1) > table_.load(std::memory_order_relaxed)->mask) {
      grow(2 * (table_.load(std::memory_order_relaxed)->mask + 1));
    }
    write([&] { size_ += put(*table_.load(std::memory_order_relaxed), key, value); });
  }

  /// Removes `key` when it is there. Thread-safe.
  void erase(std::uintptr_t key) noexcept {
    std::lock_guard lock(mutex_);
    write([&] { size_ -= remove(*table_.load(std::memory_order_relaxed), key); });
  }

  /// The same where `value` is what is there. Thread-safe.
  void erase(std::uintptr_t key, const Value* value) noexcept {
    std::lock_guard lock(mutex_);
    if (probe(key) != value) return;
    write([&] { size_ -= remove(*table_.load(std::memory_order_relaxed), key); });
  }

  /// Calls `visit(key, value)` for every entry. Not to be used with concurrent writers.
  template <class Visit>
  void for_each(Visit&& visit) const {
    const Table& table = *table_.load(std::memory_order_relaxed);
    for (std::size_t i = 0; i <= table.mask; ++i) {
      const std::uintptr_t found = table.slots[i].key.load(std::memory_order_relaxed);
      if (found != 0) visit(found, table.slots[i].value.load(std::memory_order_relaxed));
    }
  }

 private:
  struct Slot {
    std::atomic<std::uintptr_t> key{0};
    std::atomic<Value*> value{nullptr};
  };
  struct Table {
    explicit Table(std::size_t size) : mask(size - 1), slots(new Slot[size]) {}
    std::size_t mask;
    std::unique_ptr<Slot[]> slots;
  };

  static std::size_t home(const Table& table, std::uintptr_t key) noexcept {
    const std::uint64_t mixed = (key ^ (key >> 29)) * 0x9e3779b97f4a7c15u;
    return static_cast<std::size_t>(mixed >> 32) & table.mask;
  }

  Value* probe(std::uintptr_t key) const noexcept {
    const Table& table = *table_.load(std::memory_order_acquire);
    std::size_t i = home(table, key);
    // Bounded, because a writer may be at work on the table.
    for (std::size_t step = 0; step <= table.mask; ++step, i = (i + 1) & table.mask) {
      const std::uintptr_t found = table.slots[i].key.load(std::memory_order_relaxed);
      if (found == key) return table.slots[i].value.load(std::memory_order_relaxed);
      if (found == 0) return nullptr;
    }
    return nullptr;
  }

  template <class Change>
  void write(Change&& change) noexcept {
    version_.fetch_add(1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
    change();
    version_.fetch_add(1, std::memory_order_release);
  }

  static std::size_t put(Table& table, std::uintptr_t key, Value* value) noexcept {
    std::size_t i = home(table, key);
    for (;; i = (i + 1) & table.mask) {
      const std::uintptr_t found = table.slots[i].key.load(std::memory_order_relaxed);
      if (found != 0 && found != key) continue;
      table.slots[i].value.store(value, std::memory_order_relaxed);
      table.slots[i].key.store(key, std::memory_order_relaxed);
      return found == 0;
    }
  }

  static std::size_t remove(Table& table, std::uintptr_t key) noexcept {
    std::size_t hole = home(table, key);
    for (;; hole = (hole + 1) & table.mask) {
      const std::uintptr_t found = table.slots[hole].key.load(std::memory_order_relaxed);
      if (found == 0) return 0;
      if (found == key) break;
    }
    for (std::size_t i = (hole + 1) & table.mask;; i = (i + 1) & table.mask) {
      const std::uintptr_t found = table.slots[i].key.load(std::memory_order_relaxed);
      if (found == 0) break;
      if (((i - home(table, found)) & table.mask) < ((i - hole) & table.mask)) continue;
      table.slots[hole].key.store(found, std::memory_order_relaxed);
      table.slots[hole].value.store(table.slots[i].value.load(std::memory_order_relaxed),
                                    std::memory_order_relaxed);
      hole = i;
    }
    table.slots[hole].key.store(0, std::memory_order_relaxed);
    table.slots[hole].value.store(nullptr, std::memory_order_relaxed);
    return 1;
  }

  void grow(std::size_t size) {
    auto table = std::make_unique<Table>(size);
    if (!tables_.empty()) {
      for_each([&](std::uintptr_t found, Value* value) { put(*table, found, value); });
    }
    tables_.push_back(std::move(table));
    write([&] { table_.store(tables_.back().get(), std::memory_order_release); });
  }

  std::atomic<Table*> table_{nullptr};
  std::atomic<std::uint32_t> version_{0};
  std::mutex mutex_;
  std::size_t size_ = 0;  // guarded by mutex_
  std::vector<std::unique_ptr<Table>> tables_;
};

}  // namespace tutti::mpi
