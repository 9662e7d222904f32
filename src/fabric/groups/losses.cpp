#include "fabric/groups/losses.hpp"

#include <new>

namespace tutti::groups {

void Losses::note(const Origin& origin) noexcept {
  try {
    const auto [place, first] = senders_.try_emplace(origin.sender, Sender{origin.number, 0});
    if (first) return;
    Sender& sender = place->second;
    const auto step = static_cast<std::int32_t>(origin.number - sender.newest);
    if (step > 0) {
      sender.newest = origin.number;
      sender.missing += static_cast<std::uint32_t>(step) - 1;
      count_ += static_cast<std::uint32_t>(step) - 1;
    } else if (step < 0 && sender.missing != 0) {  // overtaken, not lost
      --sender.missing;
      --count_;
    }
  } catch (const std::bad_alloc&) {  // it is not counted
  }
}

}  // namespace tutti::groups
