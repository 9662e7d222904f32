#include "fabric/wrap/fault_datagrams.hpp"

#include <cstring>

namespace tutti::wrap {
namespace {

std::vector<std::byte> inverted(const void* data, std::size_t bytes) {
  const auto* first = static_cast<const std::byte*>(data);
  std::vector<std::byte> wrong(first, first + bytes);
  if (bytes != 0) wrong[bytes / 2] ^= std::byte{0x10};
  return wrong;
}

}  // namespace

void FaultDatagrams::leave(int group) noexcept {
  inner_.leave(group);
  dropped_.erase(group);
}

Status FaultDatagrams::cast(int group, const void* data, std::size_t bytes) noexcept {
  const FaultRule* const rule = next_(FaultOp::cast);
  if (rule == nullptr) return inner_.cast(group, data, bytes);
  switch (rule->action) {
    case FaultAction::drop:
      return Status::success();
    case FaultAction::duplicate:
      TUTTI_TRY(inner_.cast(group, data, bytes));
      return inner_.cast(group, data, bytes);
    default:
      return inner_.cast(group, inverted(data, bytes).data(), bytes);
  }
}

const std::byte* FaultDatagrams::view(int group, std::size_t* bytes) noexcept {
  while (const std::byte* const data = inner_.view(group, bytes)) {
    const FaultRule* const rule = next_(FaultOp::receive);
    if (rule == nullptr) return data;
    if (rule->action != FaultAction::drop) {
      wrong_ = inverted(data, *bytes);
      return wrong_.data();
    }
    ++dropped_[group];
  }
  return nullptr;
}

std::size_t FaultDatagrams::receive(int group, void* out, std::size_t capacity) noexcept {
  std::size_t bytes = 0;
  while (const std::byte* const data = view(group, &bytes)) {
    if (bytes <= capacity) {
      std::memcpy(out, data, bytes);
      return bytes;
    }
    ++dropped_[group];
  }
  return 0;
}

Datagrams::Counts FaultDatagrams::counts(int group) const noexcept {
  Counts counts = inner_.counts(group);
  const auto dropped = dropped_.find(group);
  if (dropped == dropped_.end()) return counts;
  counts.received -= dropped->second;
  counts.dropped += dropped->second;
  return counts;
}

}  // namespace tutti::wrap
