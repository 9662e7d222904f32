// Scan and exscan between nodes in log2 N rounds: in round r everybody sends what it has folded, of
// the 2^r ranks that end with itself, to the one 2^r behind it.
#include "coll/algorithms.hpp"
#include "coll/pattern/fold.hpp"
#include "coll/pattern/slots.hpp"
#include "coll/restrictions.hpp"

namespace tutti {
namespace {

/// What a rank has folded after some rounds: of the ranks up to itself, and of those before it.
class Prefixes {
 public:
  explicit Prefixes(Collective& c) noexcept : c_(c) {}
  /// Of a scan the former is the result.
  Status open() noexcept {
    folded_ = c_.call.recv;
    if (c_.call.coll == Coll::exscan) {
      TUTTI_TRY(memory_.allocate(c_, c_.call.bytes));
      folded_ = memory_.memory();
    }
    c_.place(folded_, c_.call.send, c_.call.bytes);
    return Status::success();
  }
  const void* folded() const noexcept { return folded_; }
  /// `theirs`: of the ranks just before those that have been folded here. `goes_on`: this rank
  /// sends again. What it has sent must have left.
  void fold(const void* theirs, bool goes_on) noexcept {
    const std::size_t bytes = c_.call.bytes;
    if (c_.call.coll == Coll::exscan) {
      if (has_before_) {
        c_.fold(theirs, c_.call.recv, c_.call.recv, bytes);
      } else {
        c_.place(c_.call.recv, theirs, bytes);
      }
      has_before_ = true;
      if (!goes_on) return;
    }
    c_.fold(theirs, folded_, folded_, bytes);
  }

 private:
  Collective& c_;
  Temporary memory_;
  void* folded_ = nullptr;
  bool has_before_ = false;
};

}  // namespace

Task scan_recursive_doubling(Collective& c) {
  const int rank = c.rank(), size = c.size();
  const auto distance = [](int round) { return 1 << round; };
  int rounds = 0;
  while (distance(rounds) < size) ++rounds;
  Prefixes prefixes(c);
  Slots slots(c, c.call.bytes);
  co_await prefixes.open();
  co_await c.enter(false);
  if (rank > 0) co_await slots.open(rounds);
  for (int round = 0; round < rounds && distance(round) <= rank; ++round)
    co_await slots.invite(rank - distance(round));
  for (int round = 0; round < rounds; ++round) {
    const int before = rank - distance(round), behind = rank + distance(round);
    if (behind < size) co_await slots.send(behind, round, prefixes.folded());
    if (before < 0) continue;
    co_await slots.arrived(before, round);
    co_await slots.sent();
    prefixes.fold(slots.data(round), rank + distance(round + 1) < size);
  }
  co_await slots.sent();
  c.finish();
  co_return Status::success();
}

namespace algorithm {

const Algorithm scan_recursive_doubling = {
    .coll = Coll::scan,
    .name = "recursive_doubling",
    .run = with_parameters<tutti::scan_recursive_doubling>,
    .restriction_of = with_parameters<folds_between_nodes>,
    .source = "recursive doubling",
};

const Algorithm exscan_recursive_doubling = {
    .coll = Coll::exscan,
    .name = "recursive_doubling",
    .run = with_parameters<tutti::scan_recursive_doubling>,
    .restriction_of = with_parameters<folds_between_nodes>,
    .source = "recursive doubling",
};

}  // namespace algorithm
}  // namespace tutti
