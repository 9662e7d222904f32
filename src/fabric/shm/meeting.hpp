// How the ranks of a node meet: over unix sockets whose names nobody could know before.
//
// Abstract names have no permissions and can be listed by everybody, so a name alone proves
// nothing. The kernel says which user is at the other end, and both ends show that they know the
// job's secret; a stranger is dropped, and neither counted nor waited for (docs/security.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/status.hpp"
#include "fabric/secret/secret.hpp"

namespace tutti::shm {

/// One per rank; for the time of the start. Not thread-safe.
class Meeting {
 public:
  /// An abstract name, drawn by the rank that listens there.
  struct Name {
    std::uint8_t bytes[32] = {};
  };

  explicit Meeting(std::int32_t rank) noexcept : rank_(rank) {}
  ~Meeting();
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;

  /// First, on all ranks: listens, and takes all descriptors that will be needed, so that nobody
  /// waits for a rank that has none left.
  Status open(Name* name) noexcept;
  /// Before the following: the same on all ranks.
  void adopt(const Secret& secret) noexcept { secret_ = secret; }

  /// A follower, once its leader listens: false where that is out of reach (another network
  /// namespace, a sandbox, somebody else's process). Does not wait.
  bool call(const Name& leader) noexcept;
  /// The leader: hands `descriptor` to each of `followers`, which have called or will at once.
  Status serve(int descriptor, const std::vector<std::int32_t>& followers) noexcept;
  /// The leader that has nothing to hand over: who waits for it is told at once.
  void refuse() noexcept;
  /// A follower: what the leader hands over.
  Status receive(int* descriptor) noexcept;

 private:
  /// What a caller shows.
  struct Call {
    std::int32_t rank;
    Proof proof;
  };
  Proof proof_of(const char* role, std::int32_t follower) const noexcept;
  bool show() noexcept;
  void admit(std::vector<int>* callers) noexcept;
  bool answer(int caller, int descriptor, std::vector<std::int32_t>* followers) noexcept;

  std::int32_t rank_;
  Secret secret_;
  Name own_, leader_;
  int listener_ = -1;
  int caller_ = -1;
  bool shown_ = false;  // the leader has this rank's proof
};

}  // namespace tutti::shm
