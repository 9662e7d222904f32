#include "mpi/plugin/plan_user.hpp"

#include <algorithm>
#include <limits>

namespace tutti::mpi {
namespace {

Reason describe_operator(MPI_Op op, const TypeInfo* type, Plan* plan) {
  int commutative = 0;
  if (native.Op_commutative(op, &commutative) != MPI_SUCCESS) return Reason::arguments;
  if (type->size > std::numeric_limits<std::uint32_t>::max()) return Reason::arguments;
  if (!plan->staging) plan->staging = std::make_unique<Staging>();
  plan->staging->user = std::make_unique<UserReduction>();
  UserReduction& user = *plan->staging->user;
  user.op = op;
  user.type = type;
  plan->staging->hold(type);
  user.reduction.fold = &fold_user;
  user.reduction.element_bytes = static_cast<std::uint32_t>(std::max<std::size_t>(type->size, 1));
  user.reduction.commutative = commutative != 0;
  user.reduction.divisible = false;
  user.reduction.any_thread = false;
  user.reduction.context = &user;
  plan->call.reduction = &user.reduction;
  return Reason::none;
}

/// What a reduction becomes: everybody gets the operands whose fold it wants.
Coll exchange_for(Coll coll) noexcept {
  switch (coll) {
    case Coll::reduce:
      return Coll::gather;
    case Coll::reduce_scatter_block:
      return Coll::alltoall;
    case Coll::reduce_scatter:
      return Coll::alltoallv;
    default:  // allreduce, scan, exscan
      return Coll::allgather;
  }
}

/// How many ranks' operands this one folds: those of the first ones.
int folded(Coll coll, const Comm& comm) noexcept {
  if (coll == Coll::scan) return comm.rank + 1;
  return coll == Coll::exscan ? comm.rank : comm.size;
}

/// Bytes that every rank sends to each one that gathers: of listed blocks the longest.
std::size_t longest_block(const Operands& operands, const Staging& stage) {
  if (stage.counts.empty()) return operands.block.bytes;
  return *std::ranges::max_element(stage.counts);
}

/// Of reduce_scatter: each rank sends everybody the block that is to be its own.
void gather_listed(const Comm& comm, const char* sent, char* gathered, Plan* plan) {
  Staging& stage = *plan->staging;
  Parcels& parcels = stage.parcels.emplace(comm.rank, comm.size);
  const std::size_t own = stage.counts[static_cast<std::size_t>(comm.rank)];
  for (int member = 0; member < comm.size; ++member) {
    const std::size_t bytes = stage.counts[static_cast<std::size_t>(member)];
    parcels.send(member, sent, bytes);
    sent += bytes;
    parcels.receive(member, gathered + static_cast<std::size_t>(member) * own, own);
  }
  parcels.arrange();
  plan->call.parcels = &parcels;
  plan->call.counts = nullptr;
  plan->call.bytes = 0;
}

}  // namespace

// User-defined operators see packed data between ranks (the others may have another type of the
// same signature) and their own type in memory (fold_user).
Reason plan_user(MPI_Op op, const Comm& comm, const Operands& operands, Plan* plan) {
  Sides sides;
  sides.sent = {operands.block, operands.block.bytes, true};
  Data& sent = sides.sent.all;
  if (!many(&sent, operands.blocks)) return Reason::arguments;
  sides.received = {operands.recv, operands.recv.bytes, operands.result};
  TUTTI_PLAN_TRY(describe_operator(op, operands.block.type, plan));
  plan->call.bytes = operands.block.bytes;
  plan->call.send = sent.user;
  plan->call.recv = operands.recv.user;
  if (!sides.sent.packs() && !sides.received.packs()) return Reason::none;
  return pack_sides(sides, comm, true, plan);
}

Reason plan_user_gathered(MPI_Op op, const Comm& comm, const Operands& operands, Plan* plan) {
  Call& call = plan->call;
  const Coll coll = call.coll;
  Data sent = operands.block;
  if (!many(&sent, operands.blocks)) return Reason::arguments;
  TUTTI_PLAN_TRY(describe_operator(op, operands.block.type, plan));
  call.bytes = operands.block.bytes;
  Staging& stage = *plan->staging;
  const std::size_t longest = longest_block(operands, stage);
  if (longest > kMostGathered / static_cast<std::size_t>(comm.size)) return Reason::user_operator;
  // The core is asked all the same: it counts the calls that it leaves.
  if (left(*comm.nonblocking, call) != Reason::none) return Reason::none;

  const std::size_t packed = sent.dense() ? 0 : sent.bytes;
  const bool gathers = coll != Coll::reduce || operands.result;
  const std::size_t room = gathers ? longest * static_cast<std::size_t>(comm.size) : 0;
  if (!stage.reserve(packed + room)) return Reason::no_memory;
  call.coll = exchange_for(coll);
  call.reduction = nullptr;
  call.send = sent.user;
  if (packed != 0) {
    char* const copy = stage.take(packed);
    stage.pack_before(sent, copy);
    call.send = copy;
  }
  char* const gathered = gathers ? stage.take(room) : nullptr;
  call.recv = gathered;
  if (coll == Coll::reduce_scatter)
    gather_listed(comm, static_cast<const char*>(call.send), gathered, plan);
  const int blocks = operands.result ? folded(coll, comm) : 0;
  stage.user->gather(gathered, blocks, operands.recv.count);
  if (blocks != 0) stage.unpack_after(operands.recv, stage.user->result());
  return Reason::none;
}

}  // namespace tutti::mpi
