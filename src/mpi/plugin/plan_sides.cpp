#include "mpi/plugin/plan_sides.hpp"

namespace tutti::mpi {
namespace {

// Listed blocks are packed one behind the other.
void pack_listed(const Sides& sides, int rank, char* packed, Plan* plan) {
  Staging& stage = *plan->staging;
  std::size_t displacement = 0;
  for (std::size_t i = 0; i < sides.listed->size(); ++i) {
    const Data& block = (*sides.listed)[i];
    stage.displs[i] = displacement;
    if (block.count != 0) stage.unpack_after(block, packed + displacement);
    displacement += block.bytes;
  }
  if (!sides.in_place) return;
  const auto mine = static_cast<std::size_t>(rank);
  stage.pack_before((*sides.listed)[mine], packed + stage.displs[mine]);
  plan->call.send = packed + stage.displs[mine];
}

void pack_received(const Sides& sides, const Comm& comm, Plan* plan) {
  Staging& stage = *plan->staging;
  const Side& side = sides.received;
  char* const packed = stage.take(side.all.bytes);
  plan->call.recv = packed;
  if (sides.listed != nullptr) return pack_listed(sides, comm.rank, packed, plan);
  if (sides.in_place) {
    Data own = side.all;
    char* place = packed;
    if (!sides.whole) {
      own.count /= static_cast<std::size_t>(comm.size);
      own.bytes = side.block;
      own.user += static_cast<std::ptrdiff_t>(own.count) * comm.rank * own.type->extent;
      place += static_cast<std::size_t>(comm.rank) * side.block;
    }
    stage.pack_before(own, place);
    plan->call.send = place;
  }
  stage.unpack_after(side.all, packed);
}

void pack_sent(const Sides& sides, int rank, Plan* plan) {
  Staging& stage = *plan->staging;
  const Side& side = sides.sent;
  char* const packed = stage.take(side.all.bytes);
  plan->call.send = packed;
  stage.pack_before(side.all, packed);
  // The rank's own block stays where it is.
  if (sides.in_place) plan->call.recv = packed + static_cast<std::size_t>(rank) * side.block;
}

}  // namespace

Reason pack_sides(const Sides& sides, const Comm& comm, bool blocking, Plan* plan) {
  // The core is asked all the same: it counts the calls that it leaves.
  if (left(*team_of(comm, blocking), plan->call) != Reason::none) return Reason::none;
  if (!plan->staging) plan->staging = std::make_unique<Staging>();
  std::size_t bytes = 0;
  if (sides.sent.packs()) bytes += sides.sent.all.bytes + 64;
  if (sides.received.packs()) bytes += sides.received.all.bytes + 64;
  if (!plan->staging->reserve(bytes)) return Reason::no_memory;
  if (sides.received.packs()) pack_received(sides, comm, plan);
  if (sides.sent.packs()) pack_sent(sides, comm.rank, plan);
  return Reason::none;
}

}  // namespace tutti::mpi
