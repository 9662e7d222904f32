#include "p2p/probes.hpp"

namespace tutti::p2p {
namespace {

/// Describes the message that was found, and takes it out if somebody wants it.
Receipt found(Matcher& matcher, Arrival& arrival, Arrival** message) noexcept {
  const Header& header = arrival.header;
  if (message != nullptr) {
    matcher.remove(arrival);
    *message = &arrival;
  }
  return {{}, static_cast<int>(header.source), header.tag, header.bytes, false};
}

}  // namespace

/// Nothing waits for the message that a probe looks for: whether it can still come is looked up
/// here, now and then. True when it cannot.
bool Probes::in_vain(Group& group, int source, Receipt* out) noexcept {
  if (!engine_.glance()) return false;
  const bool any = source == kAnySource;
  const std::int32_t rank = any ? -1 : group.job_rank(source);
  const Membership one{&rank, 1, {}};
  const Status status = engine_.health(any ? contexts_.of(group).members : one);
  if (status.ok()) return false;
  *out = {.status = status};
  return true;
}

bool Probes::take_now(Group& group, int source, int tag, Receipt* out, Arrival** message) noexcept {
  Matcher& matcher = contexts_.of(group).matcher;
  Arrival* arrival = matcher.find(source, tag);
  if (arrival == nullptr) {
    while (delivery_.poll(nullptr) || engine_.poll()) {
    }
    arrival = matcher.find(source, tag);
  }
  if (arrival == nullptr) return in_vain(group, source, out);
  *out = found(matcher, *arrival, message);
  return true;
}

Receipt Probes::take(Group& group, int source, int tag, Arrival** message,
                     Engine::Guard& guard) noexcept {
  Context& context = contexts_.of(group);
  Matcher& matcher = context.matcher;
  Arrival* arrival = matcher.find(source, tag);
  if (arrival == nullptr) {
    // Stands for the probe where it is looked up who still waits for a peer.
    Transfer probing;
    probing.want(context, Wish::probe(group, source, tag));
    receives_.begin(probing, false);
    delivery_.wait_until(
        [&] {
          arrival = matcher.find(source, tag);
          return arrival != nullptr || !probing.active();
        },
        probing.peer, guard);
    if (probing.active()) transfers_.complete(probing, Status::success());
    if (arrival == nullptr) return probing.outcome;
  }
  return found(matcher, *arrival, message);
}

}  // namespace tutti::p2p
