// Alltoall between nodes, straight into the receivers' buffers.
#include "coll/algorithms.hpp"
#include "coll/pattern/exchange.hpp"
#include "coll/pattern/move.hpp"

namespace tutti {

Task alltoall_direct(Team& t, const Call& call, const Ticket& k, const Parameters&) {
  Temporary copy;
  const void* send = call.send;
  if (call.send == call.recv) {
    const std::size_t total = call.bytes * static_cast<std::size_t>(t.size());
    co_await copy.allocate(t, total);
    place(t, copy.memory(), call.send, total);
    send = copy.memory();
  }
  co_await exchange_blocks(t, k, send, call.recv, call.bytes);
  t.finish(k);
  co_return Status::success();
}

}  // namespace tutti
