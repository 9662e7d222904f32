// The numbers by which other ranks speak of transfers of this one.
#pragma once

#include <cstdint>
#include <vector>

#include "p2p/transfer.hpp"

namespace tutti::p2p {

/// A number tells a transfer from one that had its place before: the place is in its lower part,
/// how often that was used in its upper one.
class Ids {
 public:
  /// Gives it one. Fails when too many have one.
  Status give(Transfer& transfer) noexcept;
  void take_back(Transfer& transfer) noexcept;
  /// nullptr: no transfer has this number any more.
  Transfer* find(std::uint32_t id) const noexcept;

 private:
  std::vector<Transfer*> transfers_;  // by place; nullptr: free
  std::vector<std::uint32_t> generations_;
  std::vector<std::uint32_t> free_;
};

}  // namespace tutti::p2p
