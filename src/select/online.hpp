// Choice on line: who runs a kind of call, measured where the program runs: the algorithm that the
// rules choose, the one that they have next, or the host.
//
// A *cell* is what is decided alike: one collective of one team, one class of operators, one power
// of two of bytes. All members count its calls, so all know without a word when a trial begins. In
// a trial the two ways take blocks of calls in turn; after each block the members add up what it
// took them, so all decide the same.
//
// - A trial begins only once the cell has taken time worth it. It begins with one call, and where
//   that was not too dear with a block: who is far behind in both has lost. (An MPI may set
//   something up in its first call, and be out of the caches.)
// - In each trial one challenger is tried against who runs the calls now. What a trial has lost in
//   time must be a small part of the whole before the next one begins.
// - Blocks of short calls are longer: a root, or who has its data already, may run some calls
// ahead.
// - A block's first call is not timed: it pays for what the block before has left behind. Of the
//   others the median counts, so that one interruption decides nothing.
// - Who wins must do so clearly, in the median of the pairs of blocks.
//
// The scheme is that of STAR-MPI (Faraj, Yuan, Lowenthal: STAR-MPI, ICS 2006), which measures in
// blocks and decides by all processes' times, with a sequential test and a budget.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

#include "select/select.hpp"

namespace tutti {

/// Who may run a call.
enum class Runner : std::uint8_t {
  chosen,  // the algorithm that the rules choose
  second,  // the one that they have next
  host
};

/// How a trial has ended.
struct Verdict {
  Runner runner = Runner::chosen;  // who runs it
  Runner other = Runner::host;     // who does not
  double ratio = 0;                // the other's time by that one's
};

/// What is known of a kind of call before its first one.
struct Known {
  Runner runner = Runner::chosen;
  bool has_second = false;
  bool second_sets_up = false;  // something in its first call
};

/// A kind of call of one team.
struct TrialCell {
  static constexpr std::uint32_t kFirst = 32;  // calls before the first trial

  std::uint32_t left = kFirst;    // calls until somebody looks, ...
  std::uint32_t period = kFirst;  // ... of so many; then `calls` counts them, too
  std::uint32_t calls = 0;        // at most kMostCalls
  std::uint32_t next = kFirst;    // the call with which the next trial begins; 0: never
  Runner runner = Runner::chosen;
  Runner challenger = Runner::host;  // who is tried now, or next
  std::uint8_t untried = 1;          // challengers that have had no trial since the last long pause
  bool has_second = false;
  bool second_sets_up = false;
  bool on_trial = false;
};

/// The cells of one team. Under the engine's lock. What it says is the same on all members after
/// the same calls.
class Online {
 public:
  using Cell = TrialCell;
  static constexpr std::uint32_t kFirst = Cell::kFirst;
  static constexpr std::uint32_t kMostGap = 1 << 17;
  static constexpr std::uint32_t kMostCalls = 1 << 30;  // that are counted; then trials are over
  static constexpr double kWorthNs = 2e6;               // that a cell takes before it is tried
  static constexpr double kWorthScarceNs = 1e8;         // the same where ranks share processors
  static constexpr double kCost = 0.005;                // of a trial: part of the time of all calls
  static constexpr int kPairs = 3;                      // of blocks, in a whole trial
  static constexpr int kTurns = 4;                      // calls of a block
  static constexpr int kShortTurns = 16;                // where each takes less than kShortNs
  static constexpr double kShortNs = 5e3;
  static constexpr int kLongTurns = 2;  // where each takes longer than kLongNs
  static constexpr double kLongNs = 1e6;
  static constexpr double kProbeNs = 5e4;    // that a probe may lose whatever the calls have taken
  static constexpr double kFarBehind = 1.5;  // the other's time by the incumbent's
  static constexpr double kBetter = 0.95;

  /// `scarce`: a call of an MPI that spins may take a time slice where ranks share processors.
  explicit Online(bool scarce) noexcept : worth_ns_(scarce ? kWorthScarceNs : kWorthNs) {}

  /// The cell of such calls; nullptr where there is no memory. `operators` is not `ordered`.
  /// Calls of no bytes and of one share theirs. `known(bytes)`: what is Known of such calls, asked
  /// when the first call of the kind is made; the same on all members.
  template <class KnownOf>
  Cell* cell(Coll coll, OperatorClass operators, std::size_t bytes, KnownOf&& known) noexcept {
    Row& row = rows_[2 * static_cast<std::size_t>(coll) + static_cast<std::size_t>(operators)];
    if (!row) [[unlikely]]
      if (!make(row, known)) return nullptr;
    return &(*row)[class_of(bytes)];
  }

  /// Counts a call of the cell. False when what the rules choose runs it and that is all, as
  /// nearly always.
  bool take(Cell& cell) noexcept {
    if (--cell.left != 0) [[likely]]
      return false;
    return look(cell);
  }
  /// Whether the host runs the next call of the cell and nothing else is to be decided: then
  /// count_left() counts it. False where take() says more.
  static bool leaves(const Cell& cell) noexcept {
    if (cell.runner != Runner::host || cell.on_trial) return false;
    return cell.calls == kMostCalls || cell.next == 0 || cell.calls + 1 < cell.next;
  }
  static void count_left(Cell& cell) noexcept { cell.calls += cell.calls != kMostCalls; }
  /// Who runs the call that was taken; before that, the one that will be taken next. The time of
  /// one on trial goes to ended().
  Runner runner(const Cell& cell) const noexcept {
    return tries_other(cell) ? cell.challenger : cell.runner;
  }
  /// Whether that is the challenger, on trial.
  bool tries_other(const Cell& cell) const noexcept { return cell.on_trial && trial_.other; }

  /// The cell stays with who runs it, and is never tried again.
  void settle(Cell& cell) noexcept;
  /// The same for the cell on trial: the members may not know the same any more.
  void give_up() noexcept {
    if (trial_.cell != nullptr) settle(*trial_.cell);
  }

  /// What the trial's call took this member. True when a block is over: then the members'
  /// block_time() is added up, and conclude() is told.
  bool ended(std::uint64_t ns) noexcept;
  double block_time() const noexcept { return trial_.median; }
  /// `mean_ns`: of all members' block_time(). True when the trial is over, `*out` says how.
  bool conclude(double mean_ns, Verdict* out) noexcept;

  /// Somebody else has to say yet how long the trial's call took.
  bool awaits_time = false;
  Call waits_for;  // then

  /// The largest message of the class, which stands for all: rules change behind a power of two.
  static std::size_t most_of(std::size_t of_class) noexcept {
    return (std::size_t{2} << of_class) - 1;
  }
  static std::size_t class_of(std::size_t bytes) noexcept {
    const auto bit = static_cast<std::size_t>(std::bit_width(bytes | 1)) - 1;
    return bit < kClasses ? bit : kClasses - 1;
  }

 private:
  static constexpr std::size_t kClasses = 40;
  using Cells = std::array<Cell, kClasses>;
  using Row = std::unique_ptr<Cells>;

  struct Trial {
    Cell* cell = nullptr;
    bool other = false;                 // it is the other's turn, not the incumbent's
    int turn = 0, turns = kShortTurns;  // of this block
    int probes = 0;                     // blocks of one call that the other has had
    bool probing = true;
    double times[kShortTurns] = {};
    double median = 0;
    double incumbent = 0;  // mean of its last block
    double lost = 0;       // by the other's calls
    int pair = 0;
    double ratios[kPairs] = {};
    int waited_for = 0;  // by other cells
  };

  template <class KnownOf>
  [[gnu::cold, gnu::noinline]] static bool make(Row& row, KnownOf& known) noexcept {
    row.reset(new (std::nothrow) Cells);
    for (std::size_t bit = 0; row && bit < kClasses; ++bit) start((*row)[bit], known(most_of(bit)));
    return row != nullptr;
  }
  static void start(Cell& cell, const Known& known) noexcept;
  static std::uint8_t challengers(const Cell& cell) noexcept { return cell.has_second ? 2 : 1; }
  static void to_next_challenger(Cell& cell) noexcept;
  bool look(Cell& cell) noexcept;
  static void plan(Cell& cell) noexcept;
  void begin(Cell& cell) noexcept;
  void leave() noexcept;
  void turn_to(bool other) noexcept;
  bool conclude_incumbent(double mean_ns) noexcept;
  bool conclude_probe(double ratio, Verdict* out) noexcept;
  void finish(double ratio, Verdict* out) noexcept;

  const double worth_ns_;
  std::array<Row, std::size_t{2} * kColls> rows_;
  Trial trial_;
};

}  // namespace tutti
