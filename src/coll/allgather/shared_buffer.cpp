// Allgather on a buffer that a node's processes share with the network (ALLGATHER-2006, section 4).
//
// Step 0: every member of a node writes its block to the node's segment. Then the nodes exchange
// what they have, by recursive doubling: one message a step and node, straight from segment to
// segment, the flag behind the data. Every member polls the flags itself and copies what has
// arrived out of the segment while the next step's message is on its way (`overlap` 0: all of it at
// the end). `drivers`: how many members of a node take turns in posting its messages (the paper:
// 1).
#include <algorithm>

#include "coll/algorithms.hpp"
#include "coll/allgather/hierarchical.hpp"
#include "coll/pattern/direct.hpp"
#include "coll/pattern/segment.hpp"
#include "coll/restrictions.hpp"

namespace tutti {
namespace {

struct Copying {
  std::int64_t overlap = 1;  // copies while the network sends
  std::int64_t drivers = 1;  // members of a node that put its blocks
};
constexpr ParameterList kCopying =
    parameters_of<Copying>({{&Copying::overlap, "overlap", "switch", 0, 1},
                            {&Copying::drivers, "drivers", "members", 1, Parameter::kMostMembers,
                             "drivers: 1 to 1048576"}});

class SharedBuffer {
 public:
  SharedBuffer(Collective& c, Copying p)
      : c_(c),
        segment_(c.team.segment()),
        map_(segment_.map()),
        steps_(map_.my_node, map_.nodes),
        blocks_(map_, c.call.bytes, c.call.counts),
        overlap_(p.overlap != 0),
        drivers_(static_cast<int>(std::max<std::int64_t>(p.drivers, 1))) {}
  FramePool& frames() noexcept { return c_.team.frames(); }
  std::size_t total() const noexcept { return blocks_.begin(c_.size()); }

  /// The segment has been entered.
  Task run() noexcept {
    if (puts_take_long(c_, blocks_.bytes(own()))) co_await c_.team.engine().later();
    co_await gather_on_node();
    for (int step = 0; step < steps_.steps(); ++step) {
      if (segment_.driver(map_.my_node, step, drivers_) == c_.rank()) co_await send(step);
      if (overlap_) copy_out(had_before(step));
      const int from = segment_.driver(steps_.from(step), step, drivers_);
      co_await segment_.signalled(NodeSegment::flag_of_step(step), 1, from);
    }
    if (overlap_) {
      copy_out(had_before(steps_.steps()));
    } else {
      copy_out({0, map_.nodes});
    }
    co_await c_.completed(sent_);
    co_return Status::success();
  }

 private:
  using Range = NodeSteps::Range;

  Task gather_on_node() noexcept {
    c_.place_shared(segment_.data(blocks_.begin(own())), c_.call.send, blocks_.bytes(own()));
    segment_.say_written();
    for (int local = 0; local < segment_.locals(); ++local) co_await segment_.written(local);
    co_return Status::success();
  }

  /// What step `step` - 1 has brought; before the first one, what the node has itself.
  Range had_before(int step) const noexcept {
    return step == 0 ? Range{map_.my_node, 1} : steps_.received(step - 1);
  }

  Status send(int step) noexcept {
    const Range range = steps_.sent(step);
    const int last = std::min(range.first + range.count, map_.nodes);
    const int around = range.first + range.count - last;  // nodes from 0 on
    const std::size_t begin = begin_of(range.first), end = begin_of(last);
    if (around != 0) TUTTI_TRY(segment_.put(steps_.to(step), 0, begin_of(around), &sent_));
    return segment_.put_and_signal(steps_.to(step), NodeSegment::flag_of_step(step), 1, begin,
                                   segment_.data(begin), end - begin, &sent_);
  }

  void copy_out(Range range) noexcept {
    const int last = std::min(range.first + range.count, map_.nodes);
    copy_out_nodes(range.first, last);
    copy_out_nodes(0, range.first + range.count - last);
  }

  /// As many blocks at once as follow each other in the receive buffer too.
  void copy_out_nodes(int first, int last) noexcept {
    const int end = map_.begin(last);
    for (int i = map_.begin(first); i < end;) {
      const int run = i;
      do ++i;
      while (i < end && destination(i) == destination(i - 1) + blocks_.bytes(i - 1));
      c_.place(at(c_.call.recv, destination(run)), segment_.data(blocks_.begin(run)),
               blocks_.begin(i) - blocks_.begin(run));
    }
  }

  int own() const noexcept { return map_.begin(map_.my_node) + segment_.local(); }
  std::size_t begin_of(int node) const noexcept { return blocks_.begin(map_.begin(node)); }
  std::size_t destination(int position) const noexcept {
    const int member = map_.members[static_cast<std::size_t>(position)];
    return c_.call.displs != nullptr ? c_.call.displs[member]
                                     : static_cast<std::size_t>(member) * c_.call.bytes;
  }

  Collective& c_;
  NodeSegment& segment_;
  const NodeMap& map_;
  NodeSteps steps_;
  SegmentBlocks blocks_;
  bool overlap_;
  int drivers_;
  Completion sent_;
};

/// `without`: what runs where a node has no memory for a segment, as all members know.
Task run(Collective& c, Copying p, decltype(&allgather_hierarchical) without) noexcept {
  SharedBuffer buffer(c, p);
  bool made = false;
  co_await enter_segment(c, buffer.total(), &made);
  if (!made && c.team.layers() != nullptr) {
    co_await without(c);
    co_return Status::success();
  }
  if (!made) co_return Status::error(Code::no_memory, "no memory for the node's shared buffer");
  co_await buffer.run();
  c.finish();
  co_return Status::success();
}

}  // namespace

Task allgather_shared_buffer(Collective& c, Copying p) { return run(c, p, allgather_hierarchical); }

Task allgatherv_shared_buffer(Collective& c, Copying p) {
  return run(c, p, allgatherv_hierarchical);
}

namespace algorithm {

const Algorithm allgather_shared_buffer = {
    .coll = Coll::allgather,
    .name = "shared_buffer",
    .run = with_parameters<tutti::allgather_shared_buffer>,
    .restriction_of = with_parameters<in_segments>,
    .parameters = kCopying,
    .source = "ALLGATHER-2006, section 4",
};

const Algorithm allgatherv_shared_buffer = {
    .coll = Coll::allgatherv,
    .name = "shared_buffer",
    .run = with_parameters<tutti::allgatherv_shared_buffer>,
    .restriction_of = with_parameters<in_segments>,
    .parameters = kCopying,
    .source = "ALLGATHER-2006, section 4",
};

}  // namespace algorithm
}  // namespace tutti
