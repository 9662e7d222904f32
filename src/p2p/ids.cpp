#include "p2p/ids.hpp"

namespace tutti::p2p {
namespace {

constexpr std::uint32_t kPlaceBits = 20;
constexpr std::uint32_t kMostPlaces = (1U << kPlaceBits) - 1;

}  // namespace

Status Ids::give(Transfer& transfer) noexcept {
  std::uint32_t place;
  if (!free_.empty()) {
    place = free_.back();
    free_.pop_back();
  } else {
    if (transfers_.size() > kMostPlaces)
      return Status::error(Code::no_memory, "too many large messages at once");
    place = static_cast<std::uint32_t>(transfers_.size());
    transfers_.push_back(nullptr);
    generations_.push_back(0);
  }
  transfers_[place] = &transfer;
  generations_[place] = generations_[place] % ((1U << (32 - kPlaceBits)) - 1) + 1;  // never 0
  transfer.id = generations_[place] << kPlaceBits | place;
  return Status::success();
}

void Ids::take_back(Transfer& transfer) noexcept {
  const std::uint32_t place = transfer.id & kMostPlaces;
  transfers_[place] = nullptr;
  free_.push_back(place);
  transfer.id = 0;
}

Transfer* Ids::find(std::uint32_t id) const noexcept {
  const std::uint32_t place = id & kMostPlaces;
  if (place >= transfers_.size() || generations_[place] != id >> kPlaceBits) return nullptr;
  return transfers_[place];
}

}  // namespace tutti::p2p
