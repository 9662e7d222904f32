// Scan and exscan between nodes from rank to rank, strictly from left to right: everybody puts what
// has been folded up to itself straight into the memory of the next one. Vectors that may be cut
// pass along in pieces, so that all ranks fold and send at the same time.
#include <algorithm>

#include "coll/algorithms.hpp"
#include "coll/pattern/direct.hpp"
#include "coll/pattern/fold.hpp"
#include "coll/restrictions.hpp"

namespace tutti {
namespace {

struct Chain {
  std::int64_t piece = 16 << 10;
};
inline constexpr ParameterList kChain = parameters_of<Chain>(
    {{&Chain::piece, "piece", "bytes", 1, Parameter::kMost, "piece: 1 or more"}});

/// No more pieces than keep the ranks busy, and than there are steps of the mail.
std::size_t piece_bytes(const Call& call, Chain p) noexcept {
  constexpr std::size_t kMostPieces = 64;
  if (!call.reduction->divisible) return call.bytes;
  const std::size_t wanted =
      std::max(static_cast<std::size_t>(p.piece), call.bytes / kMostPieces + 1);
  return whole_elements(wanted, call.reduction->element_bytes);
}

/// Where a rank's vectors lie.
struct Vectors {
  void* before = nullptr;  // of the ranks before this one, as it comes in
  void* folded = nullptr;  // of the ranks up to this one, as it goes out
};

/// The own operand behind what the ranks before have folded, and what this rank gets. In place, the
/// operand lies where an exscan's result goes.
void fold_piece(Collective& c, const Vectors& vectors, std::size_t offset, std::size_t bytes,
                bool sends) noexcept {
  if (c.call.coll == Coll::scan || sends)
    c.fold(at(vectors.before, offset), at(c.call.send, offset), at(vectors.folded, offset), bytes);
  if (c.call.coll == Coll::exscan)
    c.place(at(c.call.recv, offset), at(vectors.before, offset), bytes);
}

}  // namespace

Task scan_chain(Collective& c, Chain p) {
  const bool scans = c.call.coll == Coll::scan;
  const int before = c.rank() - 1, next = c.rank() + 1 < c.size() ? c.rank() + 1 : -1;
  const std::size_t total = c.call.bytes;
  const std::size_t piece = piece_bytes(c.call, p);
  Temporary incoming, outgoing;
  Window window(c);
  Completion sent;
  Vectors vectors{c.call.recv, scans ? c.call.recv : const_cast<void*>(c.call.send)};
  co_await c.enter(false);
  if (before >= 0) {
    // What comes in must not overwrite the own operand.
    if (c.call.send == c.call.recv) {
      co_await incoming.allocate(c, total);
      vectors.before = incoming.memory();
    }
    if (!scans && next >= 0) {
      co_await outgoing.allocate(c, total);
      vectors.folded = outgoing.memory();
    }
    co_await window.open(vectors.before, total);
    co_await window.invite(c, before);
  } else if (scans) {
    c.place(c.call.recv, c.call.send, total);
  }
  if (next >= 0) co_await c.mailed(next, kInvited);
  std::uint64_t step = kArrived;
  for (std::size_t offset = 0; offset < total; offset += piece, ++step) {
    const std::size_t bytes = std::min(piece, total - offset);
    if (before >= 0) {
      co_await c.mailed(before, step);
      fold_piece(c, vectors, offset, bytes, next >= 0);
    }
    if (next < 0) continue;
    co_await put_direct(c, next, offset, at(vectors.folded, offset), bytes, &sent);
    co_await c.mail(next, step);
  }
  co_await c.completed(sent);
  c.finish();
  co_return Status::success();
}

namespace algorithm {

const Algorithm scan_chain = {
    .coll = Coll::scan,
    .name = "chain",
    .run = with_parameters<tutti::scan_chain>,
    .restriction_of = with_parameters<passes_between_nodes>,
    .parameters = kChain,
    .source = "fold in rank order, from rank to rank",
};

const Algorithm exscan_chain = {
    .coll = Coll::exscan,
    .name = "chain",
    .run = with_parameters<tutti::scan_chain>,
    .restriction_of = with_parameters<passes_between_nodes>,
    .parameters = kChain,
    .source = "fold in rank order, from rank to rank",
};

}  // namespace algorithm
}  // namespace tutti
