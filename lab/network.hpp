// The network that the switch plays: ports with a rate, links with a latency and with loss,
// duplication and reordering that depend on the seed and nothing else. No sockets and no clock in
// here: frames go in with the time, and come out when they are due.
#pragma once

#include <cstdint>
#include <memory>
#include <queue>
#include <vector>

namespace tutti::lab {

using Nanoseconds = std::int64_t;

/// How every link behaves. May be changed while frames are under way; those keep what they were
/// given.
struct Conditions {
  Nanoseconds latency =
      0;  // one way, from the end of a frame at the sender to its end at the receiver
  double bits_per_second = 0;  // of each port in each direction; 0: unlimited
  double loss = 0;             // probabilities per frame and link, 0 to 1
  double duplicate = 0;
  double reorder = 0;          // of being held back, for up to reorder_by
  Nanoseconds reorder_by = 0;  // 0: the latency, or 1 ms where there is none
  std::uint64_t seed = 1;
};

/// A frame as the TAP device gave it: a header of the device, then the Ethernet frame. Shared,
/// because multicast and duplication deliver it several times.
struct Frame {
  std::vector<std::uint8_t> bytes;
  std::size_t wire_bytes = 0;  // of the Ethernet frame
};

/// Where a frame is due.
struct Delivery {
  int from = 0;
  int to = 0;
  Nanoseconds due = 0;
  std::shared_ptr<const Frame> frame;
};

/// What a link from one port to another has carried.
struct LinkCounters {
  std::uint64_t frames = 0, bytes = 0;  // delivered; bytes of Ethernet frames
  std::uint64_t lost = 0, duplicated = 0, reordered = 0;
  std::uint64_t cut = 0;         // not carried because a port or the link was cut
  std::uint64_t overflowed = 0;  // not carried because a port's queue was full
};

/// What has passed the cable between a port and its node, launchers' traffic apart.
struct PortCounters {
  std::uint64_t sent = 0;      // bytes of Ethernet frames by the node; a multicast counts once
  std::uint64_t received = 0;  // by it
};

/// One thread at a time.
class Network {
 public:
  /// Ports 0 .. ports - 1. Frames from and to the ports below `shaped_from` are neither delayed nor
  /// harmed: that is how launchers are reached, whose traffic is not the program's.
  Network(int ports, int shaped_from, const Conditions& conditions);

  /// A frame from port `from` for port `to`. The same frame for several ports, one after the other,
  /// is one on the sender's cable: the switch multiplies it.
  void submit(int from, int to, std::shared_ptr<const Frame> frame, Nanoseconds now);
  /// When next() will have something to do; -1: nothing is under way.
  Nanoseconds next_due() const;
  /// Takes the next delivery that is due at `now`, in order of time. False when there is none.
  bool next(Nanoseconds now, Delivery* out);

  void set_conditions(const Conditions& conditions) { conditions_ = conditions; }
  const Conditions& conditions() const { return conditions_; }

  /// Cuts (or heals) all links of a port; frames under way towards it are lost too.
  void cut(int port, bool is_cut);
  /// Cuts (or heals) the link between two ports, both directions.
  void cut_link(int a, int b, bool is_cut);

  int ports() const { return ports_; }
  const LinkCounters& counters(int from, int to) const { return link(from, to).counters; }
  const PortCounters& counters(int port) const {
    return port_[static_cast<std::size_t>(port)].counters;
  }
  void reset_counters();

 private:
  struct Port {
    Nanoseconds up_free = 0;    // when the last bit that was sent leaves
    Nanoseconds down_free = 0;  // when the last bit that was promised arrives
    bool is_cut = false;
    std::shared_ptr<const Frame> last;  // that was sent ...
    Nanoseconds last_start = 0;         // ... and when its first bit left
    PortCounters counters;
  };
  struct Link {
    std::uint64_t submitted =
        0;  // the place of a frame in the sequence that the seed decides about
    bool is_cut = false;
    LinkCounters counters;
  };
  struct Event {
    Nanoseconds time;
    std::uint64_t order;  // among events of the same time: as submitted
    bool arrives;         // at the receiver; else at the switch's port towards it
    Delivery delivery;
  };
  struct Later {
    bool operator()(const Event& a, const Event& b) const {
      return a.time != b.time ? a.time > b.time : a.order > b.order;
    }
  };

  Link& link(int from, int to) { return links_[static_cast<std::size_t>(from * ports_ + to)]; }
  const Link& link(int from, int to) const {
    return links_[static_cast<std::size_t>(from * ports_ + to)];
  }
  bool shaped(int from, int to) const { return from >= shaped_from_ && to >= shaped_from_; }
  bool passes(int from, int to) const;
  Nanoseconds serialization(const Frame& frame) const;
  /// A number in [0, 1) that depends on the seed, the link, the frame's place and the question.
  double draw(int from, int to, std::uint64_t place, std::uint64_t question) const;
  Nanoseconds enter_port(Port& port, const std::shared_ptr<const Frame>& frame, Nanoseconds now);
  void leave_port(Delivery delivery, Nanoseconds now);
  void schedule(Nanoseconds time, bool arrives, Delivery delivery);

  int ports_;
  int shaped_from_;
  Conditions conditions_;
  std::vector<Port> port_;
  std::vector<Link> links_;
  std::priority_queue<Event, std::vector<Event>, Later> events_;
  std::uint64_t order_ = 0;
};

}  // namespace tutti::lab
