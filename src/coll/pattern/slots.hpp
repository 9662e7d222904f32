// Whole vectors of one length from some members to others: up to an inbox block through inbox
// blocks, longer ones straight into temporary memory of the receiver, for which the first step is
// an exchange of keys.
#pragma once

#include <cstddef>

#include "coll/collective.hpp"
#include "coll/pattern/direct.hpp"

namespace tutti {

/// Slot 0, 1, ... are for the vectors that a member receives, one each; sender and receiver agree
/// on the number.
class Slots {
 public:
  Slots(Collective& c, std::size_t bytes) noexcept
      : c_(c), bytes_(bytes), window_(c), eager_(bytes <= Inbox::kBlockBytes) {}
  FramePool& frames() noexcept { return c_.team.frames(); }

  /// Room for `slots` of them; once, if any is to come.
  Status open(int slots) noexcept {
    if (eager_) return Status::success();
    TUTTI_TRY(memory_.allocate(c_, bytes_ * static_cast<std::size_t>(slots)));
    return window_.open(memory_.memory(), bytes_ * static_cast<std::size_t>(slots));
  }
  /// Whoever will send here.
  Status invite(int member) noexcept {
    return eager_ ? Status::success() : window_.invite(c_, member);
  }
  /// `data` must stay until sent().
  Task send(int member, int slot, const void* data) noexcept {
    if (eager_) co_return c_.put(member, slot, data, bytes_, &sent_);
    co_await c_.mailed(member, kInvited);
    co_await put_direct(c_, member, bytes_ * static_cast<std::size_t>(slot), data, bytes_, &sent_);
    co_return c_.mail(member, kArrived);
  }
  Engine::Reached arrived(int member, int slot) noexcept {
    return eager_ ? c_.arrival(slot, member) : c_.mailed(member, kArrived);
  }
  const void* data(int slot) noexcept {
    if (eager_) return c_.data(slot, bytes_);
    return at(memory_.memory(), bytes_ * static_cast<std::size_t>(slot));
  }
  /// All that has been sent has left.
  Engine::Reached sent() noexcept { return c_.completed(sent_); }

 private:
  Collective& c_;
  std::size_t bytes_;
  Temporary memory_;
  Window window_;  // goes before the memory
  Completion sent_;
  bool eager_;
};

}  // namespace tutti
