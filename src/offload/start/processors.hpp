// Extra processors: helper processes that the leader of each node starts beside the program's.
//
// They are no processes of the MPI's. Their part in the start-up (the exchange of a few bytes) goes
// through their node's leader, over a socket; from then on they are ranks of tutti's job like any
// other.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/settings.hpp"
#include "core/core.hpp"
#include "offload/start/place.hpp"

namespace tutti::offload {

/// What a helper is told when it is started.
struct Welcome {
  std::uint32_t magic;
  std::int32_t rank, size, apps;  // in the job
  Place place;
};
inline constexpr std::uint32_t kWelcome = 0x64637032;

/// The helpers that this process has started, and the job with them. One per process of the
/// program.
class Processors {
 public:
  /// Starts the helpers that `settings.dcp` asks for, from the executable `program`. Collective
  /// over `host`, which must outlive the result; fails on all ranks or on none. On failure
  /// `*message` says why, on a rank that knows.
  static Status start(const Host& host, const Settings& settings, const std::string& program,
                      std::unique_ptr<Processors>* out, std::string* message);
  /// Waits until they have left, a while at most: after the job, which they leave with, has ended.
  ~Processors();
  Processors(const Processors&) = delete;
  Processors& operator=(const Processors&) = delete;

  /// The program's ranks and the helpers. Valid as long as this object.
  Host host() const noexcept;

 private:
  explicit Processors(const Host& host) noexcept : host_(host) {}
  Status plan(const Settings& settings, std::string* message);
  Status spawn(const std::string& program, std::string* message);
  Status welcome();
  static Status allgather(void* self, const void* in, void* out, std::size_t bytes);
  bool receive_parts(std::byte* parts, std::size_t bytes) noexcept;
  bool send_all(const void* data, std::size_t bytes) noexcept;

  Host host_;
  int size_ = 0;              // of the job with helpers
  int mine_ = 0;              // helpers of this rank
  int most_ = 0;              // helpers of one rank
  std::vector<int> helpers_;  // by rank of the program: those that it has started
  Welcome welcome_{};         // of the first of this rank
  std::vector<int> sockets_;
};

}  // namespace tutti::offload
