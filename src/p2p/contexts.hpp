// The groups whose messages this rank knows of, and what waits in them for a message from anybody.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>

#include "engine/engine.hpp"
#include "p2p/context.hpp"
#include "p2p/transfers.hpp"

namespace tutti::p2p {

class Contexts {
 public:
  Contexts(Engine& engine, Transfers& transfers) noexcept
      : engine_(engine), transfers_(transfers) {}
  ~Contexts();
  Contexts(const Contexts&) = delete;
  Contexts& operator=(const Contexts&) = delete;

  Context& of(Group& group) noexcept {
    Context* const context = known(group);
    return context != nullptr ? *context : join(group);
  }
  /// nullptr: the group has sent and received nothing here yet.
  static Context* known(const Group& group) noexcept { return group.context; }
  /// Of a packet, which may be of a group that this rank has not used yet.
  Context& of(const std::uint64_t id[2]) noexcept {
    const bool again = last_ != nullptr && last_->id[0] == id[0] && last_->id[1] == id[1];
    return again ? *last_ : find_or_make(id);
  }
  /// The same; nullptr: nothing is known of it.
  Context* find(const std::uint64_t id[2]) noexcept {
    const auto place = contexts_.find({id[0], id[1]});
    return place == contexts_.end() ? nullptr : place->second.get();
  }
  void erase(Context& context) noexcept;
  template <class Function>
  void for_each(Function&& function) noexcept {
    for (auto& [id, context] : contexts_) function(*context);
  }

  /// From now on the receive waits for any member. Not ok: one of them is lost already.
  Status wait_for_any(Transfer& receive) noexcept;
  void fail_wild(Context& context, Status why) noexcept;

  FramePool& frames() noexcept { return engine_.frames(); }  // of its tasks

 private:
  struct Hash {
    std::size_t operator()(const std::pair<std::uint64_t, std::uint64_t>& id) const noexcept {
      return static_cast<std::size_t>((id.first ^ (id.second * 0x9e3779b97f4a7c15)) *
                                      0xbf58476d1ce4e5b9);
    }
  };

  Context& find_or_make(const std::uint64_t id[2]) noexcept;
  Context& join(Group& group) noexcept;
  Task guard(Context& context) noexcept;

  Engine& engine_;
  Transfers& transfers_;
  std::unordered_map<std::pair<std::uint64_t, std::uint64_t>, std::unique_ptr<Context>, Hash>
      contexts_;
  Context* last_ = nullptr;  // of the last packet
};

}  // namespace tutti::p2p
