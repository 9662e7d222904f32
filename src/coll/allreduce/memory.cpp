// Allreduce, split, by cross-memory attach: member i reads part i of everybody's vector in place,
// folds it in rank order, and then everybody reads the finished parts out of the others' results.
#include <vector>

#include "coll/algorithms.hpp"
#include "coll/pattern/fold.hpp"
#include "coll/pattern/fold_memory.hpp"
#include "coll/pattern/published.hpp"

namespace tutti {
Task allreduce_memory(Team& t, const Call& call, const Ticket& k, const Parameters&) {
  const Partition parts(call.bytes, call.reduction->element_bytes, t.size());
  co_await t.turn(k);
  std::vector<Remote> remotes(static_cast<std::size_t>(t.size()));
  Region sends, results;
  if (!t.line_free(k.first_item + 1)) co_await t.wait_line(k, 1);
  co_await t.fabric().expose(const_cast<void*>(call.send), call.bytes, &sends);
  t.post_key(k, 0, sends.key);
  for (int member = 0; member < t.size(); ++member) {
    if (member == t.rank()) continue;
    co_await t.posted(k, 0, member);
    co_await t.fabric().attach(t.job_rank(member), t.posted_key(k, 0, member),
                               &remotes[static_cast<std::size_t>(member)]);
  }
  Scratch scratch(t);
  co_await scratch.take();
  co_await fold_from_memory(t, *call.reduction, call.send, remotes, parts.begin(t.rank()),
                            parts.bytes(t.rank()), at(call.recv, parts.begin(t.rank())), scratch);

  // Posting the result says: this member has read what it needs of the others' vectors, so that
  // they may overwrite this member's part of theirs (which is their result when the call is in
  // place).
  co_await t.fabric().expose(call.recv, call.bytes, &results);
  t.post_key(k, 1, results.key);
  for (int step = 1; step < t.size(); ++step) {
    const int member = (t.rank() + step) % t.size();
    co_await t.posted(k, 1, member);
    Remote remote;
    co_await t.fabric().attach(t.job_rank(member), t.posted_key(k, 1, member), &remote);
    const std::size_t begin = parts.begin(member);
    co_await read_now(t, remote, begin, at(call.recv, begin), parts.bytes(member));
  }
  t.drain(k, 1);
  co_await t.wait_drained(k, 1);
  t.fabric().withdraw(sends);
  t.fabric().withdraw(results);
  t.finish(k);
  co_return Status::success();
}

}  // namespace tutti
