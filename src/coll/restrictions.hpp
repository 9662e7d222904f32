// What several algorithms need of a shape, and the stream items that they use: for the descriptors
// at the foot of their files.
#pragma once

#include "coll/algorithm.hpp"
#include "coll/shared_blocks.hpp"

namespace tutti {

// Why it cannot run, or nullptr.
const char* fits_cell(const Shape& s);
const char* folds_in_cells(const Shape& s);
const char* through_shared_blocks(const Shape& s);
const char* reduces_through_shared_blocks(const Shape& s);
const char* passes_through_shared_blocks(const Shape& s);  // from rank to rank
const char* whole_vectors(const Shape& s);
const char* divides_along_the_machine(const Shape& s);
const char* nests_along_the_machine(const Shape& s);  // a reduction
const char* gathers_along_the_machine(const Shape& s, SharedBlocks p);
const char* bundles_along_the_machine(const Shape& s, SharedBlocks p);
const char* by_memory(const Shape& s);
const char* reduces_by_memory(const Shape& s);
/// A message in blocks of so many bytes.
const char* fits_inbox_blocks(const Shape& s, std::int64_t block);
/// Of the trees whose blocks an inbox has.
const char* degree_of_inbox(std::int64_t degree);
const char* fits_inbox_block(const Shape& s, std::int64_t degree);
const char* fits_packets(const Shape& s, std::int64_t packet);
const char* between_nodes(const Shape& s);
const char* between_any(const Shape& s);
const char* passes_between_nodes(const Shape& s);
const char* folds_between_nodes(const Shape& s);
const char* divides_between_nodes(const Shape& s);
const char* halves_between_nodes(const Shape& s);
const char* rings_between_nodes(const Shape& s);
const char* collects_in_block(const Shape& s);
const char* parts_by_everyone(const Shape& s);
const char* one_message_to_everyone(const Shape& s);
const char* blocks_of_everyone(const Shape& s);
const char* parts_to_everyone(const Shape& s);
const char* in_segments(const Shape& s);
const char* in_layers(const Shape& s);
const char* casts_fragments(const Shape& s);
const char* casts_windows(const Shape& s);
const char* rings_and_casts(const Shape& s);
const char* acknowledges_casts(const Shape& s);
const char* folds_in_layers(const Shape& s);
const char* in_lanes(const Shape& s);
const char* folds_in_lanes(const Shape& s);

// Stream items.
std::uint64_t cast_items(const Shape& s);
std::uint64_t one_item(const Shape& s);
std::uint64_t two_items(const Shape& s);
std::uint64_t block_items(const Shape& s, SharedBlocks p);
std::uint64_t element_block_items(const Shape& s, SharedBlocks p);
std::uint64_t others_block_items(const Shape& s, SharedBlocks p);
std::uint64_t reduce_scatter_items(const Shape& s, SharedBlocks p);
std::uint64_t reduce_scatter_allgather_items(const Shape& s, SharedBlocks p);
std::uint64_t nested_items(const Shape& s, SharedBlocks p);
std::uint64_t nested_gather_items(const Shape& s, SharedBlocks p);
std::uint64_t bundle_items(const Shape& s, SharedBlocks p);
std::uint64_t whole_items(const Shape& s, SharedBlocks p);
std::uint64_t longest_block_items(const Shape& s, SharedBlocks p);

}  // namespace tutti
