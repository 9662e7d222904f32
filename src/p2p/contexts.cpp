#include "p2p/contexts.hpp"

namespace tutti::p2p {

Contexts::~Contexts() {
  for (auto& [id, context] : contexts_) {
    context->guard.reset();
    while (Transfer* transfer = context->wild.pop_front()) {
      if (transfer->released) Transfers::destroy(transfer);
    }
    while (Arrival* arrival = context->matcher.first_arrival()) {
      context->matcher.remove(*arrival);
      FramePool::release(arrival);
    }
  }
}

Context& Contexts::find_or_make(const std::uint64_t id[2]) noexcept {
  auto& place = contexts_[{id[0], id[1]}];
  if (!place) {
    place = std::make_unique<Context>();
    place->id[0] = id[0];
    place->id[1] = id[1];
  }
  last_ = place.get();
  return *place;
}

Context& Contexts::join(Group& group) noexcept {
  Context& context = of(group.id());
  context.group = &group;
  context.members = Membership{group.job_ranks(), group.size(), {}, true};
  group.context = &context;
  return context;
}

void Contexts::erase(Context& context) noexcept {
  if (last_ == &context) last_ = nullptr;
  if (context.group != nullptr) context.group->context = nullptr;
  const std::pair<std::uint64_t, std::uint64_t> id{context.id[0], context.id[1]};
  contexts_.erase(id);
}

Status Contexts::wait_for_any(Transfer& receive) noexcept {
  Context& context = *receive.context;
  if (!context.members.broken.ok()) return context.members.broken;
  if (context.guard.done()) {
    context.guard = guard(context);
    context.guard.start();
  }
  context.add_wild(receive);
  return Status::success();
}

void Contexts::fail_wild(Context& context, Status why) noexcept {
  while (Transfer* transfer = context.wild.first()) transfers_.complete(*transfer, why);
}

Task Contexts::guard(Context& context) noexcept {
  static const Word kNever{0};
  for (;;) {
    const Status status = co_await outcome(engine_.reached(kNever, 1, context.members));
    fail_wild(context, status);
    if (status.code != Code::timeout) co_return status;
    context.members.broken = Status::success();
    co_await engine_.later();
  }
}

}  // namespace tutti::p2p
