#include "coll/pattern/collect_blocks.hpp"

#include <algorithm>

#include "coll/pattern/direct.hpp"
#include "coll/pattern/own_block.hpp"

namespace tutti {

Task collect_blocks(Collective& c, void* blocks) noexcept {
  const int size = c.size(), rank = c.rank();
  const OwnBlock own(c);
  Window window(c);
  Completion sent;
  co_await window.open(blocks,
                       std::max<std::size_t>(own.bytes * static_cast<std::size_t>(size), 1));
  co_await c.enter(true);
  for (int step = 1; step < size; ++step) co_await window.invite(c, (rank + size - step) % size);
  c.place(at(blocks, static_cast<std::size_t>(rank) * own.bytes), at(c.call.send, own.begin),
          own.bytes);
  std::size_t begin = own.begin + own.bytes;
  for (int step = 1; step < size; ++step) {
    const int to = (rank + step) % size;
    if (to == 0) begin = 0;
    const std::size_t bytes = block_bytes(c.call, to);
    co_await c.mailed(to, kInvited);
    co_await put_direct(c, to, static_cast<std::size_t>(rank) * bytes, at(c.call.send, begin),
                        bytes, &sent);
    co_await c.mail(to, kArrived);
    begin += bytes;
  }
  for (int step = 1; step < size; ++step) co_await c.mailed((rank + size - step) % size, kArrived);
  co_await c.completed(sent);
  co_return Status::success();
}

}  // namespace tutti
