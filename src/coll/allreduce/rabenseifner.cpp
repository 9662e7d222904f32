// Allreduce by recursive halving and doubling (Rabenseifner 2004): in log2 N rounds partners
// exchange halves of what each of them still folds, and in as many rounds they put the parts
// together. Every member sends 2 (N - 1) / N of the vector in 2 log2 N messages. The nearest
// partners come first, so that what is folded are the operands of ranges of ranks, in their order.
#include <utility>

#include "coll/algorithms.hpp"
#include "coll/pattern/direct.hpp"
#include "coll/pattern/fold.hpp"
#include "coll/pattern/partners.hpp"
#include "coll/restrictions.hpp"

namespace tutti {
namespace {

constexpr std::uint64_t kHalf = kArrived, kPart = kArrived + 1;  // steps of the mail

/// Memory that others put into: the vector; a place for the half of each round, since a partner may
/// be ahead; and one for the whole vector of a neighbour.
class Rabenseifner {
 public:
  Rabenseifner(Collective& c) noexcept
      : c_(c),
        partners_(c.rank(), c.size()),
        element_(c.call.reduction->element_bytes),
        window_(c) {}
  FramePool& frames() noexcept { return c_.team.frames(); }

  Task run() noexcept {
    co_await c_.enter(true);
    co_await open();
    if (partners_.represented()) {
      co_await leave_to_neighbour();
    } else {
      co_await take_part();
    }
    c_.place(c_.call.recv, vector(0), c_.call.bytes);
    co_await c_.completed(sent_);
    co_return Status::success();
  }

 private:
  struct Range {
    std::size_t begin, end;  // elements
  };

  /// Where the half of a round arrives: behind the largest halves of the rounds before it.
  std::size_t place_of_round(int round) const noexcept {
    std::size_t place = c_.call.bytes, most = c_.call.bytes / element_;
    for (int before = 0; before < round; ++before) {
      most = (most + 1) / 2;
      place += most * element_;
    }
    return place;
  }
  std::size_t place_of_neighbour() const noexcept { return place_of_round(partners_.rounds()); }
  std::byte* vector(std::size_t element) noexcept {
    return at(memory_.memory(), element * element_);
  }

  Status open() noexcept {
    const std::size_t bytes = place_of_neighbour() + c_.call.bytes;
    TUTTI_TRY(memory_.allocate(c_, bytes));
    TUTTI_TRY(window_.open(memory_.memory(), bytes));
    if (partners_.represented() || partners_.represents())
      TUTTI_TRY(window_.invite(c_, partners_.neighbour()));
    for (int round = 0; !partners_.represented() && round < partners_.rounds(); ++round)
      TUTTI_TRY(window_.invite(c_, partners_.partner(round)));
    return Status::success();
  }

  /// `step` tells the member that it is there.
  Task send(int member, std::size_t where, const void* data, std::size_t bytes,
            std::uint64_t step) noexcept {
    co_await c_.mailed(member, kInvited);
    co_await put_direct(c_, member, where, data, bytes, &sent_);
    co_return c_.mail(member, step);
  }

  Task leave_to_neighbour() noexcept {
    const int neighbour = partners_.neighbour();
    co_await send(neighbour, place_of_neighbour(), c_.call.send, c_.call.bytes, kHalf);
    co_await c_.mailed(neighbour, kPart);
    co_return Status::success();
  }

  Task take_part() noexcept {
    const int rounds = partners_.rounds(), neighbour = partners_.neighbour();
    c_.place(vector(0), c_.call.send, c_.call.bytes);
    if (partners_.represents()) {
      co_await c_.mailed(neighbour, kHalf);
      c_.fold(at(memory_.memory(), place_of_neighbour()), vector(0), vector(0), c_.call.bytes);
    }
    ranges_[0] = {0, c_.call.bytes / element_};
    for (int round = 0; round < rounds; ++round) co_await halve(round);
    for (int round = rounds - 1; round >= 0; --round) co_await put_together(round);
    if (partners_.represents()) co_await send(neighbour, 0, vector(0), c_.call.bytes, kPart);
    co_return Status::success();
  }

  /// Keeps one half of the range, folded with the partner's, and gives the other one away.
  Task halve(int round) noexcept {
    const int other = partners_.partner(round);
    const Range range = ranges_[round];
    const std::size_t middle = range.begin + (range.end - range.begin) / 2;
    Range keep{range.begin, middle}, give{middle, range.end};
    if (partners_.upper(round)) std::swap(keep, give);
    ranges_[round + 1] = keep;
    co_await send(other, place_of_round(round), vector(give.begin),
                  (give.end - give.begin) * element_, kHalf);
    co_await c_.mailed(other, kHalf);
    const void* theirs = at(memory_.memory(), place_of_round(round));
    void* mine = vector(keep.begin);
    c_.fold(other < c_.rank() ? theirs : mine, other < c_.rank() ? mine : theirs, mine,
            (keep.end - keep.begin) * element_);
    co_return Status::success();
  }

  /// The partner gets the half that this rank has, and the other way round.
  Task put_together(int round) noexcept {
    const int other = partners_.partner(round);
    const Range have = ranges_[round + 1];
    co_await send(other, have.begin * element_, vector(have.begin),
                  (have.end - have.begin) * element_, kPart);
    co_await c_.mailed(other, kPart);
    co_return Status::success();
  }

  static constexpr int kMostRounds = 31;
  Collective& c_;
  const Partners partners_;
  const std::size_t element_;
  Temporary memory_;
  Window window_;  // goes before the memory
  Completion sent_;
  Range ranges_[kMostRounds + 1];  // what this rank folds in each round
};

}  // namespace

Task allreduce_rabenseifner(Collective& c) {
  Rabenseifner rabenseifner(c);
  co_await rabenseifner.run();
  c.finish();
  co_return Status::success();
}

namespace algorithm {

const Algorithm allreduce_rabenseifner = {
    .coll = Coll::allreduce,
    .name = "rabenseifner",
    .run = with_parameters<tutti::allreduce_rabenseifner>,
    .restriction_of = with_parameters<halves_between_nodes>,
    .source = "recursive halving and doubling: Rabenseifner 2004",
    .former_name = "halving",
};

}  // namespace algorithm
}  // namespace tutti
