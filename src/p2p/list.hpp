// A doubly linked list through its elements: nothing is allocated, and any element can be taken
// out.
#pragma once

namespace tutti::p2p {

template <class T>
struct Hook {
  T* previous = nullptr;
  T* next = nullptr;
};

/// Elements stay their owners'; one is in at most one list per hook.
template <class T, Hook<T> T::*kHook>
class List {
 public:
  bool empty() const noexcept { return first_ == nullptr; }
  T* first() const noexcept { return first_; }
  static T* next(const T& element) noexcept { return (element.*kHook).next; }

  void push_back(T& element) noexcept {
    (element.*kHook) = {last_, nullptr};
    (last_ != nullptr ? (last_->*kHook).next : first_) = &element;
    last_ = &element;
  }
  void push_front(T& element) noexcept {
    (element.*kHook) = {nullptr, first_};
    (first_ != nullptr ? (first_->*kHook).previous : last_) = &element;
    first_ = &element;
  }
  void remove(T& element) noexcept {
    Hook<T>& hook = element.*kHook;
    (hook.previous != nullptr ? (hook.previous->*kHook).next : first_) = hook.next;
    (hook.next != nullptr ? (hook.next->*kHook).previous : last_) = hook.previous;
    hook = {};
  }
  T* pop_front() noexcept {
    T* const element = first_;
    if (element != nullptr) remove(*element);
    return element;
  }

 private:
  T* first_ = nullptr;
  T* last_ = nullptr;
};

}  // namespace tutti::p2p
