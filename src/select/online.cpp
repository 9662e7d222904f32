#include "select/online.hpp"

#include <algorithm>
#include <utility>

namespace tutti {
namespace {

constexpr int kPatience = 8;  // times that other cells wait for a trial between two of its calls
constexpr std::uint32_t kWait = 8;      // calls, each time
constexpr std::uint32_t kConfirm = 64;  // calls until who has won must win again

double median_of(double* first, double* last) noexcept {
  std::sort(first, last);
  const auto count = last - first;
  return count % 2 != 0 ? first[count / 2] : (first[count / 2 - 1] + first[count / 2]) / 2;
}

std::uint32_t twice(std::uint32_t calls) noexcept {
  return calls + std::min(calls, Online::kMostGap);
}

}  // namespace

void Online::start(Cell& cell, const Known& known) noexcept {
  cell.runner = cell.challenger = known.runner;
  cell.has_second = known.has_second;
  cell.second_sets_up = known.second_sets_up;
  cell.untried = challengers(cell);
  to_next_challenger(cell);
  plan(cell);
}

/// The second first: an MPI may set things up in its first calls, and what that has cost must
/// become a small part of all before the next trial.
void Online::to_next_challenger(Cell& cell) noexcept {
  const auto after = [&cell](Runner runner) {
    if (runner == Runner::chosen) return cell.has_second ? Runner::second : Runner::host;
    return runner == Runner::second ? Runner::host : Runner::chosen;
  };
  cell.challenger = after(cell.challenger);
  if (cell.challenger == cell.runner) cell.challenger = after(cell.challenger);
}

/// Every so many calls; every call where it is not simply what the rules choose.
bool Online::look(Cell& cell) noexcept {
  cell.calls = std::min(cell.calls + std::min(cell.period, kMostCalls), kMostCalls);
  if (cell.calls == kMostCalls) cell.next = 0;
  if (cell.next != 0 && cell.calls >= cell.next && !cell.on_trial) begin(cell);
  plan(cell);
  return cell.on_trial || cell.runner != Runner::chosen;
}

/// When somebody is to look again.
void Online::plan(Cell& cell) noexcept {
  const std::uint32_t quiet = cell.next == 0 ? kMostCalls : cell.next - cell.calls;
  cell.left = cell.period = cell.on_trial || cell.runner != Runner::chosen ? 1 : quiet;
}

/// One trial at a time. A cell whose calls have ended in the middle of one must not stand in the
/// way of the others for ever.
void Online::begin(Cell& cell) noexcept {
  if (trial_.cell != nullptr) {
    if (++trial_.waited_for < kPatience) {
      cell.next = cell.calls + kWait;
      return;
    }
    trial_.cell->next = twice(trial_.cell->calls);
    leave();
  }
  trial_ = Trial{};
  trial_.cell = &cell;
  cell.on_trial = true;
}

void Online::leave() noexcept {
  trial_.cell->on_trial = false;
  plan(*trial_.cell);
  trial_.cell = nullptr;
}

void Online::settle(Cell& cell) noexcept {
  cell.next = 0;
  if (cell.on_trial) leave();
  plan(cell);
}

bool Online::ended(std::uint64_t ns) noexcept {
  trial_.waited_for = 0;
  trial_.times[trial_.turn++] = static_cast<double>(ns);
  if (trial_.turn < trial_.turns) return false;
  const int untimed = trial_.turns > 1 ? 1 : 0;
  trial_.median = median_of(trial_.times + untimed, trial_.times + trial_.turns);
  return true;
}

void Online::turn_to(bool other) noexcept {
  const bool probe = other && trial_.probing;
  trial_.other = other;
  trial_.turn = 0;
  trial_.turns = trial_.incumbent > kLongNs              ? kLongTurns
                 : trial_.incumbent >= kShortNs || probe ? kTurns
                                                         : kShortTurns;
  if (probe && trial_.probes == 0) trial_.turns = 1;
}

bool Online::conclude(double mean_ns, Verdict* out) noexcept {
  if (!trial_.other) return conclude_incumbent(mean_ns);
  const double ratio = mean_ns / trial_.incumbent;
  trial_.lost += std::max(0.0, mean_ns - trial_.incumbent) * trial_.turns;
  if (trial_.probing) return conclude_probe(ratio, out);
  trial_.ratios[trial_.pair++] = ratio;
  if (trial_.pair < kPairs && (trial_.pair > 1 || ratio <= kFarBehind)) {
    turn_to(false);
    return false;
  }
  finish(median_of(trial_.ratios, trial_.ratios + trial_.pair), out);
  return true;
}

/// Goes on only where there is something to win.
bool Online::conclude_incumbent(double mean_ns) noexcept {
  Cell& cell = *trial_.cell;
  trial_.incumbent = std::max(mean_ns, 1.0);
  if (static_cast<double>(cell.calls) * mean_ns < worth_ns_) {
    cell.next = twice(cell.calls);
    leave();
  } else {
    turn_to(true);
  }
  return false;
}

/// A second probe where the first may have paid for something else, unless that was too dear. Few
/// algorithms of tutti's own set something up: a multicast group, one of dedicated processors.
bool Online::conclude_probe(double ratio, Verdict* out) noexcept {
  const double all = static_cast<double>(trial_.cell->calls) * trial_.incumbent;
  if (ratio <= kFarBehind) {
    trial_.probing = false;
    turn_to(false);
    return false;
  }
  const Runner challenger = trial_.cell->challenger;
  const bool sets_up =
      challenger == Runner::host || (challenger == Runner::second && trial_.cell->second_sets_up);
  if (++trial_.probes == 1 && sets_up && trial_.lost <= std::max(kCost * all, kProbeNs)) {
    turn_to(true);
    return false;
  }
  finish(ratio, out);
  return true;
}

/// `ratio`: the other's time by the incumbent's.
void Online::finish(double ratio, Verdict* out) noexcept {
  Cell& cell = *trial_.cell;
  *out = {cell.runner, cell.challenger, ratio};
  if (ratio < kBetter) {
    std::swap(cell.runner, cell.challenger);
    cell.untried = challengers(cell);
    cell.next = cell.calls + kConfirm;
    *out = {cell.runner, cell.challenger, 1 / ratio};
  } else {
    const double calls_lost = trial_.lost / trial_.incumbent;
    const bool all_tried = --cell.untried == 0;
    if (all_tried) cell.untried = challengers(cell);
    const double least = all_tried ? 3.0 * static_cast<double>(cell.calls) : kConfirm;
    const double gap = std::max(least, calls_lost / kCost);
    cell.next = cell.calls + static_cast<std::uint32_t>(std::min<double>(gap, kMostGap));
    to_next_challenger(cell);
  }
  leave();
}

}  // namespace tutti
