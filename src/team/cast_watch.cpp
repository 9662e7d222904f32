#include "team/cast_watch.hpp"

#include <algorithm>
#include <bit>

namespace tutti {
namespace {

constexpr std::uint64_t kFields = (std::uint64_t{1} << CastSurvey::kNumberAt) - 1;

}  // namespace

void CastSurvey::merge(const CastSurvey& other) noexcept {
  dear |= other.dear;
  if (other.share > share || (other.share == share && other.root > root)) {
    share = other.share;
    root = other.root;
  }
}

std::uint64_t CastSurvey::word(std::uint64_t number) const noexcept {
  return number << kNumberAt | std::uint64_t{dear} << 32 | std::uint64_t{share} << 24 | root;
}

CastSurvey CastSurvey::of(std::uint64_t word) noexcept {
  const std::uint64_t fields = word & kFields;
  return {static_cast<std::uint32_t>(fields >> 32), static_cast<std::uint32_t>(fields >> 24 & 0xff),
          static_cast<std::uint32_t>(fields & 0xffffff)};
}

std::uint64_t CastWatch::surveys_before(std::uint64_t number) noexcept {
  std::uint64_t before = number / kPeriod;
  for (std::uint64_t early = kFirst; early < kPeriod; early *= 2) before += number >= early ? 1 : 0;
  return std::min(before, kMostSurveys);
}

bool CastWatch::State::has(int root) const noexcept {
  return std::find(roots.begin(), roots.begin() + count, root) != roots.begin() + count;
}

void CastWatch::State::leave(int root) noexcept {
  if (all || has(root)) return;
  if (count == kRoots) {
    all = true;
  } else {
    roots[static_cast<std::size_t>(count++)] = root;
  }
}

bool CastWatch::casts(std::uint64_t number, int root) const noexcept {
  const std::uint64_t before = surveys_before(number);
  const State& state = states_[state_of(before)];
  if (!state.all && !state.has(root)) return true;
  return state.pause == 0 && surveys_before(number + kTrial) != before;
}

void CastWatch::seen(int root, int run, int tree, int fragments, int repaired) noexcept {
  ++totals_.broadcasts;
  totals_.fragments += static_cast<std::uint64_t>(fragments);
  totals_.repaired += static_cast<std::uint64_t>(repaired);
  ++every_.casts;
  if (run > tree) ++every_.dear;
  const auto place = std::find_if(seen_.begin(), seen_.end(), [root](const Root& one) {
    return one.root == root || one.root < 0;
  });
  if (place == seen_.end()) return;
  place->root = root;
  ++place->casts;
  if (run > tree) ++place->dear;
}

CastSurvey CastWatch::own() const noexcept {
  CastSurvey survey;
  for (const Root& one : seen_) {
    if (one.casts < kLeast) continue;
    const auto root = static_cast<std::uint32_t>(one.root);
    const bool dear = one.share() >= kHalf;
    survey.merge({dear ? 1U << root % CastSurvey::kClasses : 0, one.share(), root});
  }
  // Many roots that have cast seldom: together they say something.
  if (survey.dear == 0 && every_.casts >= kLeast && every_.share() >= kHalf)
    survey.merge({~0U >> (32 - CastSurvey::kClasses), every_.share(),
                  static_cast<std::uint32_t>(seen_[0].root)});
  return survey;
}

void CastWatch::judge(State* state, const CastSurvey& all) noexcept {
  const bool tried = state->anything_left() && state->pause == 0;
  const State before = *state;
  if (tried) *state = State{};  // unless it is dear still
  if (all.share >= kHalf) {
    state->leave(static_cast<int>(all.root));
    state->all = state->all || std::popcount(all.dear) > 1 || (tried && before.all);
  }
  if (!state->anything_left()) {
    totals_.resumed += tried ? 1 : 0;
    return;
  }
  const bool more = state->all != before.all || state->count > before.count;
  totals_.left += more ? 1 : 0;
  if (tried) state->pauses = std::min(2 * before.pauses, kMostPauses);
  if (tried || more) state->pause = state->pauses;
}

void CastWatch::conclude(std::uint64_t number, const CastSurvey* all) noexcept {
  const std::uint64_t over = surveys_before(number);
  State next = states_[state_of(over)];
  const bool waits = next.anything_left() && next.pause != 0;
  if (all != nullptr) judge(&next, *all);
  if (waits && next.pause != 0) --next.pause;
  states_[state_of(over + 1)] = next;
  seen_ = {};
  every_ = {};
  now_ = over + 1;
  surveys_.store(now_, std::memory_order_release);
}

}  // namespace tutti
