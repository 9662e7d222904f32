// Plans of reductions.
#include <algorithm>
#include <limits>

#include "mpi/plugin/plan.hpp"

namespace tutti::mpi {
namespace {

/// The arguments that MPI_Reduce, MPI_Allreduce and MPI_Reduce_scatter_block have in common.
struct Arguments {
  MPI_Op op;
  MPI_Datatype type;
  MPI_Count count;  // per block
  int blocks;       // in the send buffer
  const void* send;
  void* recv;
  bool result;  // is wanted on this rank; `recv` means nothing where it is not
};

/// The same, understood.
struct Operands {
  Data block, recv;  // what is sent (one block of it), and where the result goes
  int blocks = 1;
  bool result = false;
};

Reason read_operands(Coll coll, const Arguments& args, Operands* out) {
  const bool own = args.result && args.send == MPI_IN_PLACE;
  if (args.op == MPI_OP_NULL) return Reason::arguments;
  const Reason reason = read_data(own ? args.recv : args.send, args.count, args.type, &out->block);
  if (reason != Reason::none) return reason;
  out->blocks = args.blocks;
  out->result = args.result;
  if (!args.result) return Reason::none;
  if (own) {
    out->recv = out->block;
    return Reason::none;
  }
  if (!elsewhere(out->block, args.recv, &out->recv)) return Reason::arguments;
  return aliased(coll, out->block, out->recv) ? Reason::arguments : Reason::none;
}

// The processor folds: what lies in a GPU's memory is copied, operands and result apart.
Reason copy_operands(const Operands& operands, Plan* plan) {
  const Data &send = operands.block, &recv = operands.recv;
  const std::size_t block = plan->call.bytes;
  const std::size_t whole = block * static_cast<std::size_t>(operands.blocks);
  plan->staging = std::make_unique<Staging>();
  Staging& stage = *plan->staging;
  if (!stage.reserve(whole + block)) return Reason::no_memory;
  if (send.space != nullptr) {
    char* const copy = stage.take(whole);
    stage.copy_before(send, whole, copy);
    plan->call.send = copy;
  }
  if (operands.result && recv.space != nullptr) {
    char* const copy = stage.take(block);
    stage.copy_after(recv, block, copy);
    plan->call.recv = copy;
  }
  return Reason::none;
}

// Reductions of predefined operators work on elements in place, whatever their padding.
Reason plan_predefined(const Reduction* reduction, const Operands& operands, Plan* plan) {
  const Data& block = operands.block;
  plan->call.send = block.user;
  plan->call.recv = operands.recv.user;  // null where none is wanted
  plan->call.reduction = reduction;
  plan->call.bytes = block.count * static_cast<std::size_t>(block.type->extent);
  if (block.space == nullptr && operands.recv.space == nullptr) [[likely]]
    return Reason::none;
  return copy_operands(operands, plan);
}

Reason describe_operator(MPI_Op op, const TypeInfo* type, Plan* plan) {
  int commutative = 0;
  if (native.Op_commutative(op, &commutative) != MPI_SUCCESS) return Reason::arguments;
  if (type->size > std::numeric_limits<std::uint32_t>::max()) return Reason::arguments;
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

// User-defined operators see packed data between ranks (the others may have another type of the
// same signature) and their own type in memory (fold_user).
Reason plan_user(MPI_Op op, const Operands& operands, Plan* plan) {
  Data whole;
  if (!many(operands.block, operands.blocks, &whole)) return Reason::arguments;
  plan->staging = std::make_unique<Staging>();
  Staging& stage = *plan->staging;
  if (const Reason reason = describe_operator(op, whole.type, plan); reason != Reason::none)
    return reason;
  plan->call.bytes = operands.block.bytes;
  plan->call.send = whole.user;
  plan->call.recv = operands.recv.user;
  if (whole.dense() && (!operands.result || operands.recv.dense())) return Reason::none;
  if (!stage.reserve(2 * whole.bytes)) return Reason::no_memory;
  char* const packed_send = stage.take(whole.bytes);
  stage.pack_before(whole, packed_send);
  plan->call.send = packed_send;
  if (!operands.result) return Reason::none;
  char* const packed_recv = stage.take(whole.bytes);
  stage.unpack_after(operands.recv, packed_recv);
  plan->call.recv = packed_recv;
  return Reason::none;
}

Reason plan_reduction(const Arguments& args, bool blocking, Plan* plan) {
  Operands operands;
  if (const Reason reason = read_operands(plan->call.coll, args, &operands); reason != Reason::none)
    return reason;
  if (is_predefined(args.op)) [[likely]] {
    const Reduction* reduction = find_predefined_reduction(args.op, *operands.block.type);
    if (reduction == nullptr) return Reason::no_kernel;
    return plan_predefined(reduction, operands, plan);
  }
  if (!blocking) return Reason::user_operator;
  return plan_user(args.op, operands, plan);
}

}  // namespace

Reason make_plan(const AllreduceArgs& args, const Comm&, bool blocking, Plan* plan) {
  plan->call.coll = Coll::allreduce;
  return plan_reduction({args.op, args.datatype, args.count, 1, args.sendbuf, args.recvbuf, true},
                        blocking, plan);
}

Reason make_plan(const ReduceArgs& args, const Comm& comm, bool blocking, Plan* plan) {
  if (args.root < 0 || args.root >= comm.size) return Reason::arguments;
  plan->call.coll = Coll::reduce;
  plan->call.root = args.root;
  return plan_reduction(
      {args.op, args.datatype, args.count, 1, args.sendbuf, args.recvbuf, comm.rank == args.root},
      blocking, plan);
}

Reason make_plan(const Reduce_scatter_blockArgs& args, const Comm& comm, bool blocking,
                 Plan* plan) {
  plan->call.coll = Coll::reduce_scatter_block;
  return plan_reduction(
      {args.op, args.datatype, args.recvcount, comm.size, args.sendbuf, args.recvbuf, true},
      blocking, plan);
}

}  // namespace tutti::mpi
