#include "lab/network.hpp"

#include <algorithm>

namespace tutti::lab {

namespace {

// A port holds at most so much time's worth of frames in each direction, as a switch's buffer does.
constexpr Nanoseconds kLongestQueue = 2'000'000'000;
constexpr Nanoseconds kDefaultReorder = 1'000'000;

enum Question : std::uint64_t { kLoss = 1, kDuplicate = 2, kReorder = 3, kReorderBy = 4 };

std::uint64_t mix(std::uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

}  // namespace

Network::Network(int ports, int shaped_from, const Conditions& conditions)
    : ports_(ports),
      shaped_from_(shaped_from),
      conditions_(conditions),
      port_(static_cast<std::size_t>(ports)),
      links_(static_cast<std::size_t>(ports) * static_cast<std::size_t>(ports)) {}

bool Network::passes(int from, int to) const {
  return !port_[static_cast<std::size_t>(from)].is_cut &&
         !port_[static_cast<std::size_t>(to)].is_cut && !link(from, to).is_cut;
}

Nanoseconds Network::serialization(const Frame& frame) const {
  if (conditions_.bits_per_second <= 0) return 0;
  return static_cast<Nanoseconds>(static_cast<double>(frame.wire_bytes) * 8e9 /
                                  conditions_.bits_per_second);
}

double Network::draw(int from, int to, std::uint64_t place, std::uint64_t question) const {
  const auto which = static_cast<std::uint64_t>(from * ports_ + to);
  const std::uint64_t bits = mix(mix(mix(conditions_.seed) + which * 8 + question) + place);
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

void Network::schedule(Nanoseconds time, bool arrives, Delivery delivery) {
  events_.push(Event{time, order_++, arrives, std::move(delivery)});
}

/// The sender's cable is busy also with frames that will be lost on the way. When the first bit
/// leaves.
Nanoseconds Network::enter_port(Port& port, const std::shared_ptr<const Frame>& frame,
                                Nanoseconds now) {
  if (port.last == frame) return port.last_start;
  port.last = frame;
  port.last_start = std::max(now, port.up_free);
  port.up_free = port.last_start + serialization(*frame);
  port.counters.sent += frame->wire_bytes;
  return port.last_start;
}

void Network::submit(int from, int to, std::shared_ptr<const Frame> frame, Nanoseconds now) {
  Link& its = link(from, to);
  if (!passes(from, to)) {
    ++its.counters.cut;
    return;
  }
  Delivery delivery{from, to, now, std::move(frame)};
  if (!shaped(from, to)) {
    schedule(now, true, std::move(delivery));
    return;
  }
  Port& port = port_[static_cast<std::size_t>(from)];
  if (port.up_free - now > kLongestQueue) {
    ++its.counters.overflowed;
    return;
  }
  const Nanoseconds start = enter_port(port, delivery.frame, now);
  const std::uint64_t place = its.submitted++;
  if (draw(from, to, place, kLoss) < conditions_.loss) {
    ++its.counters.lost;
    return;
  }
  Nanoseconds extra = 0;
  if (draw(from, to, place, kReorder) < conditions_.reorder) {
    const Nanoseconds usual = conditions_.latency > 0 ? conditions_.latency : kDefaultReorder;
    const Nanoseconds most = conditions_.reorder_by > 0 ? conditions_.reorder_by : usual;
    extra = static_cast<Nanoseconds>((0.25 + 0.75 * draw(from, to, place, kReorderBy)) *
                                     static_cast<double>(most));
    ++its.counters.reordered;
  }
  if (draw(from, to, place, kDuplicate) < conditions_.duplicate) {
    ++its.counters.duplicated;
    schedule(start + extra, false, delivery);
  }
  schedule(start + extra, false, std::move(delivery));
}

/// The frame's head is at the switch: it leaves towards the receiver when the cable there is free.
/// Cut-through, so that a frame's bytes are counted once where nothing else is in the way.
void Network::leave_port(Delivery delivery, Nanoseconds now) {
  Port& port = port_[static_cast<std::size_t>(delivery.to)];
  if (port.down_free - now > kLongestQueue) {
    ++link(delivery.from, delivery.to).counters.overflowed;
    return;
  }
  port.down_free = std::max(now, port.down_free) + serialization(*delivery.frame);
  schedule(port.down_free + conditions_.latency, true, std::move(delivery));
}

Nanoseconds Network::next_due() const { return events_.empty() ? -1 : events_.top().time; }

bool Network::next(Nanoseconds now, Delivery* out) {
  while (!events_.empty() && events_.top().time <= now) {
    Event event = events_.top();
    events_.pop();
    if (!event.arrives) {
      leave_port(std::move(event.delivery), event.time);
      continue;
    }
    Link& its = link(event.delivery.from, event.delivery.to);
    if (!passes(event.delivery.from, event.delivery.to)) {
      ++its.counters.cut;
      continue;
    }
    ++its.counters.frames;
    its.counters.bytes += event.delivery.frame->wire_bytes;
    if (shaped(event.delivery.from, event.delivery.to))
      port_[static_cast<std::size_t>(event.delivery.to)].counters.received +=
          event.delivery.frame->wire_bytes;
    event.delivery.due = event.time;
    *out = std::move(event.delivery);
    return true;
  }
  return false;
}

void Network::cut(int port, bool is_cut) { port_[static_cast<std::size_t>(port)].is_cut = is_cut; }

void Network::cut_link(int a, int b, bool is_cut) {
  link(a, b).is_cut = is_cut;
  link(b, a).is_cut = is_cut;
}

void Network::reset_counters() {
  for (Link& its : links_) its.counters = {};
  for (Port& its : port_) its.counters = {};
}

}  // namespace tutti::lab
