// The base of all decorators: a fabric that owns a fabric and passes everything on.
#pragma once

#include <memory>
#include <utility>

#include "fabric/fabric.hpp"

namespace tutti::wrap {

class Forward : public Fabric {
 public:
  /// `signals`: signal() comes through signal_virtually() of this object too. Costs a virtual call.
  explicit Forward(std::unique_ptr<Fabric> inner, bool signals = false) noexcept
      : Fabric(inner->rank(), inner->size()), inner_(std::move(inner)) {
    mirror(*inner_);
    if (signals) intercepts_signals_ = true;
  }

  Status expose(void* base, std::size_t bytes, Region* out) noexcept override {
    return inner_->expose(base, bytes, out);
  }
  void withdraw(Region& region) noexcept override { inner_->withdraw(region); }
  Region& arena() noexcept override { return inner_->arena(); }
  Status arena_of(std::int32_t peer, Remote* out) noexcept override {
    return inner_->arena_of(peer, out);
  }
  Status reserve(std::size_t offset, std::size_t bytes) noexcept override {
    return inner_->reserve(offset, bytes);
  }
  Status attach(std::int32_t peer, const Key& key, Remote* out) noexcept override {
    return inner_->attach(peer, key, out);
  }
  bool maps(std::int32_t peer) const noexcept override { return inner_->maps(peer); }
  bool reaches(std::int32_t peer) const noexcept override { return inner_->reaches(peer); }
  std::int32_t node_of(std::int32_t peer) const noexcept override { return inner_->node_of(peer); }
  Locality locality_of(std::int32_t peer) const noexcept override {
    return inner_->locality_of(peer);
  }
  Status put(const Remote& target, std::size_t offset, const void* source, std::size_t bytes,
             const Tail* tail, Completion* completion, Event event) noexcept override {
    return inner_->put(target, offset, source, bytes, tail, completion, event);
  }
  Status get(const Remote& source, std::size_t offset, void* destination, std::size_t bytes,
             Completion* completion) noexcept override {
    return inner_->get(source, offset, destination, bytes, completion);
  }
  void progress() noexcept override { inner_->progress(); }
  void expect_reads() noexcept override { inner_->expect_reads(); }
  void leave_to_caller() noexcept override { inner_->leave_to_caller(); }
  void wake(std::int32_t peer, Event event) noexcept override { inner_->wake(peer, event); }
  void wake_reader(std::int32_t peer) noexcept override { inner_->wake_reader(peer); }
  void await_only(std::int32_t peer) noexcept override { inner_->await_only(peer); }
  std::uint32_t arm(Attention attention) noexcept override { return inner_->arm(attention); }
  void sleep(std::uint32_t ticket, std::uint64_t timeout_ns,
             Attention attention) noexcept override {
    inner_->sleep(ticket, timeout_ns, attention);
  }
  void disarm(Attention attention) noexcept override { inner_->disarm(attention); }
  void stays_awake() noexcept override { inner_->stays_awake(); }
  bool alive(std::int32_t peer) noexcept override { return inner_->alive(peer); }
  void inquire(std::int32_t peer) noexcept override { inner_->inquire(peer); }
  bool left(std::int32_t peer) noexcept override { return inner_->left(peer); }
  bool breakage(std::uint64_t number, Breakage* out) const noexcept override {
    return inner_->breakage(number, out);
  }
  void tell_broken(const Breakage& breakage, const std::int32_t* members,
                   int size) noexcept override {
    inner_->tell_broken(breakage, members, size);
  }
  std::uint64_t now_ns() const noexcept override { return inner_->now_ns(); }
  void watch(Waiter& waiter) noexcept override { inner_->watch(waiter); }
  void alarm(Word& clock, std::uint64_t at_ns) noexcept override { inner_->alarm(clock, at_ns); }
  Datagrams* datagrams() noexcept override { return inner_->datagrams(); }

 protected:
  Fabric& inner() noexcept { return *inner_; }
  const Fabric& inner() const noexcept { return *inner_; }
  void signal_virtually(std::int32_t peer, Word& word, std::uint64_t value) noexcept override {
    inner_->signal(peer, word, value);
  }
  void spend_virtually(Work work, std::size_t bytes) noexcept override {
    inner_->spend(work, bytes);
  }

 private:
  std::unique_ptr<Fabric> inner_;
};

}  // namespace tutti::wrap
