// How many datagrams of a group have not come, as the numbers of those that have come tell.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "fabric/groups/groups.hpp"

namespace tutti::groups {

/// Those behind the newest that has come are not known to be missing yet; one that comes again
/// after others may stand for one that is. One thread at a time.
class Losses {
 public:
  /// A datagram of the group has come. The first of a sender says where his numbers begin.
  void note(const Origin& origin) noexcept;
  /// Lost on the way, or because no receive was posted.
  std::uint64_t count() const noexcept { return count_; }

 private:
  struct Sender {
    std::uint32_t newest;
    std::uint64_t missing;
  };
  std::unordered_map<std::uint32_t, Sender> senders_;
  std::uint64_t count_ = 0;
};

}  // namespace tutti::groups
