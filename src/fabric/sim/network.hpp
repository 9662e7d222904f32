// A network as the simulation sees it: what each step of a message costs.
//
// The terms are named as in VIA-2003, section 5. A message of n bytes that is put by one node into
// the memory of another passes, uncontended,
//
//   Tm + Td            the sender's processor: library, posting the descriptor
//   (n Tc)             ... copying into registered memory, where the source is not registered
//   Ts, Tn             the sender's NIC: starting the DMA, processing
//   n Tt               the link; the sender's NIC is then busy for Ta more (acknowledgement)
//   Tl                 wire and switch
//   Tn, Ts             the receiver's NIC: processing, starting the DMA into memory
//
// so one put takes Tm + Td + 2 (Ts + Tn) + n Tt + Tl, and messages that follow each other leave a
// NIC every n Tt + Ta and enter one every max(n Tt + Tg, Tn). A LogGP network (Alexandrov et al.)
// has Tm = o, Ta = Tg = g, Tt = G, Tl = L, and nothing else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/status.hpp"

namespace tutti::sim {

/// Virtual time and durations, in picoseconds.
using Time = std::uint64_t;
inline constexpr double kMicrosecond = 1e6;  // picoseconds

/// A cost per byte, kept in femtoseconds so that fast networks are not rounded away.
class PerByte {
 public:
  PerByte() = default;
  static PerByte microseconds(double us) noexcept;
  Time of(std::size_t bytes) const noexcept { return (bytes * femtoseconds_ + 500) / 1000; }
  double microseconds() const noexcept { return static_cast<double>(femtoseconds_) / 1e9; }

 private:
  std::uint64_t femtoseconds_ = 0;
};

/// The cores of a node whose caches are coherent, and what a line takes from one to another
/// (fabric/sim/lines.hpp). Cores are numbered so that those that share something follow each other.
struct CoherentNode {
  int l3 = 0;       // cores that share a last-level cache; 0: nothing is said, Network::line counts
  int numa = 0;     // cores of a NUMA domain
  int package = 0;  // cores of a package
  Time line_l3 = 0, line_numa = 0, line_package = 0, line_far = 0;
  Time serve = 0;   // from one reader of a line to the next
  Time follow = 0;  // from one line to the next of a core that reads many
  // How long a line occupies the way out of a last-level cache, the way into one, and the way from
  // one package to another. 0: there is room for any number.
  Time way_cache = 0, way_package = 0;
};

struct Network {
  std::string name;
  std::string source;  // where the figures come from

  // ---- messages between nodes (VIA-2003)
  Time Tm = 0;  // library overhead
  Time Td = 0;  // posting a descriptor
  Time Ts = 0;  // starting a DMA
  Time Tn = 0;  // processing in the NIC
  Time Ta = 0;  // acknowledgement: the sending NIC's gap after a message
  Time Tl = 0;  // wire and switch
  Time Tg = 0;  // the receiving NIC's gap after a message
  Time Tr = 0;  // what a two-sided packet costs the receiver: completion, matching, posting a
                // receive again
  Time Ti = 0;  // interrupt
  bool handlers_elsewhere = false;  // another processor of the node runs its handler
  PerByte Tt;                       // transmission
  PerByte Tc;                       // copy by the processor
  Time To = 0;                      // reduction: per call ...
  PerByte To_byte;                  // ... and per byte
  std::size_t counter_bytes = 8;    // the counter behind the data, as transmitted
  std::size_t copied_bytes = 0;  // puts from unregistered memory up to this size are copied first

  // ---- within a node
  Time line = 0;  // a cache line from one core to another
  Time call = 0;  // a system call (cross-memory attach)
  CoherentNode node;

  // ---- datagrams: what may happen to each copy on its last link
  std::size_t mtu = 2048;  // largest datagram
  double loss = 0;         // probabilities
  double duplicate = 0;
  double corrupt = 0;   // of one bit being turned over
  double reorder = 0;   // of being delayed ...
  Time reorder_by = 0;  // ... by this

  bool between_nodes = true;  // false: the profile describes one node and has no network

  // ---- topology
  int leaf_nodes = 0;  // nodes below one leaf switch of a fat tree; 0: a full crossbar
  int uplinks = 0;     // of a leaf switch: leaf_nodes / over-subscription
  Time hop = 0;        // each further switch

  /// A put of nothing between two nodes.
  Time one_way() const noexcept { return Tm + Td + 2 * (Ts + Tn) + Tl; }
  /// What goes through a kernel takes more than 8 us (Traits::bypass).
  bool bypasses_kernel() const noexcept { return one_way() <= 8'000'000; }
};

/// Reads a profile (TOML, times in microseconds). On failure `*message` says in one line what would
/// be right.
Status load_network(const std::string& path, Network* out, std::string* message);

}  // namespace tutti::sim
