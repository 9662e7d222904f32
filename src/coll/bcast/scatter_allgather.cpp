// Broadcast of long messages between nodes: the root puts another part to each of the others, who
// hand them on to all the others, block by block as they come. Every link carries the message once,
// and every byte takes two steps.
//
// The others tell the root when they have handed on everything: so nobody is through before
// everybody has begun, and segments need no other notification.
#include <algorithm>

#include "coll/algorithms.hpp"
#include "coll/pattern/direct.hpp"
#include "coll/pattern/everyone.hpp"
#include "coll/pattern/fold.hpp"
#include "coll/pattern/published.hpp"
#include "coll/restrictions.hpp"

namespace tutti {
namespace {

class ScatterAllgather {
 public:
  ScatterAllgather(Collective& c, std::size_t block) noexcept
      : c_(c),
        segment_(c.team.segment()),
        parts_(c.call.bytes, 1, c.size() - 1),
        block_(block),
        blocks_(std::max<std::uint64_t>(chunks(parts_.bytes(c.size() - 2) + 1, block), 1)) {}
  FramePool& frames() noexcept { return c_.team.frames(); }

  Task run() noexcept {
    if (c_.rank() == c_.call.root) {
      co_await scatter();
    } else {
      co_await pass_on();
    }
    co_await c_.completed(sent_);
    co_return Status::success();
  }

 private:
  struct Piece {
    std::size_t begin, bytes;
  };
  /// Block `i` (from 1, as its phase) of the part that goes by way of `member`.
  Piece piece(int member, std::uint64_t i) const noexcept {
    const int part = (member - c_.call.root - 1 + c_.size()) % c_.size();
    const std::size_t begin = parts_.begin(part), end = parts_.begin(part + 1);
    const std::size_t first = std::min(begin + (i - 1) * block_, end);
    return {first, std::min(block_, end - first)};
  }
  Status put(int to, std::uint64_t i, Piece what, const void* source) noexcept {
    return segment_.put_and_signal(to, NodeSegment::flag_of_node(c_.rank()), i, what.begin, source,
                                   what.bytes, &sent_);
  }

  Task scatter() noexcept {
    for (std::uint64_t i = 1; i <= blocks_; ++i) {
      for (int after = 1; after < c_.size(); ++after) {
        const int to = member_after(c_, after);
        const Piece what = piece(to, i);
        co_await put(to, i, what, at(c_.call.recv, what.begin));
      }
    }
    for (int after = 1; after < c_.size(); ++after)
      co_await signalled(c_, member_after(c_, after), blocks_);
    co_return Status::success();
  }

  Task pass_on() noexcept {
    for (std::uint64_t i = 1; i <= blocks_; ++i) {
      co_await signalled(c_, c_.call.root, i);
      const Piece what = piece(c_.rank(), i);
      for (int after = 1; after < c_.size(); ++after) {
        const int to = member_after(c_, after);
        if (to != c_.call.root) co_await put(to, i, what, segment_.data(what.begin));
      }
      copy_out(what);
    }
    co_await put(c_.call.root, blocks_, {0, 0}, nullptr);
    for (std::uint64_t i = 1; i <= blocks_; ++i) {
      for (int after = c_.size() - 1; after > 0; --after) {
        const int from = member_after(c_, after);
        if (from == c_.call.root) continue;
        co_await signalled(c_, from, i);
        copy_out(piece(from, i));
      }
    }
    co_return Status::success();
  }

  void copy_out(Piece what) noexcept {
    c_.place(at(c_.call.recv, what.begin), segment_.data(what.begin), what.bytes);
  }

  Collective& c_;
  NodeSegment& segment_;
  Partition parts_;
  std::size_t block_;
  std::uint64_t blocks_;
  Completion sent_;
};

}  // namespace

namespace {

struct Pipeline {
  std::int64_t block = 16384;
};

}  // namespace

Task bcast_scatter_allgather(Collective& c, Pipeline p) {
  ScatterAllgather broadcast(c, static_cast<std::size_t>(p.block));
  bool made = false;
  co_await enter_segment(c, c.call.bytes, &made);
  if (!made) co_return Status::error(Code::no_memory, "no memory for the broadcast's segment");
  co_await broadcast.run();
  c.finish();
  co_return Status::success();
}

namespace algorithm {

const Algorithm bcast_scatter_allgather = {
    .coll = Coll::bcast,
    .name = "scatter_allgather",
    .run = with_parameters<tutti::bcast_scatter_allgather>,
    .restriction_of = with_parameters<parts_by_everyone>,
    .parameters = parameters_of<Pipeline>(
        {{&Pipeline::block, "block", "bytes", 1024, Parameter::kMost, "block: from 1024"}}),
    .source = "van de Geijn 1994, pipelined",
};

}  // namespace algorithm
}  // namespace tutti
