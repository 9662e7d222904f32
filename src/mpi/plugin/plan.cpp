#include "mpi/plugin/plan.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

namespace tutti::mpi {
namespace {

bool in_place(const void* buffer) { return buffer == MPI_IN_PLACE; }

}  // namespace

bool read_data(const void* buffer, MPI_Count count, MPI_Datatype type, Data* out) {
  if (count < 0) return false;
  out->type = find_type(type);
  if (out->type == nullptr) return false;
  out->user = const_cast<char*>(static_cast<const char*>(buffer));
  out->count = static_cast<std::size_t>(count);
  if (__builtin_mul_overflow(out->count, out->type->size, &out->bytes)) return false;
  // Absolute addresses go with derived types only.
  return (buffer != nullptr || count == 0 || !out->type->predefined) && !in_place(buffer);
}

namespace {

bool aliased(const void* send, const void* recv, std::size_t bytes) {
  return kAliasIsError && send == recv && bytes != 0;
}

Staging& staging(Plan* plan) {
  if (!plan->staging) plan->staging = std::make_unique<Staging>();
  return *plan->staging;
}

// Room for `bytes` of packed data; reserve() must have been told of all of it.
char* take(Staging& stage, std::size_t bytes) {
  char* place = stage.scratch.data() + stage.used;
  stage.used += (bytes + 63) / 64 * 64;
  return place;
}

bool reserve(Staging& stage, std::size_t bytes) {
  if (bytes > std::numeric_limits<std::size_t>::max() / 2) return false;
  stage.scratch = Scratch(bytes + 3 * 64);
  return stage.scratch.data() != nullptr;
}

void pack_before(Staging& stage, const Data& data, char* packed) {
  stage.hold(data.type);
  stage.before.push_back({data.type, data.user, data.count, packed});
}

void unpack_after(Staging& stage, const Data& data, char* packed) {
  stage.hold(data.type);
  stage.after.push_back({data.type, data.user, data.count, packed});
}

// `count` blocks of the same type, one after the other; `block` describes one of them.
bool many(const Data& block, int count, Data* out) {
  *out = block;
  return !__builtin_mul_overflow(block.count, static_cast<std::size_t>(count), &out->count) &&
         !__builtin_mul_overflow(block.bytes, static_cast<std::size_t>(count), &out->bytes);
}

// ---- reductions

// Reductions of predefined operators work on elements in place, whatever their padding.
Reason plan_predefined(const Reduction* reduction, const Data& data, const void* send, void* recv,
                       Plan* plan) {
  plan->call.send = send;
  plan->call.recv = recv;
  plan->call.reduction = reduction;
  plan->call.bytes = data.count * static_cast<std::size_t>(data.type->extent);
  return Reason::none;
}

// User-defined operators see packed data between ranks (the others may have another type of the
// same signature) and their own type in memory (fold_user).
Reason plan_user(MPI_Op op, const Data& whole, std::size_t block_count, const void* send,
                 void* recv, Plan* plan) {
  Staging& stage = staging(plan);
  stage.user = std::make_unique<UserReduction>();
  UserReduction& user = *stage.user;
  int commutative = 0;
  if (native.Op_commutative(op, &commutative) != MPI_SUCCESS) return Reason::arguments;
  if (whole.type->size > std::numeric_limits<std::uint32_t>::max()) return Reason::arguments;
  user.op = op;
  user.type = whole.type;
  stage.hold(whole.type);
  user.reduction.fold = &fold_user;
  user.reduction.element_bytes =
      static_cast<std::uint32_t>(std::max<std::size_t>(whole.type->size, 1));
  user.reduction.commutative = commutative != 0;
  user.reduction.divisible = false;
  user.reduction.any_thread = false;
  user.reduction.context = &user;
  plan->call.reduction = &user.reduction;
  plan->call.bytes = block_count * whole.type->size;
  plan->call.send = send;
  plan->call.recv = recv;
  if (whole.dense()) return Reason::none;
  if (!reserve(stage, 2 * whole.bytes)) return Reason::no_memory;
  char* packed_send = take(stage, whole.bytes);
  char* packed_recv = take(stage, whole.bytes);
  Data data = whole;
  data.user = const_cast<char*>(static_cast<const char*>(send));
  pack_before(stage, data, packed_send);
  plan->call.send = packed_send;
  plan->call.recv = recv != nullptr ? packed_recv : nullptr;
  if (recv != nullptr) {
    data.user = static_cast<char*>(recv);
    data.count = block_count;
    unpack_after(stage, data, packed_recv);
  }
  return Reason::none;
}

// `count` elements per block, `blocks` of them in the send buffer. `recv` is null where no result
// is wanted.
Reason plan_reduction(MPI_Op op, MPI_Datatype type, MPI_Count count, int blocks, const void* send,
                      void* recv, bool blocking, Plan* plan) {
  Data block, whole;
  if (op == MPI_OP_NULL || !read_data(send, count, type, &block)) return Reason::arguments;
  if (!many(block, blocks, &whole)) return Reason::arguments;
  if (is_predefined(op)) [[likely]] {
    const Reduction* reduction = find_predefined_reduction(op, *block.type);
    if (reduction == nullptr) return Reason::no_kernel;
    return plan_predefined(reduction, block, send, recv, plan);
  }
  if (!blocking) return Reason::user_operator;
  return plan_user(op, whole, block.count, send, recv, plan);
}

// ---- movement of blocks

// A buffer with one block per rank, seen by the core as consecutive packed blocks.
char* pack_side(Staging& stage, const Data& all) {
  char* packed = take(stage, all.bytes);
  pack_before(stage, all, packed);
  return packed;
}

std::size_t scratch_for(const Data& data) { return data.dense() ? 0 : data.bytes + 64; }

}  // namespace

Staging::~Staging() {
  for (const TypeInfo* type : held_) release(type);
}

void Staging::hold(const TypeInfo* type) {
  if (type->predefined) return;
  retain(type);
  held_.push_back(type);
}

void Plan::run(const std::vector<Transfer>& transfers, bool packing) noexcept {
  for (const Transfer& transfer : transfers) {
    if (packing) {
      pack(*transfer.type, transfer.user, transfer.count, transfer.packed);
    } else {
      unpack(*transfer.type, transfer.packed, transfer.count, transfer.user);
    }
  }
}

Reason make_plan(const BarrierArgs&, const Comm&, bool, Plan* plan) {
  plan->call.coll = Coll::barrier;
  return Reason::none;
}

Reason make_plan(const BcastArgs& args, const Comm& comm, bool, Plan* plan) {
  Data data;
  if (args.root < 0 || args.root >= comm.size ||
      !read_data(args.buffer, args.count, args.datatype, &data)) {
    return Reason::arguments;
  }
  plan->call.coll = Coll::bcast;
  plan->call.root = args.root;
  plan->call.bytes = data.bytes;
  plan->call.recv = data.user;
  if (data.dense()) return Reason::none;
  Staging& stage = staging(plan);
  if (!reserve(stage, data.bytes)) return Reason::no_memory;
  char* packed = take(stage, data.bytes);
  plan->call.recv = packed;
  if (comm.rank == args.root) {
    pack_before(stage, data, packed);
  } else {
    unpack_after(stage, data, packed);
  }
  return Reason::none;
}

Reason make_plan(const AllreduceArgs& args, const Comm&, bool blocking, Plan* plan) {
  const void* send = in_place(args.sendbuf) ? args.recvbuf : args.sendbuf;
  if (in_place(args.recvbuf) || (args.recvbuf == nullptr && args.count > 0))
    return Reason::arguments;
  if (!in_place(args.sendbuf) && args.count > 0 && aliased(args.sendbuf, args.recvbuf, 1)) {
    return Reason::arguments;
  }
  plan->call.coll = Coll::allreduce;
  return plan_reduction(args.op, args.datatype, args.count, 1, send, args.recvbuf, blocking, plan);
}

Reason make_plan(const ReduceArgs& args, const Comm& comm, bool blocking, Plan* plan) {
  const bool root = comm.rank == args.root;
  if (args.root < 0 || args.root >= comm.size) return Reason::arguments;
  const void* send = args.sendbuf;
  if (root) {
    if (in_place(send)) send = args.recvbuf;
    if (in_place(args.recvbuf) || (args.recvbuf == nullptr && args.count > 0))
      return Reason::arguments;
    if (args.count > 0 && aliased(args.sendbuf, args.recvbuf, 1)) return Reason::arguments;
  }
  plan->call.coll = Coll::reduce;
  plan->call.root = args.root;
  return plan_reduction(args.op, args.datatype, args.count, 1, send, root ? args.recvbuf : nullptr,
                        blocking, plan);
}

Reason make_plan(const Reduce_scatter_blockArgs& args, const Comm& comm, bool blocking,
                 Plan* plan) {
  const void* send = in_place(args.sendbuf) ? args.recvbuf : args.sendbuf;
  if (in_place(args.recvbuf) || (args.recvbuf == nullptr && args.recvcount > 0)) {
    return Reason::arguments;
  }
  if (!in_place(args.sendbuf) && args.recvcount > 0 && aliased(args.sendbuf, args.recvbuf, 1)) {
    return Reason::arguments;
  }
  plan->call.coll = Coll::reduce_scatter_block;
  return plan_reduction(args.op, args.datatype, args.recvcount, comm.size, send, args.recvbuf,
                        blocking, plan);
}

Reason make_plan(const AllgatherArgs& args, const Comm& comm, bool, Plan* plan) {
  Data recv, all, send;
  if (!read_data(args.recvbuf, args.recvcount, args.recvtype, &recv) ||
      !many(recv, comm.size, &all)) {
    return Reason::arguments;
  }
  const bool own = in_place(args.sendbuf);
  if (!own && (!read_data(args.sendbuf, args.sendcount, args.sendtype, &send) ||
               send.bytes != recv.bytes || aliased(send.user, recv.user, recv.bytes))) {
    return Reason::arguments;
  }
  const auto mine = static_cast<std::size_t>(comm.rank) * recv.bytes;
  plan->call.coll = Coll::allgather;
  plan->call.bytes = recv.bytes;
  plan->call.recv = all.user;
  plan->call.send = own ? all.user + mine : send.user;
  if (all.dense() && (own || send.dense())) return Reason::none;
  Staging& stage = staging(plan);
  if (!reserve(stage, scratch_for(all) + (own ? 0 : scratch_for(send)))) return Reason::no_memory;
  if (!all.dense()) {
    char* packed = take(stage, all.bytes);
    plan->call.recv = packed;
    if (own) {
      Data block = recv;
      block.user += static_cast<std::ptrdiff_t>(recv.count) * comm.rank * recv.type->extent;
      pack_before(stage, block, packed + mine);
      plan->call.send = packed + mine;
    }
    unpack_after(stage, all, packed);
  }
  if (!own && !send.dense()) plan->call.send = pack_side(stage, send);
  return Reason::none;
}

Reason make_plan(const AllgathervArgs& args, const Comm& comm, bool, Plan* plan) {
  if (args.recvcounts.null() || args.displs.null()) return Reason::arguments;
  const bool own = in_place(args.sendbuf);
  Staging& stage = staging(plan);
  const auto size = static_cast<std::size_t>(comm.size);
  stage.counts.resize(size);
  stage.displs.resize(size);
  std::size_t total = 0;
  std::vector<Data> blocks(size);
  for (int i = 0; i < comm.size; ++i) {
    Data& block = blocks[static_cast<std::size_t>(i)];
    // The buffer may be null when this rank's view of it is empty; the total is checked below.
    if (!read_data(args.recvbuf, args.recvcounts[i], args.recvtype, &block))
      return Reason::arguments;
    block.user += args.displs[i] * block.type->extent;
    stage.counts[static_cast<std::size_t>(i)] = block.bytes;
    if (__builtin_add_overflow(total, block.bytes, &total)) return Reason::arguments;
  }
  const Data& mine = blocks[static_cast<std::size_t>(comm.rank)];
  Data send;
  if (!own && (!read_data(args.sendbuf, args.sendcount, args.sendtype, &send) ||
               send.bytes != mine.bytes)) {
    return Reason::arguments;
  }
  const bool dense = mine.type->dense;
  if (!reserve(stage, (dense ? 0 : total + 64) + (own ? 0 : scratch_for(send))))
    return Reason::no_memory;
  // Displacements may be negative; the core counts from the lowest block.
  char* base = mine.user;
  for (const Data& block : blocks) base = std::min(base, block.user);
  if (!dense) base = take(stage, total);
  std::size_t packed = 0;
  for (std::size_t i = 0; i < size; ++i) {
    stage.displs[i] = dense ? static_cast<std::size_t>(blocks[i].user - base) : packed;
    if (!dense && blocks[i].count != 0) unpack_after(stage, blocks[i], base + packed);
    packed += blocks[i].bytes;
  }
  plan->call.coll = Coll::allgatherv;
  plan->call.bytes = total;
  plan->call.recv = base;
  plan->call.counts = stage.counts.data();
  plan->call.displs = stage.displs.data();
  plan->call.send = base + stage.displs[static_cast<std::size_t>(comm.rank)];
  if (own && !dense)
    pack_before(stage, mine, base + stage.displs[static_cast<std::size_t>(comm.rank)]);
  if (!own) plan->call.send = send.dense() ? send.user : pack_side(stage, send);
  return Reason::none;
}

Reason make_plan(const GatherArgs& args, const Comm& comm, bool, Plan* plan) {
  const bool root = comm.rank == args.root, own = root && in_place(args.sendbuf);
  if (args.root < 0 || args.root >= comm.size) return Reason::arguments;
  Data recv, all, send;
  if (root && (!read_data(args.recvbuf, args.recvcount, args.recvtype, &recv) ||
               !many(recv, comm.size, &all))) {
    return Reason::arguments;
  }
  if (!own && (!read_data(args.sendbuf, args.sendcount, args.sendtype, &send) ||
               (root && (send.bytes != recv.bytes || aliased(send.user, recv.user, recv.bytes))))) {
    return Reason::arguments;
  }
  const std::size_t mine = static_cast<std::size_t>(comm.rank) * recv.bytes;
  plan->call.coll = Coll::gather;
  plan->call.root = args.root;
  plan->call.bytes = own ? recv.bytes : send.bytes;
  plan->call.recv = root ? all.user : nullptr;
  plan->call.send = own ? all.user + mine : send.user;
  const bool packs_recv = root && !all.dense(), packs_send = !own && !send.dense();
  if (!packs_recv && !packs_send) return Reason::none;
  Staging& stage = staging(plan);
  if (!reserve(stage, (packs_recv ? all.bytes + 64 : 0) + (packs_send ? send.bytes : 0))) {
    return Reason::no_memory;
  }
  if (packs_recv) {
    char* packed = take(stage, all.bytes);
    plan->call.recv = packed;
    if (own) {
      Data block = recv;
      block.user += static_cast<std::ptrdiff_t>(recv.count) * comm.rank * recv.type->extent;
      pack_before(stage, block, packed + mine);
      plan->call.send = packed + mine;
    }
    unpack_after(stage, all, packed);
  }
  if (packs_send) plan->call.send = pack_side(stage, send);
  return Reason::none;
}

Reason make_plan(const ScatterArgs& args, const Comm& comm, bool, Plan* plan) {
  const bool root = comm.rank == args.root, own = root && in_place(args.recvbuf);
  if (args.root < 0 || args.root >= comm.size) return Reason::arguments;
  Data recv, all, send;
  if (root && (!read_data(args.sendbuf, args.sendcount, args.sendtype, &send) ||
               !many(send, comm.size, &all))) {
    return Reason::arguments;
  }
  if (!own && (!read_data(args.recvbuf, args.recvcount, args.recvtype, &recv) ||
               (root && (send.bytes != recv.bytes || aliased(send.user, recv.user, recv.bytes))))) {
    return Reason::arguments;
  }
  const std::size_t mine = static_cast<std::size_t>(comm.rank) * send.bytes;
  plan->call.coll = Coll::scatter;
  plan->call.root = args.root;
  plan->call.bytes = root ? send.bytes : recv.bytes;
  plan->call.send = root ? all.user : nullptr;
  plan->call.recv = own ? all.user + mine : recv.user;
  const bool packs_send = root && !all.dense(), packs_recv = !own && !recv.dense();
  if (!packs_recv && !packs_send) return Reason::none;
  Staging& stage = staging(plan);
  if (!reserve(stage, (packs_send ? all.bytes + 64 : 0) + (packs_recv ? recv.bytes : 0))) {
    return Reason::no_memory;
  }
  if (packs_send) {
    char* packed = pack_side(stage, all);
    plan->call.send = packed;
    if (own) plan->call.recv = packed + mine;  // the root's own block stays where it is
  }
  if (packs_recv) {
    char* packed = take(stage, recv.bytes);
    plan->call.recv = packed;
    unpack_after(stage, recv, packed);
  }
  return Reason::none;
}

Reason make_plan(const AlltoallArgs& args, const Comm& comm, bool, Plan* plan) {
  const bool own = in_place(args.sendbuf);
  Data recv, send, all_recv, all_send;
  if (!read_data(args.recvbuf, args.recvcount, args.recvtype, &recv) ||
      !many(recv, comm.size, &all_recv)) {
    return Reason::arguments;
  }
  if (!own && (!read_data(args.sendbuf, args.sendcount, args.sendtype, &send) ||
               !many(send, comm.size, &all_send) || send.bytes != recv.bytes ||
               aliased(send.user, recv.user, recv.bytes))) {
    return Reason::arguments;
  }
  plan->call.coll = Coll::alltoall;
  plan->call.bytes = recv.bytes;
  plan->call.recv = all_recv.user;
  plan->call.send = own ? all_recv.user : all_send.user;
  if (all_recv.dense() && (own || all_send.dense())) return Reason::none;
  Staging& stage = staging(plan);
  if (!reserve(stage, scratch_for(all_recv) + (own ? 0 : scratch_for(all_send)))) {
    return Reason::no_memory;
  }
  if (!all_recv.dense()) {
    char* packed = take(stage, all_recv.bytes);
    plan->call.recv = packed;
    if (own) {
      pack_before(stage, all_recv, packed);
      plan->call.send = packed;
    }
    unpack_after(stage, all_recv, packed);
  }
  if (!own && !all_send.dense()) plan->call.send = pack_side(stage, all_send);
  return Reason::none;
}

}  // namespace tutti::mpi
