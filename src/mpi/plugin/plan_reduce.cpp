// Plans of reductions.
#include "mpi/plugin/plan_user.hpp"

namespace tutti::mpi {
namespace {

/// Elements of all ranks' blocks. Each of them is for one rank, which may have none.
Reason sum_counts(const CountList& counts, int size, MPI_Count* sum) {
  if (counts.null()) return Reason::arguments;
  *sum = 0;
  for (int i = 0; i < size; ++i) {
    if (counts[i] < 0) return Reason::arguments;
    if (__builtin_add_overflow(*sum, static_cast<MPI_Count>(counts[i]), sum))
      return Reason::arguments;
  }
  return Reason::none;
}

/// What a rank sends. Listed blocks follow each other, and are one vector.
template <class Args>
Reason read_sent(const Args& args, [[maybe_unused]] int size, Elements* out) {
  if constexpr (sides_of(Args::kColl).sent.blocks == Blocks::listed) {
    *out = {args.sendbuf, 0, args.datatype};
    return sum_counts(args.recvcounts, size, &out->count);
  } else {
    *out = sent_by(args);
    return Reason::none;
  }
}

/// Of the vector that is sent, what this rank gets: all, or a block of a length of its own.
template <class Args>
Data received_like(const Args& args, [[maybe_unused]] int rank, const Data& sent) noexcept {
  Data received = sent;
  if constexpr (sides_of(Args::kColl).sent.blocks == Blocks::listed) {
    received.count = static_cast<std::size_t>(args.recvcounts[rank]);
    received.bytes = received.count * received.type->size;
  }
  return received;
}

template <class Args>
Reason read_operands(const Args& args, const Comm& comm, Operands* out) {
  Elements sent;
  TUTTI_PLAN_TRY(read_sent(args, comm.size, &sent));
  const bool own = out->in_place && sent.buffer == MPI_IN_PLACE;
  if (args.op == MPI_OP_NULL) return Reason::arguments;
  TUTTI_PLAN_TRY(read_data(own ? args.recvbuf : sent.buffer, sent.count, sent.type, &out->block));
  out->recv = Data{};
  if (!out->result) return Reason::none;
  const Data received = received_like(args, comm.rank, out->block);
  if (own) {
    out->recv = received;
    return Reason::none;
  }
  if (!elsewhere(received, args.recvbuf, &out->recv)) return Reason::arguments;
  Data whole = out->block;
  whole.user = out->recv.user;
  return aliased(Args::kColl, out->block, whole) ? Reason::arguments : Reason::none;
}

/// Of listed blocks, with `element_bytes` for each element.
template <class Args>
void list_blocks([[maybe_unused]] const Args& args, [[maybe_unused]] int size,
                 [[maybe_unused]] std::size_t element_bytes, [[maybe_unused]] Plan* plan) {
  if constexpr (sides_of(Args::kColl).sent.blocks == Blocks::listed) {
    if (!plan->staging) plan->staging = std::make_unique<Staging>();
    std::vector<std::size_t>& counts = plan->staging->counts;
    counts.resize(static_cast<std::size_t>(size));
    for (int i = 0; i < size; ++i)
      counts[static_cast<std::size_t>(i)] =
          static_cast<std::size_t>(args.recvcounts[i]) * element_bytes;
    plan->call.counts = counts.data();
  }
}

// The processor folds: what lies in a GPU's memory is copied, operands and result apart.
Reason copy_operands(const Operands& operands, const Team& team, Plan* plan) {
  // The core is asked all the same: it counts the calls that it leaves.
  if (left(team, plan->call) != Reason::none) return Reason::none;
  const Data &send = operands.block, &recv = operands.recv;
  const std::size_t whole = plan->call.bytes * static_cast<std::size_t>(operands.blocks);
  const std::size_t result =
      operands.result ? recv.count * static_cast<std::size_t>(recv.type->extent) : 0;
  if (!plan->staging) plan->staging = std::make_unique<Staging>();
  Staging& stage = *plan->staging;
  if (!stage.reserve(whole + result)) return Reason::no_memory;
  if (send.space != nullptr) {
    char* const copy = stage.take(whole);
    stage.copy_before(send, whole, copy);
    plan->call.send = copy;
  }
  if (operands.result && recv.space != nullptr) {
    char* const copy = stage.take(result);
    stage.copy_after(recv, result, copy);
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

}  // namespace

template <class Args>
Reason plan_reduction(const Args& args, const Comm& comm, bool blocking, Plan* plan) {
  constexpr SidesOf of = sides_of(Args::kColl);
  Operands operands;
  operands.blocks = of.sent.blocks == Blocks::each ? comm.size : 1;
  operands.in_place = operands.result = has(of.received, comm.rank == plan->call.root);
  if (Args::kColl == Coll::exscan && comm.rank == 0) operands.result = false;
  TUTTI_PLAN_TRY(read_operands(args, comm, &operands));
  const TypeInfo& type = *operands.block.type;
  if (is_predefined(args.op)) [[likely]] {
    const Reduction* reduction = find_predefined_reduction(args.op, type);
    if (reduction == nullptr) return Reason::no_kernel;
    list_blocks(args, comm.size, static_cast<std::size_t>(type.extent), plan);
    return plan_predefined(reduction, operands, *team_of(comm, blocking), plan);
  }
  list_blocks(args, comm.size, type.size, plan);
  const auto plan_own = blocking ? plan_user : plan_user_gathered;
  return plan_own(args.op, comm, operands, plan);
}

template Reason plan_reduction(const ReduceArgs&, const Comm&, bool, Plan*);
template Reason plan_reduction(const AllreduceArgs&, const Comm&, bool, Plan*);
template Reason plan_reduction(const Reduce_scatter_blockArgs&, const Comm&, bool, Plan*);
template Reason plan_reduction(const Reduce_scatterArgs&, const Comm&, bool, Plan*);
template Reason plan_reduction(const ScanArgs&, const Comm&, bool, Plan*);
template Reason plan_reduction(const ExscanArgs&, const Comm&, bool, Plan*);

}  // namespace tutti::mpi
