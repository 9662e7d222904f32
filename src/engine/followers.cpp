#include "engine/followers.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>

namespace tutti {

bool Follower::sleep(std::uint64_t ns) noexcept {
  const timespec timeout{static_cast<time_t>(ns / 1'000'000'000),
                         static_cast<long>(ns % 1'000'000'000)};
  return syscall(SYS_futex, &woken_, FUTEX_WAIT_PRIVATE, 0, &timeout, nullptr, 0) != 0 &&
         errno == ETIMEDOUT;
}

void Followers::add(Follower& follower) noexcept {
  Follower** place = &first_;
  while (*place != nullptr) place = &(*place)->next_;
  *place = &follower;
  follower.next_ = nullptr;
  follower.linked_ = true;
}

void Followers::remove(Follower& follower) noexcept {
  if (!follower.linked_) return;
  Follower** place = &first_;
  while (*place != &follower) place = &(*place)->next_;
  *place = follower.next_;
  follower.linked_ = false;
}

/// Its thread may return as soon as the lock is free: nothing of it is touched from then on. To
/// wake at a word that is gone does nothing, or ends some other wait early, which every wait on
/// such a word must bear.
void Followers::take(Follower** place, Woken* woken) noexcept {
  Follower& follower = **place;
  *place = follower.next_;
  follower.linked_ = false;
  follower.woken_.store(1, std::memory_order_release);
  woken->words_[woken->count_++] = &follower.woken_;
}

Followers::Woken Followers::choose() noexcept {
  Woken woken;
  for (Follower** place = &first_; *place != nullptr && woken.count_ < Woken::kMost;) {
    Follower& follower = **place;
    if (follower.over_(follower.what_)) {
      take(place, &woken);
    } else {
      place = &follower.next_;
    }
  }
  // Who only looks in polls for itself when nobody leads.
  while (!led_ && first_ != nullptr && woken.count_ < Woken::kMost) {
    led_ = first_->may_lead_;
    leader_ = first_->thread_;
    take(&first_, &woken);
  }
  return woken;
}

void Followers::Woken::wake_all() const noexcept {
  for (std::size_t i = 0; i < count_; ++i)
    syscall(SYS_futex, words_[i], FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

}  // namespace tutti
