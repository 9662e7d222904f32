// Plans of reductions.
#include <algorithm>
#include <limits>

#include "mpi/plugin/plan_sides.hpp"

namespace tutti::mpi {
namespace {

/// The arguments, understood.
struct Operands {
  Data block, recv;     // what is sent (one block of it), and where the result goes
  int blocks = 1;       // that are sent
  bool result = false;  // is wanted on this rank; the receive buffer means nothing where it is not
};

template <class Args>
Reason read_operands(const Args& args, Operands* out) {
  const Elements sent = sent_by(args);
  const bool own = out->result && sent.buffer == MPI_IN_PLACE;
  if (args.op == MPI_OP_NULL) return Reason::arguments;
  TUTTI_PLAN_TRY(read_data(own ? args.recvbuf : sent.buffer, sent.count, sent.type, &out->block));
  if (!out->result) {
    out->recv = Data{};
    return Reason::none;
  }
  if (own) {
    out->recv = out->block;
    return Reason::none;
  }
  if (!elsewhere(out->block, args.recvbuf, &out->recv)) return Reason::arguments;
  return aliased(Args::kColl, out->block, out->recv) ? Reason::arguments : Reason::none;
}

// The processor folds: what lies in a GPU's memory is copied, operands and result apart.
Reason copy_operands(const Operands& operands, const Team& team, Plan* plan) {
  // The core is asked all the same: it counts the calls that it leaves.
  if (left(team, plan->call) != Reason::none) return Reason::none;
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
inline Reason plan_predefined(const Reduction* reduction, const Operands& operands,
                              const Team& team, Plan* plan) {
  const Data& block = operands.block;
  plan->call.send = block.user;
  plan->call.recv = operands.recv.user;  // null where none is wanted
  plan->call.reduction = reduction;
  plan->call.bytes = block.count * static_cast<std::size_t>(block.type->extent);
  if (block.space == nullptr && operands.recv.space == nullptr) [[likely]]
    return Reason::none;
  return copy_operands(operands, team, plan);
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
Reason plan_user(MPI_Op op, const Comm& comm, const Operands& operands, Plan* plan) {
  Sides sides;
  sides.sent = {operands.block, operands.block.bytes, true};
  Data& sent = sides.sent.all;
  if (!many(&sent, operands.blocks)) return Reason::arguments;
  sides.received = {operands.recv, operands.recv.bytes, operands.result};
  plan->staging = std::make_unique<Staging>();
  TUTTI_PLAN_TRY(describe_operator(op, operands.block.type, plan));
  plan->call.bytes = operands.block.bytes;
  plan->call.send = sent.user;
  plan->call.recv = operands.recv.user;
  if (!sides.sent.packs() && !sides.received.packs()) return Reason::none;
  return pack_sides(sides, comm, true, plan);
}

}  // namespace

template <class Args>
Reason plan_reduction(const Args& args, const Comm& comm, bool blocking, Plan* plan) {
  constexpr SidesOf of = sides_of(Args::kColl);
  Operands operands;
  operands.blocks = of.sent.blocks == Blocks::each ? comm.size : 1;
  operands.result = has(of.received, comm.rank == plan->call.root);
  TUTTI_PLAN_TRY(read_operands(args, &operands));
  if (is_predefined(args.op)) [[likely]] {
    const Reduction* reduction = find_predefined_reduction(args.op, *operands.block.type);
    if (reduction == nullptr) return Reason::no_kernel;
    return plan_predefined(reduction, operands, *team_of(comm, blocking), plan);
  }
  if (!blocking) return Reason::user_operator;
  return plan_user(args.op, comm, operands, plan);
}

template Reason plan_reduction(const ReduceArgs&, const Comm&, bool, Plan*);
template Reason plan_reduction(const AllreduceArgs&, const Comm&, bool, Plan*);
template Reason plan_reduction(const Reduce_scatter_blockArgs&, const Comm&, bool, Plan*);

}  // namespace tutti::mpi
