// Task: a collective or a protocol as a coroutine that returns a Status.
//
// Whatever a task awaits either goes well or ends the task with the same failure: co_await of a
// Status, of another Task or of a wait (Engine::reached) gives nothing. Who wants to know and go on
// says so: `const Status status = co_await outcome(...)`. A task that was ended stays suspended
// where it was, and what it holds is released when the Task is (docs/decisions/0035).
//
// Tasks start suspended, are awaited by other tasks (symmetric transfer) or driven by the engine,
// and recycle their frames: the first parameter of every coroutine is an object with a member
// `FramePool& frames()` (a Team, an Engine), whose free lists the frames come from and go back to.
#pragma once

#include <coroutine>
#include <cstddef>
#include <cstdlib>
#include <new>
#include <type_traits>
#include <utility>

#include "base/status.hpp"

namespace tutti {

/// Free lists of coroutine frames by size. One thread at a time (the engine's lock).
class FramePool {
 public:
  FramePool() = default;
  FramePool(const FramePool&) = delete;
  FramePool& operator=(const FramePool&) = delete;
  ~FramePool() {
    while (slabs_ != nullptr) std::free(std::exchange(slabs_, slabs_->next));
  }

  void* allocate(std::size_t bytes) noexcept {
    const std::size_t index = (bytes + sizeof(Header) + kStep - 1) / kStep;
    void* memory;
    if (index < kClasses && free_[index] != nullptr) {
      memory = free_[index];
      free_[index] = free_[index]->next;
    } else {
      memory = index < kClasses ? cut(index * kStep) : std::malloc(index * kStep);
      if (memory == nullptr) return nullptr;
    }
    auto* header = new (memory) Header{this, index};
    return header + 1;
  }

  static void release(void* frame) noexcept {
    auto* header = static_cast<Header*>(frame) - 1;
    FramePool* pool = header->pool;
    const std::size_t index = header->index;
    if (index >= kClasses) {
      std::free(header);
      return;
    }
    auto* node = new (static_cast<void*>(header)) Free{pool->free_[index]};
    pool->free_[index] = node;
  }

 private:
  struct alignas(16) Header {
    FramePool* pool;
    std::size_t index;
  };
  struct Free {
    Free* next;
  };
  struct alignas(16) Slab {
    Slab* next;
  };
  static constexpr std::size_t kStep = 64;
  static constexpr std::size_t kClasses = 64;
  static constexpr std::size_t kFirstSlab = 8192, kLargestSlab = std::size_t{1} << 25;

  /// For free().
  static void* take_slab(std::size_t bytes) noexcept;

  /// A piece of a slab. Slabs double, so that a process has little and a simulation does not call
  /// malloc for each of a million frames.
  void* cut(std::size_t bytes) noexcept {
    if (bytes > left_) {
      auto* slab = static_cast<Slab*>(take_slab(next_slab_));
      if (slab == nullptr) return nullptr;
      slab->next = std::exchange(slabs_, slab);
      unused_ = reinterpret_cast<std::byte*>(slab + 1);
      left_ = next_slab_ - sizeof(Slab);
      if (next_slab_ < kLargestSlab) next_slab_ *= 2;
    }
    left_ -= bytes;
    return std::exchange(unused_, unused_ + bytes);
  }

  Free* free_[kClasses] = {};
  Slab* slabs_ = nullptr;
  std::byte* unused_ = nullptr;  // of the newest slab
  std::size_t left_ = 0;
  std::size_t next_slab_ = kFirstSlab;
};

/// Objects that lie among the frames of a pool, which outlives them. One thread at a time, as
/// there.
struct InFramePool {
  static void* operator new(std::size_t bytes, FramePool& pool) noexcept {
    return pool.allocate(bytes);
  }
  static void operator delete(void* object) noexcept {
    if (object != nullptr) FramePool::release(object);
  }
  static void operator delete(void* object, FramePool&) noexcept { operator delete(object); }
};

class [[nodiscard]] Task {
 public:
  struct promise_type;
  using Handle = std::coroutine_handle<promise_type>;

  struct FinalAwaiter {
    bool await_ready() const noexcept { return false; }
    std::coroutine_handle<> await_suspend(Handle handle) const noexcept;
    void await_resume() const noexcept {}
  };
  /// co_await of a Status. One that is not ok is in the promise already: a frame has a byte of it.
  struct StatusAwaiter {
    bool ok;
    bool await_ready() const noexcept { return ok; }
    std::coroutine_handle<> await_suspend(Handle handle) const noexcept;
    void await_resume() const noexcept {}
  };

  /// co_await of anything else, where it is: gcc 12 copies what await_transform gives by reference.
  template <class Awaiter>
  struct Awaited {
    Awaiter& awaiter;
    bool await_ready() const noexcept { return awaiter.await_ready(); }
    auto await_suspend(Handle handle) const noexcept { return awaiter.await_suspend(handle); }
    auto await_resume() const noexcept { return awaiter.await_resume(); }
  };

  struct promise_type {
    Handle continuation;
    // The result, field by field: with the flags in its gap a frame is 8 bytes shorter.
    std::uint8_t code = static_cast<std::uint8_t>(Code::internal);
    bool ended = false;  // by a failure: it stays where it is
    bool asked = false;  // the continuation wants to know of a failure
    std::int32_t peer = -1;
    const char* detail = "task has not finished";

    Status result() const noexcept { return {static_cast<Code>(code), peer, detail}; }
    bool ok() const noexcept { return code == static_cast<std::uint8_t>(Code::ok); }
    void set_result(const Status& status) noexcept {
      code = static_cast<std::uint8_t>(status.code);
      peer = status.peer;
      detail = status.detail;
    }

    template <class Pooled, class... Rest>
    static void* operator new(std::size_t bytes, Pooled& pooled, Rest&&...) noexcept {
      return pooled.frames().allocate(bytes);
    }
    static void operator delete(void* frame) noexcept { FramePool::release(frame); }
    static Task get_return_object_on_allocation_failure() noexcept { return Task(); }

    Task get_return_object() noexcept { return Task(Handle::from_promise(*this)); }
    std::suspend_always initial_suspend() const noexcept { return {}; }
    FinalAwaiter final_suspend() const noexcept { return {}; }
    void return_value(Status status) noexcept { set_result(status); }
    void unhandled_exception() noexcept { std::abort(); }  // nothing in a task throws

    StatusAwaiter await_transform(Status status) noexcept {
      if (!status.ok()) [[unlikely]]
        set_result(status);
      return {status.ok()};
    }
    template <class Awaiter>
    auto await_transform(Awaiter&& awaiter) const noexcept {
      return Awaited<std::remove_reference_t<Awaiter>>{awaiter};
    }
  };

  Task() = default;
  /// A task that is over already and never had a frame: for functions that could do everything at
  /// once.
  static Task completed(Status status) noexcept {
    Task task;
    task.frameless_ = status;
    return task;
  }
  Task(Task&& other) noexcept
      : handle_(std::exchange(other.handle_, {})), frameless_(other.frameless_) {}
  Task& operator=(Task&& other) noexcept {
    if (this != &other) {
      reset();
      handle_ = std::exchange(other.handle_, {});
      frameless_ = other.frameless_;
    }
    return *this;
  }
  ~Task() { reset(); }

  bool done() const noexcept { return !handle_ || handle_.promise().ended || handle_.done(); }
  Status result() const noexcept { return handle_ ? handle_.promise().result() : frameless_; }
  bool ok() const noexcept { return handle_ ? handle_.promise().ok() : frameless_.ok(); }
  /// Runs from the start to the first wait. Once.
  void start() noexcept {
    if (handle_) handle_.resume();
  }
  void reset() noexcept {
    if (handle_) handle_.destroy();
    handle_ = {};
  }

  /// Ends the suspended task with a failure, and those that await it up to the first one that has
  /// asked for the outcome. Gives whom to resume.
  static std::coroutine_handle<> fail(Handle handle, Status why) noexcept;

  // Awaiting a task runs it.
  bool await_ready() const noexcept { return !handle_ && frameless_.ok(); }
  std::coroutine_handle<> await_suspend(Handle awaiting) const noexcept {
    if (!handle_) return fail(awaiting, frameless_);
    handle_.promise().continuation = awaiting;
    return handle_;
  }
  void await_resume() const noexcept {}

 private:
  friend class TaskOutcome;
  explicit Task(Handle handle) noexcept : handle_(handle) {}
  Handle handle_;
  Status frameless_ = Status::error(Code::no_memory, "no memory for a task");  // without a handle
};

/// co_await outcome(task): runs it and gives its status.
class TaskOutcome {
 public:
  explicit TaskOutcome(const Task& task) noexcept : task_(task) {}
  bool await_ready() const noexcept { return !task_.handle_; }
  std::coroutine_handle<> await_suspend(Task::Handle awaiting) const noexcept {
    Task::promise_type& promise = task_.handle_.promise();
    promise.continuation = awaiting;
    promise.asked = true;
    return task_.handle_;
  }
  Status await_resume() const noexcept { return task_.result(); }

 private:
  const Task& task_;
};
inline TaskOutcome outcome(const Task& task) noexcept { return TaskOutcome(task); }

inline std::coroutine_handle<> Task::StatusAwaiter::await_suspend(Handle handle) const noexcept {
  return fail(handle, handle.promise().result());
}

inline std::coroutine_handle<> Task::FinalAwaiter::await_suspend(Handle handle) const noexcept {
  const promise_type& promise = handle.promise();
  if (!promise.continuation) return std::noop_coroutine();
  if (promise.ok() || promise.asked) [[likely]]
    return promise.continuation;
  return fail(promise.continuation, promise.result());
}

}  // namespace tutti
