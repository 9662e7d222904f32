#include "mpi/plugin/staged.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

#include "mpi/plugin/scratch.hpp"

namespace tutti::mpi {
namespace {

// Calls visit(offset, rows, bytes, stride) for each run of the elements' data, in order, until that
// is false.
template <class Visit>
void each_run(const TypeInfo& type, std::size_t count, Visit&& visit) {
  if (type.layout->is_block()) {
    visit(type.layout->offset(), count, type.size, type.extent);
    return;
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (!type.layout->each_run(static_cast<std::ptrdiff_t>(i) * type.extent, visit)) return;
  }
}

// Under MPI_BOTTOM a type's blocks may lie here and there.
const Space* space_of_run(const Space& space, const char* user, const char* run) noexcept {
  return user != nullptr ? &space : find_space(run);
}

Status copy_run(const Space* space, const Space::Block& block) noexcept {
  if (space != nullptr) return space->copy(block);
  for (std::size_t i = 0; i < block.rows; ++i) {
    const Space::Block row = block.row(i);
    std::memcpy(row.to, row.from, row.bytes);
  }
  return Status::success();
}

struct Span {
  std::ptrdiff_t begin = std::numeric_limits<std::ptrdiff_t>::max();
  std::ptrdiff_t end = std::numeric_limits<std::ptrdiff_t>::min();
  std::size_t runs = 0;
};

Span span_of(const TypeInfo& type, std::size_t count) noexcept {
  Span span;
  each_run(type, count,
           [&](std::ptrdiff_t offset, std::size_t rows, std::size_t bytes, std::ptrdiff_t stride) {
             const std::ptrdiff_t last = offset + static_cast<std::ptrdiff_t>(rows - 1) * stride;
             span.begin = std::min({span.begin, offset, last});
             span.end =
                 std::max(span.end, std::max(offset, last) + static_cast<std::ptrdiff_t>(bytes));
             ++span.runs;
             return true;
           });
  return span;
}

// Many small runs close to each other: one copy of everything from the first byte to the last, gaps
// included, and the rest by the processor. False: not worth it, or no memory.
bool pack_span(const Space& space, const TypeInfo& type, const char* user, std::size_t count,
               char* packed, Status* status) noexcept {
  constexpr std::size_t kFew = 4, kSpread = 8;
  const Span span = span_of(type, count);
  const auto bytes = static_cast<std::size_t>(span.end - span.begin);
  if (span.runs <= kFew || bytes / kSpread > type.size * count) return false;
  const Scratch image(bytes);
  if (image.data() == nullptr) return false;
  *status = copy_bytes(space, image.data(), user + span.begin, bytes);
  if (status->ok()) pack(type, image.data() - span.begin, count, packed);
  return true;
}

}  // namespace

const Space* find_space(const TypeInfo& type, const char* user, std::size_t count) noexcept {
  if (count == 0 || type.size == 0) return nullptr;
  const Space* found = nullptr;
  each_run(type, 1, [&](std::ptrdiff_t offset, std::size_t, std::size_t, std::ptrdiff_t) {
    found = find_space(user + offset);
    return user == nullptr && found == nullptr;
  });
  return found;
}

Status copy_bytes(const Space& space, void* to, const void* from, std::size_t bytes) noexcept {
  return space.copy({to, 0, from, 0, bytes, 1});
}

Status pack_from(const Space& space, const TypeInfo& type, char* user, std::size_t count,
                 char* packed) noexcept {
  Status status;
  if (user != nullptr && pack_span(space, type, user, count, packed, &status)) return status;
  each_run(type, count,
           [&](std::ptrdiff_t offset, std::size_t rows, std::size_t bytes, std::ptrdiff_t stride) {
             const char* const run = user + offset;
             status =
                 copy_run(space_of_run(space, user, run),
                          {packed, static_cast<std::ptrdiff_t>(bytes), run, stride, bytes, rows});
             packed += bytes * rows;
             return status.ok();
           });
  return status;
}

Status unpack_to(const Space& space, const TypeInfo& type, const char* packed, std::size_t count,
                 char* user) noexcept {
  Status status;
  each_run(type, count,
           [&](std::ptrdiff_t offset, std::size_t rows, std::size_t bytes, std::ptrdiff_t stride) {
             char* const run = user + offset;
             status =
                 copy_run(space_of_run(space, user, run),
                          {run, stride, packed, static_cast<std::ptrdiff_t>(bytes), bytes, rows});
             packed += bytes * rows;
             return status.ok();
           });
  return status;
}

}  // namespace tutti::mpi
