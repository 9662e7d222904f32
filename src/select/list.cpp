// The one list of algorithms. Settings, reports, documentation and the test matrix derive from it;
// adding an algorithm is its file, its test and a line here (CONTRIBUTING.md).
#include <algorithm>

#include "coll/algorithms.hpp"
#include "coll/pattern/cast_windows.hpp"
#include "coll/pattern/fold.hpp"
#include "coll/pattern/fold_ring.hpp"
#include "coll/pattern/fold_whole.hpp"
#include "coll/pattern/published.hpp"
#include "offload/client.hpp"
#include "select/select.hpp"

namespace tutti {
namespace {

/// Bytes that one member publishes.
std::size_t published_bytes(const Shape& s) noexcept {
  const bool vector_of_blocks =
      s.coll == Coll::scatter || s.coll == Coll::alltoall || s.coll == Coll::reduce_scatter_block;
  return vector_of_blocks ? s.bytes * static_cast<std::size_t>(s.size) : s.bytes;
}

std::size_t block_of(const Shape& s, const Parameters& p) noexcept {
  const auto wanted = static_cast<std::size_t>(p.value[0]);
  return wanted == 0 || wanted > s.block_bytes ? s.block_bytes : wanted;
}

// ---- restrictions: nullptr when the algorithm can run

const char* fits_cell(const Shape& s, const Parameters&) {
  if (!s.mapped) return "members do not share memory";
  return published_bytes(s) <= Team::kCellCapacity ? nullptr : "larger than a cell";
}

const char* through_shared_blocks(const Shape& s, const Parameters&) {
  return s.mapped ? nullptr : "members do not share memory";
}

const char* reduces_through_shared_blocks(const Shape& s, const Parameters&) {
  if (!s.mapped) return "members do not share memory";
  if (!s.divisible) return "the operator needs whole vectors";
  return s.element_bytes <= s.block_bytes ? nullptr : "an element is larger than a block";
}

const char* whole_vectors(const Shape& s, const Parameters&) {
  return s.mapped ? nullptr : "members do not share memory";
}

const char* by_memory(const Shape& s, const Parameters&) {
  if (!s.mapped) return "members do not share memory";
  return s.user_memory ? nullptr : "cross-memory attach is not permitted";
}

const char* reduces_by_memory(const Shape& s, const Parameters& p) {
  if (const char* why = by_memory(s, p)) return why;
  if (!s.divisible) return "the operator needs whole vectors";
  return s.element_bytes <= s.block_bytes / 2 ? nullptr : "an element is larger than half a block";
}

const char* by_processors(const Shape& s, const Parameters&) {
  if (!s.dedicated) return "no dedicated processors serve it (TUTTI_DCP)";
  if (s.fixed_order) return "the parts of a processor are folded first";
  if (!s.divisible) return "the operator is known to the program only";
  return s.commutative ? nullptr : "the operator does not commute";
}

constexpr const char* kLayered = "members share nodes: it runs between their leaders";
constexpr int kMostInExchange = 64;
constexpr const char* kTree = "folds in a tree, not from left to right";

const char* fits_inbox_blocks(const Shape& s, const Parameters& p) {
  if (s.layered) return kLayered;
  if (p.value[0] < 1 || p.value[0] > static_cast<std::int64_t>(Inbox::kBlockBytes))
    return "block: 1 to 5120";
  return chunks(s.bytes, static_cast<std::size_t>(p.value[0])) <= Inbox::kBcastBlocks
             ? nullptr
             : "larger than the inbox blocks of an epoch";
}

const char* fits_inbox_block(const Shape& s, const Parameters& p) {
  const std::int64_t degree = p.value[0];
  if (degree != 1 && degree != 3 && degree != 7 && degree != 15) return "degree: 1, 3, 7 or 15";
  if (s.layered) return kLayered;
  if (s.fixed_order) return kTree;
  return s.bytes <= Inbox::kBlockBytes ? nullptr : "larger than an inbox block";
}

const char* fits_packets(const Shape& s, const Parameters& p) {
  if (const char* why = fits_inbox_blocks(s, p)) return why;
  return s.fixed_order ? kTree : nullptr;
}

const char* between_nodes(const Shape& s, const Parameters&) {
  if (s.mapped) return "members share memory";
  if (s.layered) return kLayered;
  return s.mail ? nullptr : "members have no mail slots (without payload, or more than 4096)";
}

const char* folds_between_nodes(const Shape& s, const Parameters& p) {
  if (const char* why = between_nodes(s, p)) return why;
  return s.fixed_order ? kTree : nullptr;
}

const char* divides_between_nodes(const Shape& s, const Parameters& p) {
  if (const char* why = between_nodes(s, p)) return why;
  return s.divisible ? nullptr : "the operator needs whole vectors";
}

const char* halves_between_nodes(const Shape& s, const Parameters& p) {
  if (const char* why = divides_between_nodes(s, p)) return why;
  return s.fixed_order ? kTree : nullptr;
}

const char* rings_between_nodes(const Shape& s, const Parameters& p) {
  if (const char* why = divides_between_nodes(s, p)) return why;
  if (s.fixed_order) return "folds each part from another rank on";
  return s.commutative ? nullptr : "the operator does not commute";
}

const char* collects_in_block(const Shape& s, const Parameters&) {
  if (s.layered) return kLayered;
  const std::size_t total =
      s.coll == Coll::allgatherv ? s.bytes : s.bytes * static_cast<std::size_t>(s.size);
  return total <= Inbox::kBlockBytes ? nullptr : "larger than an inbox block";
}

const char* disseminates(const Shape& s, const Parameters& p) {
  return p.value[0] < 2 ? "radix: from 2" : between_nodes(s, p);
}

/// Rounds of everybody with everybody, through segments of their own, in which `bytes` lie.
const char* everyone_fits(const Shape& s, std::size_t bytes) {
  if (s.mapped) return "members share memory";
  if (s.layered) return kLayered;
  if (!s.alone) return "not every member is on a node of its own";
  if (s.size > kMostInExchange) return "too many members to send to each of them";
  const auto size = static_cast<std::size_t>(s.size);
  // As they are laid out, with room for lines and elements.
  const std::size_t room = size * (2 * kCacheLine + 2 * s.element_bytes);
  return bytes + room <= NodeSegment::kMost ? nullptr : "larger than a segment";
}

const char* parts_by_everyone(const Shape& s, const Parameters& p) {
  return p.value[0] < 1024 ? "block: from 1024" : everyone_fits(s, s.bytes);
}
const char* one_message_to_everyone(const Shape& s, const Parameters&) {
  return everyone_fits(s, s.bytes);
}
const char* blocks_of_everyone(const Shape& s, const Parameters&) {
  return everyone_fits(s, s.bytes * static_cast<std::size_t>(s.size));
}
const char* parts_to_everyone(const Shape& s, const Parameters&) {
  if (!s.divisible) return "the operator needs whole vectors";
  return everyone_fits(s, 2 * s.bytes);
}

const char* in_segments(const Shape& s, const Parameters&) {
  if (!s.segments) return "members do not share buffers on several nodes";
  const bool blocks = s.coll == Coll::allgather;
  return s.bytes * static_cast<std::size_t>(blocks ? s.size : 1) <= NodeSegment::kMost
             ? nullptr
             : "larger than a node's shared buffer";
}

const char* in_layers(const Shape& s, const Parameters&) {
  return s.layered ? nullptr : "no node has several members, or there is one node";
}

/// Groups of fragments of a large message.
std::uint64_t cast_items(const Shape& s, const Parameters&) {
  std::size_t block = s.bytes, total = s.bytes;
  if (s.coll == Coll::allgather) total *= static_cast<std::size_t>(s.size);
  if (s.coll == Coll::allreduce) block = EqualParts::most(s.bytes, s.element_bytes, s.size);
  return CastWindows::groups(block, total, s.datagram);
}

const char* casts_fragments(const Shape& s, const Parameters& p) {
  if (p.value[0] < 1 || p.value[0] > 32) return "chords: 1 (the paper's ring) to 32";
  if (s.mapped) return "members share memory";
  if (s.layered) return kLayered;
  const std::size_t fragment = std::min(Multicast::fragment_bytes(s.datagram), Ring::kSlotBytes);
  if (fragment == 0) return "no multicast between the members";
  return chunks(s.bytes, fragment) <= Ring::kFragments ? nullptr
                                                       : "larger than the slots of the ring";
}

/// Any number of fragments, of one message or of a block of every member.
const char* casts_windows(const Shape& s, const Parameters& p) {
  if (p.value[0] < Ring::kGroup || p.value[0] > CastWindows::kMostWindow)
    return "window: 24 to 288 datagrams";
  if (p.value[1] < 0 || p.value[1] > 1'000'000) return "pace: 1 to 1000000 MB/s";
  if (p.value[2] < 0 || p.value[2] > 60'000'000) return "patience: 1 to 60000000 us";
  if (s.mapped) return "members share memory";
  if (s.layered) return kLayered;
  return Multicast::fragment_bytes(s.datagram) != 0 ? nullptr : "no multicast between the members";
}

const char* rings_and_casts(const Shape& s, const Parameters& p) {
  if (const char* why = rings_between_nodes(s, p)) return why;
  return casts_windows(s, p);
}

/// The classical ways to make a multicast reliable: only where they are asked for.
const char* acknowledges_casts(const Shape& s, const Parameters& p) {
  if (p.value[0] < 1 || p.value[0] > 10'000'000) return "timeout: 1 to 10000000 us";
  if (const char* why = casts_fragments(s, Parameters{{1}})) return why;
  return s.acks ? nullptr : "too many members to acknowledge to one";
}

const char* folds_in_layers(const Shape& s, const Parameters& p) {
  if (const char* why = in_layers(s, p)) return why;
  return s.fixed_order ? "folds node by node, not from left to right" : nullptr;
}

const char* in_lanes(const Shape& s, const Parameters& p) {
  if (const char* why = in_layers(s, p)) return why;
  return s.lanes != 0 ? nullptr : "nodes have different numbers of members";
}

const char* folds_in_lanes(const Shape& s, const Parameters& p) {
  if (const char* why = in_lanes(s, p)) return why;
  if (s.fixed_order) return "folds each part from another rank on";
  if (!s.divisible) return "the operator needs whole vectors";
  return s.commutative ? nullptr : "the operator does not commute";
}

/// The largest message of an allgather by halves has half of all blocks.
const char* halves_fit_packets(const Shape& s, const Parameters& p) {
  Shape message = s;
  message.bytes = s.bytes * static_cast<std::size_t>(s.size / 2);
  return fits_inbox_blocks(message, p);
}

const char* halves_of_a_power_of_two(const Shape& s, const Parameters& p) {
  if ((s.size & (s.size - 1)) != 0) return "the number of members is not a power of two";
  return halves_fit_packets(s, p);
}

/// Every step of a ring has blocks of its own.
const char* ring_fits_packets(const Shape& s, const Parameters& p) {
  if (const char* why = fits_inbox_blocks(s, p)) return why;
  const std::size_t packets =
      chunks(s.bytes, static_cast<std::size_t>(p.value[0])) * static_cast<std::size_t>(s.size - 1);
  const auto blocks = static_cast<std::size_t>(Inbox::reduce_blocks(s.size) + Inbox::kBcastBlocks);
  return packets <= blocks ? nullptr : "more packets than the inbox has blocks in an epoch";
}

// ---- stream items

std::uint64_t one_item(const Shape&, const Parameters&) { return 1; }
std::uint64_t two_items(const Shape&, const Parameters&) { return 2; }
std::uint64_t block_items(const Shape& s, const Parameters& p) {
  return chunks(published_bytes(s), block_of(s, p));
}
std::uint64_t element_block_items(const Shape& s, const Parameters& p) {
  return chunks(published_bytes(s), whole_elements(block_of(s, p), s.element_bytes));
}
std::uint64_t split_items(const Shape& s, const Parameters& p) {
  return 2 * chunks(s.bytes, whole_elements(block_of(s, p), s.element_bytes));
}
std::uint64_t whole_items(const Shape& s, const Parameters& p) {
  return fold_whole_items(published_bytes(s), block_of(s, p), s.size);
}
/// Allgatherv: blocks differ, and no block is longer than all of them together.
std::uint64_t longest_block_items(const Shape& s, const Parameters& p) {
  return chunks(s.longest_block, block_of(s, p));
}

constexpr const char* kClassical = "Thakur, Rabenseifner and Gropp 2005, over send/receive";
constexpr const char* kMvich = "MVICH's send/receive, which VIA-2003 compares with";
constexpr const char* kCdcp = "CDCP-2008, section IV";
constexpr const char* kVia = "VIA-2003, sections 4.1 and 4.2";
constexpr const char* kDirect = "VIA-2003, section 3.3: dynamic registration";
constexpr const char* kDoubling = "recursive doubling";
constexpr const char* kBruck = "Bruck et al. 1997";
constexpr const char* kLanes = "every member a leader: Traff and Hunold 2020";
constexpr const char* kHierarchy = "shared memory in the node, network between leaders";
constexpr const char* kMulticast = "MCAST-2007";
constexpr const char* kWindows = "MCAST-2007, its open question of large messages";
constexpr const char* kRival = "a rival of MCAST-2007";
constexpr const char* kEveryone = "every member to every other one";
constexpr const char* kSharedBuffer = "ALLGATHER-2006, section 4";
constexpr const char* kShared = "shared memory";
constexpr const char* kCma = "cross-memory attach";

std::vector<Algorithm> make_list() {
  constexpr Parameters kNone{};
  const Parameters block64k{{65536, 1}};
  const Parameters radix2{{2, 0}}, block16k{{16384, 0}};
  const Parameters overlapped{{1, 1, 0}};
  const Parameters degree3{{3, 1}}, degree1{{1, 1}}, block3072{{3072, 1, 0}}, packet1024{{1024, 0}},
      packet5120{{5120, 0}}, timeout1000{{1000, 0}}, chord1{{1, 0}}, window192{{192, 0, 100000}};
  // One line for each.
  // clang-format off
  return {
      {"flat", Coll::barrier, barrier_flat, nullptr, fits_cell, {}, kNone, kShared},
      {"degree_k", Coll::barrier, barrier_degree_k, nullptr, fits_inbox_block, {"degree", "down"}, degree3, kVia},
      {"dissemination", Coll::barrier, barrier_dissemination, nullptr, disseminates, {"radix"}, radix2, "dissemination"},
      {"layered", Coll::barrier, barrier_layered, nullptr, in_layers, {}, kNone, kHierarchy},
      {"dcp", Coll::barrier, offload::offloaded, nullptr, by_processors, {}, kNone, kCdcp, false, true},

      {"flat", Coll::bcast, bcast_flat, nullptr, fits_cell, {}, kNone, kShared},
      {"blocks", Coll::bcast, bcast_blocks, block_items, through_shared_blocks, {"block"}, kNone, kShared},
      {"memory", Coll::bcast, bcast_memory, one_item, by_memory, {}, kNone, kCma},
      {"binomial", Coll::bcast, bcast_binomial, nullptr, fits_inbox_blocks, {"block", "degree", "early"}, block3072, kVia},
      {"sendrecv_binomial", Coll::bcast, bcast_sendrecv_binomial, nullptr, fits_inbox_blocks, {"packet"}, packet1024, kMvich},
      {"multicast", Coll::bcast, bcast_multicast, nullptr, casts_fragments, {"chords"}, chord1, kMulticast, true},
      {"multicast_window", Coll::bcast, bcast_multicast_window, cast_items, casts_windows, {"window", "pace", "patience"}, window192, kWindows, true},
      {"multicast_linear_ack", Coll::bcast, bcast_multicast_linear_ack, nullptr, acknowledges_casts, {"timeout"}, timeout1000, kRival, true},
      {"multicast_tree_ack", Coll::bcast, bcast_multicast_tree_ack, nullptr, acknowledges_casts, {"timeout"}, timeout1000, kRival, true},
      {"multicast_coroot_ack", Coll::bcast, bcast_multicast_coroot_ack, nullptr, acknowledges_casts, {"timeout"}, timeout1000, kRival, true},
      {"multicast_nack", Coll::bcast, bcast_multicast_nack, nullptr, acknowledges_casts, {"timeout"}, timeout1000, kRival, true},
      {"direct", Coll::bcast, bcast_direct, nullptr, between_nodes, {"block", "degree"}, block64k, kDirect},
      {"scatter_allgather", Coll::bcast, bcast_scatter_allgather, nullptr, parts_by_everyone, {"block"}, block16k, "van de Geijn 1994, pipelined"},
      {"lanes", Coll::bcast, bcast_lanes, nullptr, in_lanes, {}, kNone, kLanes},
      {"layered", Coll::bcast, bcast_layered, nullptr, in_layers, {}, kNone, kHierarchy},
      {"dcp", Coll::bcast, offload::offloaded, nullptr, by_processors, {}, kNone, kCdcp, false, true},

      {"flat", Coll::reduce, reduce_flat, nullptr, fits_cell, {}, kNone, kShared},
      {"blocks", Coll::reduce, reduce_blocks, element_block_items, reduces_through_shared_blocks, {"block"}, kNone, kShared},
      {"memory", Coll::reduce, reduce_memory, one_item, reduces_by_memory, {}, kNone, kCma},
      {"whole", Coll::reduce, reduce_whole, whole_items, whole_vectors, {"block"}, kNone, kShared},
      {"degree_k", Coll::reduce, reduce_degree_k, nullptr, fits_inbox_block, {"degree"}, degree1, kVia},
      {"direct", Coll::reduce, reduce_direct, nullptr, folds_between_nodes, {}, kNone, kDirect},
      {"ordered", Coll::reduce, reduce_ordered, nullptr, between_nodes, {}, kNone, "fold in rank order"},
      {"layered", Coll::reduce, reduce_layered, nullptr, folds_in_layers, {}, kNone, kHierarchy},
      {"layered_ordered", Coll::reduce, reduce_layered_ordered, nullptr, in_layers, {}, kNone, kHierarchy},
      {"dcp", Coll::reduce, offload::offloaded, nullptr, by_processors, {}, kNone, kCdcp, false, true},

      {"flat", Coll::allreduce, allreduce_flat, nullptr, fits_cell, {}, kNone, kShared},
      {"blocks", Coll::allreduce, allreduce_blocks, element_block_items, reduces_through_shared_blocks, {"block"}, kNone, kShared},
      {"split", Coll::allreduce, allreduce_split, split_items, reduces_through_shared_blocks, {"block"}, kNone, kShared},
      {"memory", Coll::allreduce, allreduce_memory, two_items, reduces_by_memory, {}, kNone, kCma},
      {"whole", Coll::allreduce, allreduce_whole, whole_items, whole_vectors, {"block"}, kNone, kShared},
      {"degree_k", Coll::allreduce, allreduce_degree_k, nullptr, fits_inbox_block, {"degree", "down"}, degree3, kVia},
      {"sendrecv_binomial", Coll::allreduce, allreduce_sendrecv_binomial, nullptr, fits_packets, {"packet"}, packet1024, kMvich},
      {"sendrecv_recursive_doubling", Coll::allreduce, allreduce_sendrecv_recursive_doubling, nullptr, fits_packets, {"packet"}, packet1024, kClassical},
      {"doubling", Coll::allreduce, allreduce_doubling, nullptr, folds_between_nodes, {}, kNone, kDoubling},
      {"halving", Coll::allreduce, allreduce_halving, nullptr, halves_between_nodes, {}, kNone, "recursive halving and doubling: Rabenseifner 2004"},
      {"ring", Coll::allreduce, allreduce_ring, nullptr, rings_between_nodes, {}, kNone, "ring"},
      {"multicast", Coll::allreduce, allreduce_multicast, cast_items, rings_and_casts, {"window", "pace", "patience"}, window192, kWindows, true},
      {"exchange", Coll::allreduce, allreduce_exchange, nullptr, blocks_of_everyone, {}, kNone, kEveryone},
      {"split_exchange", Coll::allreduce, allreduce_split_exchange, nullptr, parts_to_everyone, {}, kNone, kEveryone},
      {"ordered", Coll::allreduce, allreduce_ordered, nullptr, between_nodes, {}, kNone, "fold in rank order"},
      {"lanes", Coll::allreduce, allreduce_lanes, nullptr, folds_in_lanes, {}, kNone, kLanes},
      {"layered", Coll::allreduce, allreduce_layered, nullptr, folds_in_layers, {}, kNone, kHierarchy},
      {"layered_ordered", Coll::allreduce, allreduce_layered_ordered, nullptr, in_layers, {}, kNone, kHierarchy},
      {"dcp", Coll::allreduce, offload::offloaded, nullptr, by_processors, {}, kNone, kCdcp, false, true},

      {"flat", Coll::allgather, allgather_flat, nullptr, fits_cell, {}, kNone, kShared},
      {"blocks", Coll::allgather, allgather_blocks, block_items, through_shared_blocks, {"block"}, kNone, kShared},
      {"memory", Coll::allgather, allgather_memory, one_item, by_memory, {}, kNone, kCma},
      {"sendrecv_recursive_doubling", Coll::allgather, allgather_sendrecv_recursive_doubling, nullptr, halves_of_a_power_of_two, {"packet"}, packet5120, kClassical},
      {"sendrecv_bruck", Coll::allgather, allgather_sendrecv_bruck, nullptr, halves_fit_packets, {"packet"}, packet5120, kClassical},
      {"sendrecv_ring", Coll::allgather, allgather_sendrecv_ring, nullptr, ring_fits_packets, {"packet"}, packet5120, kClassical},
      {"bruck", Coll::allgather, allgather_bruck, nullptr, collects_in_block, {}, kNone, kBruck},
      {"direct", Coll::allgather, allgather_direct, nullptr, between_nodes, {}, kNone, kBruck},
      {"exchange", Coll::allgather, allgather_exchange, nullptr, blocks_of_everyone, {}, kNone, kEveryone},
      {"shared_buffer", Coll::allgather, allgather_shared_buffer, nullptr, in_segments, {"overlap", "drivers"}, overlapped, kSharedBuffer},
      {"multicast", Coll::allgather, allgather_multicast, cast_items, casts_windows, {"window", "pace", "patience"}, window192, kWindows, true},
      {"layered", Coll::allgather, allgather_layered, nullptr, in_layers, {}, kNone, kHierarchy},
      {"dcp", Coll::allgather, offload::offloaded, nullptr, by_processors, {}, kNone, kCdcp, false, true},

      {"blocks", Coll::allgatherv, allgatherv_blocks, longest_block_items, through_shared_blocks, {"block"}, kNone, kShared},
      {"memory", Coll::allgatherv, allgatherv_memory, one_item, by_memory, {}, kNone, kCma},
      {"bruck", Coll::allgatherv, allgatherv_bruck, nullptr, collects_in_block, {}, kNone, kBruck},
      {"direct", Coll::allgatherv, allgatherv_direct, nullptr, between_nodes, {}, kNone, kBruck},
      {"exchange", Coll::allgatherv, allgatherv_exchange, nullptr, one_message_to_everyone, {}, kNone, kEveryone},
      {"shared_buffer", Coll::allgatherv, allgatherv_shared_buffer, nullptr, in_segments, {"overlap", "drivers"}, overlapped, kSharedBuffer},
      {"layered", Coll::allgatherv, allgatherv_layered, nullptr, in_layers, {}, kNone, kHierarchy},

      {"flat", Coll::gather, gather_flat, nullptr, fits_cell, {}, kNone, kShared},
      {"blocks", Coll::gather, gather_blocks, block_items, through_shared_blocks, {"block"}, kNone, kShared},
      {"memory", Coll::gather, gather_memory, one_item, by_memory, {}, kNone, kCma},
      {"direct", Coll::gather, gather_direct, nullptr, between_nodes, {}, kNone, kDirect},
      {"layered", Coll::gather, gather_layered, nullptr, in_layers, {}, kNone, kHierarchy},

      {"flat", Coll::scatter, scatter_flat, nullptr, fits_cell, {}, kNone, kShared},
      {"blocks", Coll::scatter, scatter_blocks, block_items, through_shared_blocks, {"block"}, kNone, kShared},
      {"memory", Coll::scatter, scatter_memory, one_item, by_memory, {}, kNone, kCma},
      {"direct", Coll::scatter, scatter_direct, nullptr, between_nodes, {}, kNone, kDirect},
      {"layered", Coll::scatter, scatter_layered, nullptr, in_layers, {}, kNone, kHierarchy},

      {"flat", Coll::reduce_scatter_block, reduce_scatter_block_flat, nullptr, fits_cell, {}, kNone, kShared},
      {"blocks", Coll::reduce_scatter_block, reduce_scatter_block_blocks, element_block_items, reduces_through_shared_blocks, {"block"}, kNone, kShared},
      {"memory", Coll::reduce_scatter_block, reduce_scatter_block_memory, one_item, reduces_by_memory, {}, kNone, kCma},
      {"whole", Coll::reduce_scatter_block, reduce_scatter_block_whole, whole_items, whole_vectors, {"block"}, kNone, kShared},
      {"direct", Coll::reduce_scatter_block, reduce_scatter_block_direct, nullptr, divides_between_nodes, {}, kNone, kDirect},
      {"doubling", Coll::reduce_scatter_block, reduce_scatter_block_doubling, nullptr, folds_between_nodes, {}, kNone, kDoubling},
      {"ordered", Coll::reduce_scatter_block, reduce_scatter_block_ordered, nullptr, between_nodes, {}, kNone, "fold in rank order"},
      {"layered", Coll::reduce_scatter_block, reduce_scatter_block_layered, nullptr, folds_in_layers, {}, kNone, kHierarchy},
      {"layered_ordered", Coll::reduce_scatter_block, reduce_scatter_block_layered_ordered, nullptr, in_layers, {}, kNone, kHierarchy},

      {"flat", Coll::alltoall, alltoall_flat, nullptr, fits_cell, {}, kNone, kShared},
      {"blocks", Coll::alltoall, alltoall_blocks, block_items, through_shared_blocks, {"block"}, kNone, kShared},
      {"memory", Coll::alltoall, alltoall_memory, one_item, by_memory, {}, kNone, kCma},
      {"direct", Coll::alltoall, alltoall_direct, nullptr, between_nodes, {}, kNone, kDirect},
      {"layered", Coll::alltoall, alltoall_layered, nullptr, in_layers, {}, kNone, kHierarchy},
      {"dcp", Coll::alltoall, offload::offloaded, nullptr, by_processors, {}, kNone, kCdcp, false, true},
  };
  // clang-format on
}

}  // namespace

const std::vector<Algorithm>& algorithms() {
  static const std::vector<Algorithm> list = make_list();
  return list;
}

const Algorithm* find_algorithm(Coll coll, std::string_view wanted) {
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.coll == coll && wanted == algorithm.name) return &algorithm;
  }
  return nullptr;
}

}  // namespace tutti
