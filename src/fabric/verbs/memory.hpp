// How a device reaches the memory of its own rank: what is registered anyway, a small pool of
// blocks that data is copied through, or a registration for one operation. There is no cache of
// registrations that could outlive the memory that it was made for.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

namespace tutti::verbs {

class LocalMemory {
 public:
  /// Operations up to so many bytes are copied through a block.
  static constexpr std::size_t kBlock = std::size_t{64} << 10;
  static constexpr std::size_t kBlocks = 32;

  /// What one operation uses. Given back once.
  struct Use {
    std::byte* address = nullptr;  // where the device reads or writes
    std::uint32_t key = 0;
    std::int32_t block = -1;
    ibv_mr* own = nullptr;
  };
  enum class Answer : std::uint8_t { ready, later, refused };

  ~LocalMemory() { close(); }

  /// Registers the pool. False without memory.
  bool open(ibv_pd* domain) noexcept;
  /// Ends all registrations. The domain must still be there.
  void close() noexcept;

  /// Registers memory that peers may use. nullptr where the kernel refuses (errno).
  ibv_mr* expose(void* base, std::size_t bytes, bool on_demand) noexcept;
  /// Returns how many bytes that was.
  std::size_t withdraw(ibv_mr* region) noexcept;

  /// Finds a way for [local, local + bytes). `reads`: the device will write there. `later`: all
  /// blocks are in use.
  Answer acquire(void* local, std::size_t bytes, bool reads, Use* out) noexcept;
  /// Ends it; after a read that succeeded (`deliver`) the data is then at `local`.
  void release(Use& use, void* local, std::size_t bytes, bool deliver) noexcept;

 private:
  ibv_pd* domain_ = nullptr;
  std::unique_ptr<std::byte[]> pool_;
  ibv_mr* pool_region_ = nullptr;
  std::vector<std::int32_t> free_blocks_;
  std::multimap<std::uintptr_t, ibv_mr*>
      exposed_;  // by start; the same memory may be exposed twice
};

}  // namespace tutti::verbs
