// Allreduce as a reduce-scatter, then an allgather, by cross-memory attach: member i reads part i
// of everybody's vector in place, folds it in rank order, and then everybody reads the finished
// parts out of the others' results.
#include <vector>

#include "coll/algorithms.hpp"
#include "coll/pattern/fold.hpp"
#include "coll/pattern/fold_memory.hpp"
#include "coll/pattern/published.hpp"
#include "coll/restrictions.hpp"

namespace tutti {
Task allreduce_cma(Collective& c) {
  const Partition parts(c.call.bytes, c.call.reduction->element_bytes, c.size());
  co_await c.stream().turn();
  std::vector<Remote> remotes(static_cast<std::size_t>(c.size()));
  Region sends, results;
  if (!c.stream().line_free(1)) co_await c.stream().wait_line(1);
  co_await c.team.fabric().expose(const_cast<void*>(c.call.send), c.call.bytes, &sends);
  c.stream().post_key(0, sends.key);
  for (int member = 0; member < c.size(); ++member) {
    if (member == c.rank()) continue;
    co_await c.stream().posted(0, member);
    co_await c.team.fabric().attach(c.team.job_rank(member), c.stream().posted_key(0, member),
                                    &remotes[static_cast<std::size_t>(member)]);
  }
  Scratch scratch(c);
  co_await scratch.take();
  co_await fold_from_memory(c, c.call.send, remotes, parts.begin(c.rank()), parts.bytes(c.rank()),
                            at(c.call.recv, parts.begin(c.rank())), scratch);

  // Posting the result says: this member has read what it needs of the others' vectors, so that
  // they may overwrite this member's part of theirs (which is their result when the call is in
  // place).
  co_await c.team.fabric().expose(c.call.recv, c.call.bytes, &results);
  c.stream().post_key(1, results.key);
  for (int step = 1; step < c.size(); ++step) {
    const int member = (c.rank() + step) % c.size();
    co_await c.stream().posted(1, member);
    Remote remote;
    co_await c.team.fabric().attach(c.team.job_rank(member), c.stream().posted_key(1, member),
                                    &remote);
    const std::size_t begin = parts.begin(member);
    co_await read_now(c, remote, begin, at(c.call.recv, begin), parts.bytes(member));
  }
  c.stream().drain(1);
  co_await c.stream().wait_drained(1);
  c.team.fabric().withdraw(sends);
  c.team.fabric().withdraw(results);
  c.finish();
  co_return Status::success();
}

namespace algorithm {

const Algorithm allreduce_cma = {
    .coll = Coll::allreduce,
    .name = "cma",
    .run = with_parameters<tutti::allreduce_cma>,
    .restriction_of = with_parameters<reduces_by_memory>,
    .items = with_parameters<two_items>,
    .source = "cross-memory attach",
    .former_name = "memory",
};

}  // namespace algorithm
}  // namespace tutti
