// How a device reaches the memory of its own rank: what is registered anyway, a small pool of
// blocks that data is copied through, or a registration for one operation. There is no cache of
// registrations that could outlive the memory that it was made for
// (docs/decisions/0022-registrations.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

namespace tutti {

/// Memory that a device knows.
struct Registration {
  void* region = nullptr;   // the network's object
  void* twin = nullptr;     // where it has two for the same memory
  std::uint64_t token = 0;  // what local operations name it by: a key, or a descriptor
  std::size_t bytes = 0;
};

/// Registers memory with a device for its own rank's operations.
class Registrar {
 public:
  virtual ~Registrar() = default;
  /// `written`: the device will write there, too. False where that is refused.
  virtual bool add(void* base, std::size_t bytes, bool written, Registration* out) noexcept = 0;
  virtual void remove(const Registration& registration) noexcept = 0;
};

class LocalMemory {
 public:
  /// Operations up to so many bytes are copied through a block.
  static constexpr std::size_t kBlock = std::size_t{64} << 10;
  static constexpr std::size_t kBlocks = 32;

  /// What one operation uses. Given back once.
  struct Use {
    std::byte* address = nullptr;  // where the device reads or writes
    std::uint64_t token = 0;
    std::int32_t block = -1;
    Registration own;  // for this operation alone
  };
  enum class Answer : std::uint8_t { ready, later, refused };

  ~LocalMemory() { close(); }

  /// `registrar` outlives close().
  void open(Registrar* registrar) noexcept { registrar_ = registrar; }
  /// Registers the pool, which acquire() needs. False without memory.
  bool add_pool() noexcept;
  /// Ends all registrations.
  void close() noexcept;

  /// Memory that has been registered for peers serves here too. False without memory.
  bool know(void* base, const Registration& registration) noexcept;
  /// Ends that registration; returns its bytes, 0 where there is none.
  std::size_t forget(const void* region) noexcept;

  /// Finds a way for [local, local + bytes). `reads`: the device will write there. `later`: all
  /// blocks are in use.
  Answer acquire(void* local, std::size_t bytes, bool reads, Use* out) noexcept;
  /// Ends it; after a read that succeeded (`deliver`) the data is then at `local`.
  void release(Use& use, void* local, std::size_t bytes, bool deliver) noexcept;

 private:
  Registrar* registrar_ = nullptr;
  std::unique_ptr<std::byte[]> pool_;
  Registration pool_region_;
  std::vector<std::int32_t> free_blocks_;
  std::multimap<std::uintptr_t, Registration> known_;  // by start
};

}  // namespace tutti
