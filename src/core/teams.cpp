#include "core/teams.hpp"

namespace tutti {

void Teams::add(std::unique_ptr<Team> team) {
  const Team* const key = team.get();
  used_.emplace(key, std::move(team));
}

void Teams::release(Team& team) noexcept {
  const auto place = used_.find(&team);
  released_.push_back(std::move(place->second));
  used_.erase(place);
}

void Teams::sweep() noexcept {
  std::erase_if(released_, [](const auto& team) { return team->try_reclaim(); });
}

/// Asked by every collective that waits for memory, of which there may be thousands: one of them
/// looks for all.
bool Teams::collect_blocks() noexcept {
  constexpr std::uint64_t kPauseNs = 50'000;
  const std::uint64_t now = fabric_.now_ns();
  if (now - collected_ns_ < kPauseNs) return blocks_coming_;
  collected_ns_ = now;
  blocks_coming_ = false;
  for (const auto& [key, team] : used_) {
    if (team->collect_blocks()) blocks_coming_ = true;
    const Layers* const layers = team->layers();
    if (layers != nullptr && layers->node && layers->node->collect_blocks()) blocks_coming_ = true;
  }
  return blocks_coming_;
}

}  // namespace tutti
