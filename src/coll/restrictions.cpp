#include "coll/restrictions.hpp"

#include <algorithm>

#include "coll/pattern/cast_windows.hpp"
#include "coll/pattern/fold.hpp"
#include "coll/pattern/fold_ring.hpp"
#include "coll/pattern/fold_whole.hpp"
#include "coll/pattern/published.hpp"
#include "team/multicast.hpp"
#include "team/reliable_ring.hpp"

namespace tutti {

constexpr const char* kPartly = "exact sums need all operands at once";

/// Bytes that one member publishes.
static std::size_t published_bytes(const Shape& s) noexcept {
  const bool vector_of_blocks =
      s.coll == Coll::scatter || s.coll == Coll::alltoall || s.coll == Coll::reduce_scatter_block;
  return vector_of_blocks ? s.bytes * static_cast<std::size_t>(s.size) : s.bytes;
}

// ---- restrictions: nullptr when the algorithm can run

const char* fits_cell(const Shape& s) {
  if (!s.mapped) return "members do not share memory";
  return published_bytes(s) <= Team::kCellCapacity ? nullptr : "larger than a cell";
}

const char* through_shared_blocks(const Shape& s) {
  return s.mapped ? nullptr : "members do not share memory";
}

const char* reduces_through_shared_blocks(const Shape& s) {
  if (!s.mapped) return "members do not share memory";
  if (!s.divisible) return "the operator needs whole vectors";
  return s.element_bytes <= s.block_bytes ? nullptr : "an element is larger than a block";
}

const char* whole_vectors(const Shape& s) {
  if (!s.mapped) return "members do not share memory";
  return s.at_once ? kPartly : nullptr;
}

const char* passes_through_shared_blocks(const Shape& s) {
  if (const char* why = reduces_through_shared_blocks(s)) return why;
  return s.at_once ? kPartly : nullptr;
}

const char* by_memory(const Shape& s) {
  if (!s.mapped) return "members do not share memory";
  return s.user_memory ? nullptr : "cross-memory attach is not permitted";
}

const char* reduces_by_memory(const Shape& s) {
  if (const char* why = by_memory(s)) return why;
  if (!s.divisible) return "the operator needs whole vectors";
  return s.element_bytes <= s.block_bytes / 2 ? nullptr : "an element is larger than half a block";
}

constexpr const char* kNoRoom = "a block has no room for a byte of each member";

/// Of everybody's block, in a chunk of a gather along the machine, and of an alltoall.
static std::size_t most_gathered(const Shape& s, SharedBlocks p) noexcept {
  return p.bytes(s.block_bytes) / static_cast<std::size_t>(s.size / s.nearest);
}
static std::size_t most_bundled(const Shape& s, SharedBlocks p) noexcept {
  return p.bytes(s.block_bytes) / static_cast<std::size_t>(s.size);
}

constexpr const char* kHierarchical = "members share nodes: it runs between their leaders";
constexpr int kMostInExchange = 64;
constexpr const char* kTree = "folds in a tree, not from left to right";

/// Why what is folded in a tree cannot run, or nullptr.
static const char* wants_no_tree(const Shape& s) {
  if (s.at_once) return kPartly;
  return s.fixed_order ? kTree : nullptr;
}

const char* divides_along_the_machine(const Shape& s) {
  if (const char* why = through_shared_blocks(s)) return why;
  return s.levels >= 2 ? nullptr : "members are not divided evenly among parts of the machine";
}

const char* gathers_along_the_machine(const Shape& s, SharedBlocks p) {
  if (const char* why = divides_along_the_machine(s)) return why;
  return most_gathered(s, p) != 0 ? nullptr : kNoRoom;
}

const char* bundles_along_the_machine(const Shape& s, SharedBlocks p) {
  if (const char* why = divides_along_the_machine(s)) return why;
  return most_bundled(s, p) != 0 ? nullptr : kNoRoom;
}

const char* nests_along_the_machine(const Shape& s) {
  if (const char* why = reduces_through_shared_blocks(s)) return why;
  if (const char* why = wants_no_tree(s)) return why;
  if (const char* why = divides_along_the_machine(s)) return why;
  if (s.commutative || s.levels_in_order) return nullptr;
  return "the operator does not commute";
}

const char* folds_in_cells(const Shape& s) {
  if (const char* why = fits_cell(s)) return why;
  return wants_no_tree(s);
}

const char* fits_inbox_blocks(const Shape& s, std::int64_t block) {
  if (s.hierarchical) return kHierarchical;
  return chunks(s.bytes, static_cast<std::size_t>(block)) <= Inbox::kBcastBlocks
             ? nullptr
             : "larger than the inbox blocks of an epoch";
}

const char* degree_of_inbox(std::int64_t degree) {
  const bool has = degree == 1 || degree == 3 || degree == 7 || degree == 15;
  return has ? nullptr : "degree: 1, 3, 7 or 15";
}

const char* fits_inbox_block(const Shape& s, std::int64_t degree) {
  if (const char* why = degree_of_inbox(degree)) return why;
  if (s.hierarchical) return kHierarchical;
  if (const char* why = wants_no_tree(s)) return why;
  return s.bytes <= Inbox::kBlockBytes ? nullptr : "larger than an inbox block";
}

const char* fits_packets(const Shape& s, std::int64_t packet) {
  if (const char* why = fits_inbox_blocks(s, packet)) return why;
  return wants_no_tree(s);
}

const char* between_nodes(const Shape& s) {
  if (s.mapped) return "members share memory";
  if (s.hierarchical) return kHierarchical;
  return s.mail ? nullptr : "members have no mail slots (without payload, or more than 4096)";
}

/// The same, or in layers.
const char* between_any(const Shape& s) {
  if (!s.hierarchical) return between_nodes(s);
  return s.everybody ? nullptr : "members have no letters (without payload, or more than 4096)";
}

const char* passes_between_nodes(const Shape& s) {
  if (const char* why = between_nodes(s)) return why;
  return s.at_once ? kPartly : nullptr;
}

const char* folds_between_nodes(const Shape& s) {
  if (const char* why = between_nodes(s)) return why;
  return wants_no_tree(s);
}

const char* divides_between_nodes(const Shape& s) {
  if (const char* why = between_nodes(s)) return why;
  return s.divisible ? nullptr : "the operator needs whole vectors";
}

const char* halves_between_nodes(const Shape& s) {
  if (const char* why = divides_between_nodes(s)) return why;
  return wants_no_tree(s);
}

const char* rings_between_nodes(const Shape& s) {
  if (const char* why = divides_between_nodes(s)) return why;
  if (s.at_once) return kPartly;
  if (s.fixed_order) return "folds each part from another rank on";
  return s.commutative ? nullptr : "the operator does not commute";
}

const char* collects_in_block(const Shape& s) {
  if (s.hierarchical) return kHierarchical;
  const std::size_t total =
      s.coll == Coll::allgatherv ? s.bytes : s.bytes * static_cast<std::size_t>(s.size);
  return total <= Inbox::kBlockBytes ? nullptr : "larger than an inbox block";
}

/// Rounds of everybody with everybody, through segments of their own, in which `bytes` lie.
static const char* everyone_fits(const Shape& s, std::size_t bytes) {
  if (s.mapped) return "members share memory";
  if (s.hierarchical) return kHierarchical;
  if (!s.alone) return "not every member is on a node of its own";
  if (s.size > kMostInExchange) return "too many members to send to each of them";
  const auto size = static_cast<std::size_t>(s.size);
  // As they are laid out, with room for lines and elements.
  const std::size_t room = size * (2 * kCacheLine + 2 * s.element_bytes);
  return bytes + room <= NodeSegment::kMost ? nullptr : "larger than a segment";
}

const char* parts_by_everyone(const Shape& s) { return everyone_fits(s, s.bytes); }
const char* one_message_to_everyone(const Shape& s) { return everyone_fits(s, s.bytes); }
const char* blocks_of_everyone(const Shape& s) {
  return everyone_fits(s, s.bytes * static_cast<std::size_t>(s.size));
}
const char* parts_to_everyone(const Shape& s) {
  if (!s.divisible) return "the operator needs whole vectors";
  return everyone_fits(s, 2 * s.bytes);
}

const char* in_segments(const Shape& s) {
  if (!s.segments) return "members do not share buffers on several nodes";
  const bool blocks = s.coll == Coll::allgather;
  return s.bytes * static_cast<std::size_t>(blocks ? s.size : 1) <= NodeSegment::kMost
             ? nullptr
             : "larger than a node's shared buffer";
}

const char* in_layers(const Shape& s) {
  return s.hierarchical ? nullptr : "no node has several members, or there is one node";
}

/// Groups of fragments of a large message.
std::uint64_t cast_items(const Shape& s) {
  std::size_t block = s.bytes, total = s.bytes;
  if (s.coll == Coll::allgather) total *= static_cast<std::size_t>(s.size);
  if (s.coll == Coll::allreduce) block = EqualParts::most(s.bytes, s.element_bytes, s.size);
  return CastWindows::groups(block, total, s.datagram);
}

const char* casts_fragments(const Shape& s) {
  if (s.mapped) return "members share memory";
  if (s.hierarchical) return kHierarchical;
  const std::size_t fragment =
      std::min(Multicast::fragment_bytes(s.datagram), ReliableRing::kSlotBytes);
  if (fragment == 0) return "no multicast between the members";
  return chunks(s.bytes, fragment) <= ReliableRing::kFragments
             ? nullptr
             : "larger than the slots of the ring";
}

/// Any number of fragments, of one message or of a block of every member.
const char* casts_windows(const Shape& s) {
  if (s.mapped) return "members share memory";
  if (s.hierarchical) return kHierarchical;
  return Multicast::fragment_bytes(s.datagram) != 0 ? nullptr : "no multicast between the members";
}

const char* rings_and_casts(const Shape& s) {
  if (const char* why = rings_between_nodes(s)) return why;
  return casts_windows(s);
}

/// The classical ways to make a multicast reliable: only where they are asked for.
const char* acknowledges_casts(const Shape& s) {
  if (const char* why = casts_fragments(s)) return why;
  return s.acks ? nullptr : "too many members to acknowledge to one";
}

const char* folds_in_layers(const Shape& s) {
  if (const char* why = in_layers(s)) return why;
  if (s.at_once) return kPartly;
  return s.fixed_order ? "folds node by node, not from left to right" : nullptr;
}

const char* in_lanes(const Shape& s) {
  if (const char* why = in_layers(s)) return why;
  return s.lanes != 0 ? nullptr : "nodes have different numbers of members";
}

const char* folds_in_lanes(const Shape& s) {
  if (const char* why = in_lanes(s)) return why;
  if (s.at_once) return kPartly;
  if (s.fixed_order) return "folds each part from another rank on";
  if (!s.divisible) return "the operator needs whole vectors";
  return s.commutative ? nullptr : "the operator does not commute";
}

// ---- stream items

std::uint64_t one_item(const Shape&) { return 1; }
std::uint64_t two_items(const Shape&) { return 2; }
std::uint64_t block_items(const Shape& s, SharedBlocks p) {
  return chunks(published_bytes(s), p.bytes(s.block_bytes));
}
std::uint64_t element_block_items(const Shape& s, SharedBlocks p) {
  return chunks(published_bytes(s), whole_elements(p.bytes(s.block_bytes), s.element_bytes));
}
/// Alltoall: all blocks of a vector but the own one.
std::uint64_t others_block_items(const Shape& s, SharedBlocks p) {
  return chunks(published_bytes(s) - s.bytes, p.bytes(s.block_bytes));
}
/// Reduce-scatter: of two members, each publishes the other's block.
std::uint64_t reduce_scatter_items(const Shape& s, SharedBlocks p) {
  const std::size_t block = s.coll == Coll::reduce_scatter ? s.longest_block : s.bytes;
  const std::size_t bytes = s.size == 2 ? block : published_bytes(s);
  return chunks(bytes, whole_elements(p.bytes(s.block_bytes), s.element_bytes));
}
std::uint64_t reduce_scatter_allgather_items(const Shape& s, SharedBlocks p) {
  return 2 * chunks(s.bytes, whole_elements(p.bytes(s.block_bytes), s.element_bytes));
}
/// Up to the largest level, or down from it, or both.
std::uint64_t nested_items(const Shape& s, SharedBlocks p) {
  const auto levels = static_cast<std::uint64_t>(s.levels);
  const std::uint64_t each = s.coll == Coll::bcast    ? levels
                             : s.coll == Coll::reduce ? 2 * levels - 1
                                                      : 2 * levels;
  return each * chunks(s.bytes, whole_elements(p.bytes(s.block_bytes), s.element_bytes));
}
std::uint64_t nested_gather_items(const Shape& s, SharedBlocks p) {
  return static_cast<std::uint64_t>(s.levels) * chunks(s.bytes, most_gathered(s, p));
}
std::uint64_t bundle_items(const Shape& s, SharedBlocks p) {
  return static_cast<std::uint64_t>(s.levels) * chunks(s.bytes, most_bundled(s, p));
}
std::uint64_t whole_items(const Shape& s, SharedBlocks p) {
  return fold_whole_items(published_bytes(s), p.bytes(s.block_bytes), s.size);
}
/// Allgatherv: blocks differ, and no block is longer than all of them together.
std::uint64_t longest_block_items(const Shape& s, SharedBlocks p) {
  return chunks(s.longest_block, p.bytes(s.block_bytes));
}

}  // namespace tutti
