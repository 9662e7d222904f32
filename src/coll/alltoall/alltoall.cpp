// Alltoall: everybody publishes its whole vector and reads its block of everybody else's.
#include "coll/algorithms.hpp"
#include "coll/pattern/published.hpp"
#include "coll/pattern/slice.hpp"

namespace tutti {
namespace {

std::size_t total_of(const Team& t, const Call& call) noexcept {
  return call.bytes * static_cast<std::size_t>(t.size());
}

/// In place, what is received would overwrite what is still to be sent: send from a copy.
Status separate(Team& t, const Call& call, Temporary* copy, const void** send) noexcept {
  *send = call.send;
  if (call.send != call.recv) return Status::success();
  TUTTI_TRY(copy->allocate(t, total_of(t, call)));
  place(t, copy->memory(), call.send, total_of(t, call));
  *send = copy->memory();
  return Status::success();
}

}  // namespace

Task alltoall_flat(Team& t, const Call& call, const Ticket& k, const Parameters&) {
  return through_cells(t, k, Publishers::all(t), call.send, total_of(t, call), true,
                       [&t, &call](int member, const std::byte* data) {
                         place(t, at(call.recv, static_cast<std::size_t>(member) * call.bytes),
                               data + static_cast<std::size_t>(t.rank()) * call.bytes, call.bytes);
                       });
}

Task alltoall_blocks(Team& t, const Call& call, const Ticket& k, const Parameters& p) {
  Temporary copy;
  const void* send = nullptr;
  co_await separate(t, call, &copy, &send);
  const std::size_t total = total_of(t, call);
  co_await through_blocks(
      t, k, Publishers::all(t), send, [total](int) { return total; }, block_parameter(t, p), true,
      [&t, &call](int member, std::size_t offset, const std::byte* data, std::size_t bytes) {
        const Slice slice(t.rank(), call.bytes, offset, bytes);
        const std::size_t begin = static_cast<std::size_t>(member) * call.bytes + slice.in_block;
        place(t, at(call.recv, begin), data + slice.in_chunk, slice.bytes);
      });
  co_return Status::success();
}

Task alltoall_memory(Team& t, const Call& call, const Ticket& k, const Parameters&) {
  Temporary copy;
  const void* send = nullptr;
  co_await separate(t, call, &copy, &send);
  const std::size_t own = static_cast<std::size_t>(t.rank()) * call.bytes;
  place(t, at(call.recv, own), at(send, own), call.bytes);
  co_await through_memory(
      t, k, Publishers::all(t), send, total_of(t, call), true,
      [&t, &call, own](int member, const Remote& remote) {
        return read_now(t, remote, own,
                        at(call.recv, static_cast<std::size_t>(member) * call.bytes), call.bytes);
      });
  co_return Status::success();
}

}  // namespace tutti
