// Whether the application has to wait for a processor.
#pragma once

#include <cstdint>

namespace tutti {

/// Watches the thread that this process began with. For one caller.
class Crowding {
 public:
  /// Reads a file such as /proc/self/schedstat, which is anew there at each look.
  explicit Crowding(const char* path = "/proc/self/schedstat") noexcept;
  ~Crowding();
  Crowding(const Crowding&) = delete;
  Crowding& operator=(const Crowding&) = delete;

  /// True where, in the time between the last looks, that thread has waited for a processor as long
  /// as it has run on one, or longer: others want all of them. False until the second look; true
  /// where the kernel does not say. Looks once in kWindow at most; `now_ns` is any clock's time.
  bool crowded(std::uint64_t now_ns) noexcept;

 private:
  static constexpr std::uint64_t kWindow = 50'000'000;  // ns

  void look() noexcept;

  const int file_;
  std::uint64_t next_look_ns_ = 0;
  std::uint64_t ran_ns_ = 0, waited_ns_ = 0;  // until the last look
  bool looked_ = false;
  bool crowded_ = true;
};

}  // namespace tutti
