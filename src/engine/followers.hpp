// The threads of a rank that wait at the same time: one leads, which polls for all and sleeps on
// the rank's bell; the others follow, each asleep on a word of its own.
//
// Rule, which Engine::Guard keeps at every release of the lock: of those who follow, everybody
// whose own operation is over is being woken, and if anybody follows, somebody leads. Who leads may
// be held up in a call back of the program's: then somebody who follows takes the lead.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace tutti {

/// A thread that follows, in a variable of its own. All but the word is used under the guard.
class Follower {
 public:
  /// `over()`: what it waits for; called under the guard, also by other threads.
  template <class Over>
  explicit Follower(const Over& over, bool may_lead = true) noexcept
      : over_([](const void* what) { return (*static_cast<const Over*>(what))(); }),
        what_(&over),
        may_lead_(may_lead) {}
  Follower(const Follower&) = delete;
  Follower& operator=(const Follower&) = delete;

  /// Sleeps until it is woken, or a signal comes, or `ns` have passed: then true. Without the
  /// guard.
  bool sleep(std::uint64_t ns) noexcept;
  /// It has been woken: what it waits for is over, or its thread leads. Under the guard.
  bool woken() const noexcept { return woken_.load(std::memory_order_relaxed) != 0; }

 private:
  friend class Followers;
  using Futex = std::atomic<std::uint32_t>;

  bool (*over_)(const void*);
  const void* what_;
  bool may_lead_;  // false: returns soon in any case, and then may never come back
  pthread_t thread_ = pthread_self();
  bool linked_ = false;
  Follower* next_ = nullptr;
  Futex woken_{0};  // 0 or 1; written under the guard
};

/// Under the guard where nothing else is said. Of a rank whose application has one thread nobody
/// follows, and nothing in here is called.
class Followers {
 public:
  bool empty() const noexcept { return first_ == nullptr; }
  bool led() const noexcept { return led_; }
  /// By the caller: also where it waits inside a wait of its own, which a call back from the host
  /// may make it do.
  bool led_by_caller() const noexcept {
    return led_ && pthread_equal(leader_, pthread_self()) != 0;
  }
  void lead() noexcept {
    led_ = true;
    leader_ = pthread_self();
  }
  void leave() noexcept { led_ = false; }

  void add(Follower& follower) noexcept;
  /// One that has slept for long enough.
  void remove(Follower& follower) noexcept;

  /// Words of threads that have slept, to be woken once the lock is free.
  class Woken {
   public:
    void wake_all() const noexcept;

   private:
    friend class Followers;
    static constexpr std::size_t kMost = 16;
    const Follower::Futex* words_[kMost];
    std::size_t count_ = 0;
  };
  /// Takes out whom the rule says. Beyond Woken's room they are left to the next release, which
  /// comes for certain: those that are woken take the lock.
  Woken choose() noexcept;

 private:
  void take(Follower** place, Woken* woken) noexcept;

  Follower* first_ = nullptr;  // in the order in which they came
  bool led_ = false;
  pthread_t leader_{};
};

}  // namespace tutti
