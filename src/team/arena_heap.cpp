#include "team/arena_heap.hpp"

#include <algorithm>
#include <iterator>

namespace tutti {
namespace {
constexpr std::size_t kReserveStep = std::size_t{256} << 10;  // fewer, larger fallocate calls
}

Status ArenaHeap::allocate(std::size_t bytes, std::size_t* offset, bool* fresh) noexcept {
  bytes = rounded(bytes);
  if (fresh != nullptr) *fresh = false;
  for (auto hole = holes_.begin(); hole != holes_.end(); ++hole) {
    if (hole->second < bytes) continue;
    *offset = hole->first;
    const std::size_t rest = hole->second - bytes;
    const std::size_t rest_offset = hole->first + bytes;
    holes_.erase(hole);
    if (rest != 0) holes_.emplace(rest_offset, rest);
    used_ += bytes;
    return Status::success();
  }
  const std::size_t limit = fabric_.arena().bytes;
  if (bytes > limit - end_)
    return Status::error(Code::no_memory, "the arena is full: TUTTI_ARENA is too small");
  if (end_ + bytes > reserved_) {
    const std::size_t target = std::min(limit, std::max(end_ + bytes, reserved_ + kReserveStep));
    TUTTI_TRY(fabric_.reserve(reserved_, target - reserved_));
    reserved_ = target;
  }
  if (fresh != nullptr) *fresh = true;
  *offset = end_;
  end_ += bytes;
  used_ += bytes;
  return Status::success();
}

void ArenaHeap::free(std::size_t offset, std::size_t bytes) noexcept {
  bytes = rounded(bytes);
  used_ -= bytes;
  auto [place, inserted] = holes_.emplace(offset, bytes);
  static_cast<void>(inserted);
  if (auto next = std::next(place);
      next != holes_.end() && place->first + place->second == next->first) {
    place->second += next->second;
    holes_.erase(next);
  }
  if (place != holes_.begin()) {
    auto before = std::prev(place);
    if (before->first + before->second == place->first) {
      before->second += place->second;
      holes_.erase(place);
    }
  }
}

}  // namespace tutti
