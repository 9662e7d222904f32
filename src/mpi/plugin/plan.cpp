#include "mpi/plugin/plan.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>

namespace tutti::mpi {
namespace {

bool in_place(const void* buffer) { return buffer == MPI_IN_PLACE; }

// Null is an address for types of absolute addresses, and for nothing.
bool is_buffer(const void* buffer, const Data& data) {
  return (buffer != nullptr || data.count == 0 || !data.type->predefined) && !in_place(buffer);
}

// Whether this MPI calls a send buffer that is the receive buffer an error, by collective. Written
// inside MPI_Init.
bool alias_is_error[kColls] = {};

#define TUTTI_PLAN_TRY(expression)                                                       \
  if (const Reason reason_try_ = (expression); reason_try_ != Reason::none) [[unlikely]] \
  return reason_try_

}  // namespace

Reason read_data(const void* buffer, MPI_Count count, MPI_Datatype type, Data* out) noexcept {
  if (count < 0) return Reason::arguments;
  try {
    out->type = find_type(type);
  } catch (const std::bad_alloc&) {
    return Reason::no_memory;
  }
  if (out->type == nullptr) return Reason::arguments;
  // Without elements any type will do: other ranks may have described nothing by another one.
  if (out->type->layout == nullptr && count != 0) return Reason::arguments;
  out->user = const_cast<char*>(static_cast<const char*>(buffer));
  out->count = static_cast<std::size_t>(count);
  if (__builtin_mul_overflow(out->count, out->type->size, &out->bytes)) return Reason::arguments;
  if (!is_buffer(buffer, *out)) return Reason::arguments;
  out->locate();
  return Reason::none;
}

bool elsewhere(const Data& like, const void* buffer, Data* out) noexcept {
  *out = like;
  out->user = const_cast<char*>(static_cast<const char*>(buffer));
  if (!is_buffer(buffer, like)) return false;
  out->locate();
  return true;
}

bool many(const Data& block, int count, Data* out) noexcept {
  *out = block;
  return !__builtin_mul_overflow(block.count, static_cast<std::size_t>(count), &out->count) &&
         !__builtin_mul_overflow(block.bytes, static_cast<std::size_t>(count), &out->bytes);
}

bool aliased(Coll coll, const Data& send, const Data& recv) noexcept {
  // With another type the elements may be others: columns of one matrix, absolute addresses.
  return send.user == recv.user && send.bytes != 0 && send.type == recv.type &&
         send.count == recv.count && alias_is_error[static_cast<int>(coll)];
}

void learn_argument_checks() noexcept {
  int x = 0;
  const auto learn = [](Coll coll, int code) {
    alias_is_error[static_cast<int>(coll)] = code != MPI_SUCCESS;
  };
  // A communicator of its own, so that the program's error handlers are left alone.
  MPI_Comm self = MPI_COMM_NULL;
  if (native.Comm_dup(MPI_COMM_SELF, &self) != MPI_SUCCESS) return;
  native.Comm_set_errhandler(self, MPI_ERRORS_RETURN);
  learn(Coll::reduce, native.Reduce(&x, &x, 1, MPI_INT, MPI_SUM, 0, self));
  learn(Coll::allreduce, native.Allreduce(&x, &x, 1, MPI_INT, MPI_SUM, self));
  learn(Coll::reduce_scatter_block, native.Reduce_scatter_block(&x, &x, 1, MPI_INT, MPI_SUM, self));
  learn(Coll::allgather, native.Allgather(&x, 1, MPI_INT, &x, 1, MPI_INT, self));
  learn(Coll::gather, native.Gather(&x, 1, MPI_INT, &x, 1, MPI_INT, 0, self));
  learn(Coll::scatter, native.Scatter(&x, 1, MPI_INT, &x, 1, MPI_INT, 0, self));
  learn(Coll::alltoall, native.Alltoall(&x, 1, MPI_INT, &x, 1, MPI_INT, self));
  native.Comm_free(&self);
}

namespace {

Staging& staging(Plan* plan) {
  if (!plan->staging) plan->staging = std::make_unique<Staging>();
  return *plan->staging;
}

// A buffer with one block per rank, seen by the core as consecutive packed blocks.
char* pack_side(Staging& stage, const Data& all) {
  char* packed = stage.take(all.bytes);
  stage.pack_before(all, packed);
  return packed;
}

// What a rank sends itself must be what it receives.
bool match(Coll coll, const Data& send, const Data& recv) {
  return send.bytes == recv.bytes && !aliased(coll, send, recv);
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

bool Staging::reserve(std::size_t bytes) {
  if (bytes > std::numeric_limits<std::size_t>::max() / 2) return false;
  scratch = Scratch(bytes + 3 * 64);
  return scratch.data() != nullptr;
}

char* Staging::take(std::size_t bytes) {
  char* const place = scratch.data() + used;
  used += (bytes + 63) / 64 * 64;
  return place;
}

void Staging::pack_before(const Data& data, char* packed) {
  hold(data.type);
  before.push_back({data.type, data.user, data.count, packed, data.space});
}

void Staging::unpack_after(const Data& data, char* packed) {
  hold(data.type);
  after.push_back({data.type, data.user, data.count, packed, data.space});
}

void Staging::copy_before(const Data& data, std::size_t bytes, char* copy) {
  before.push_back({nullptr, data.user, bytes, copy, data.space});
}

void Staging::copy_after(const Data& data, std::size_t bytes, char* copy) {
  after.push_back({nullptr, data.user, bytes, copy, data.space});
}

Status Plan::run(const std::vector<Transfer>& transfers, bool packing) noexcept {
  for (const Transfer& t : transfers) {
    if (t.type == nullptr) {
      TUTTI_TRY(
          copy_bytes(*t.space, packing ? t.packed : t.user, packing ? t.user : t.packed, t.count));
    } else if (t.space != nullptr) {
      TUTTI_TRY(packing ? pack_from(*t.space, *t.type, t.user, t.count, t.packed)
                        : unpack_to(*t.space, *t.type, t.packed, t.count, t.user));
    } else if (packing) {
      pack(*t.type, t.user, t.count, t.packed);
    } else {
      unpack(*t.type, t.packed, t.count, t.user);
    }
  }
  return Status::success();
}

Reason make_plan(const BarrierArgs&, const Comm&, bool, Plan* plan) {
  plan->call.coll = Coll::barrier;
  return Reason::none;
}

Reason make_plan(const BcastArgs& args, const Comm& comm, bool, Plan* plan) {
  Data data;
  if (args.root < 0 || args.root >= comm.size) return Reason::arguments;
  TUTTI_PLAN_TRY(read_data(args.buffer, args.count, args.datatype, &data));
  plan->call.coll = Coll::bcast;
  plan->call.root = args.root;
  plan->call.bytes = data.bytes;
  plan->call.recv = data.user;
  if (data.dense()) return Reason::none;
  Staging& stage = staging(plan);
  if (!stage.reserve(data.bytes)) return Reason::no_memory;
  char* packed = stage.take(data.bytes);
  plan->call.recv = packed;
  if (comm.rank == args.root) {
    stage.pack_before(data, packed);
  } else {
    stage.unpack_after(data, packed);
  }
  return Reason::none;
}

Reason make_plan(const AllgatherArgs& args, const Comm& comm, bool, Plan* plan) {
  Data recv, all, send;
  TUTTI_PLAN_TRY(read_data(args.recvbuf, args.recvcount, args.recvtype, &recv));
  const bool own = in_place(args.sendbuf);
  if (!own) TUTTI_PLAN_TRY(read_data(args.sendbuf, args.sendcount, args.sendtype, &send));
  if (!many(recv, comm.size, &all) || (!own && !match(Coll::allgather, send, recv)))
    return Reason::arguments;
  const auto mine = static_cast<std::size_t>(comm.rank) * recv.bytes;
  plan->call.coll = Coll::allgather;
  plan->call.bytes = recv.bytes;
  plan->call.recv = all.user;
  plan->call.send = own ? all.user + mine : send.user;
  if (all.dense() && (own || send.dense())) return Reason::none;
  Staging& stage = staging(plan);
  if (!stage.reserve(scratch_for(all) + (own ? 0 : scratch_for(send)))) return Reason::no_memory;
  if (!all.dense()) {
    char* packed = stage.take(all.bytes);
    plan->call.recv = packed;
    if (own) {
      Data block = recv;
      block.user += static_cast<std::ptrdiff_t>(recv.count) * comm.rank * recv.type->extent;
      stage.pack_before(block, packed + mine);
      plan->call.send = packed + mine;
    }
    stage.unpack_after(all, packed);
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
    TUTTI_PLAN_TRY(read_data(args.recvbuf, args.recvcounts[i], args.recvtype, &block));
    block.user += args.displs[i] * block.type->extent;
    block.locate();
    stage.counts[static_cast<std::size_t>(i)] = block.bytes;
    if (__builtin_add_overflow(total, block.bytes, &total)) return Reason::arguments;
  }
  const Data& mine = blocks[static_cast<std::size_t>(comm.rank)];
  Data send;
  if (!own) TUTTI_PLAN_TRY(read_data(args.sendbuf, args.sendcount, args.sendtype, &send));
  if (!own && send.bytes != mine.bytes) return Reason::arguments;
  bool dense = true;
  for (const Data& block : blocks) dense = dense && block.dense();
  if (!stage.reserve((dense ? 0 : total + 64) + (own ? 0 : scratch_for(send))))
    return Reason::no_memory;
  // Displacements may be negative; the core counts from the lowest block.
  char* base = mine.user;
  for (const Data& block : blocks) base = std::min(base, block.user);
  if (!dense) base = stage.take(total);
  std::size_t packed = 0;
  for (std::size_t i = 0; i < size; ++i) {
    stage.displs[i] = dense ? static_cast<std::size_t>(blocks[i].user - base) : packed;
    if (!dense && blocks[i].count != 0) stage.unpack_after(blocks[i], base + packed);
    packed += blocks[i].bytes;
  }
  plan->call.coll = Coll::allgatherv;
  plan->call.bytes = total;
  plan->call.recv = base;
  plan->call.counts = stage.counts.data();
  plan->call.displs = stage.displs.data();
  plan->call.send = base + stage.displs[static_cast<std::size_t>(comm.rank)];
  if (own && !dense)
    stage.pack_before(mine, base + stage.displs[static_cast<std::size_t>(comm.rank)]);
  if (!own) plan->call.send = send.dense() ? send.user : pack_side(stage, send);
  return Reason::none;
}

Reason make_plan(const GatherArgs& args, const Comm& comm, bool, Plan* plan) {
  const bool root = comm.rank == args.root, own = root && in_place(args.sendbuf);
  if (args.root < 0 || args.root >= comm.size) return Reason::arguments;
  Data recv, all, send;
  if (root) TUTTI_PLAN_TRY(read_data(args.recvbuf, args.recvcount, args.recvtype, &recv));
  if (!own) TUTTI_PLAN_TRY(read_data(args.sendbuf, args.sendcount, args.sendtype, &send));
  if (root && (!many(recv, comm.size, &all) || (!own && !match(Coll::gather, send, recv))))
    return Reason::arguments;
  const std::size_t mine = static_cast<std::size_t>(comm.rank) * recv.bytes;
  plan->call.coll = Coll::gather;
  plan->call.root = args.root;
  plan->call.bytes = own ? recv.bytes : send.bytes;
  plan->call.recv = root ? all.user : nullptr;
  plan->call.send = own ? all.user + mine : send.user;
  const bool packs_recv = root && !all.dense(), packs_send = !own && !send.dense();
  if (!packs_recv && !packs_send) return Reason::none;
  Staging& stage = staging(plan);
  if (!stage.reserve((packs_recv ? all.bytes + 64 : 0) + (packs_send ? send.bytes : 0))) {
    return Reason::no_memory;
  }
  if (packs_recv) {
    char* packed = stage.take(all.bytes);
    plan->call.recv = packed;
    if (own) {
      Data block = recv;
      block.user += static_cast<std::ptrdiff_t>(recv.count) * comm.rank * recv.type->extent;
      stage.pack_before(block, packed + mine);
      plan->call.send = packed + mine;
    }
    stage.unpack_after(all, packed);
  }
  if (packs_send) plan->call.send = pack_side(stage, send);
  return Reason::none;
}

Reason make_plan(const ScatterArgs& args, const Comm& comm, bool, Plan* plan) {
  const bool root = comm.rank == args.root, own = root && in_place(args.recvbuf);
  if (args.root < 0 || args.root >= comm.size) return Reason::arguments;
  Data recv, all, send;
  if (root) TUTTI_PLAN_TRY(read_data(args.sendbuf, args.sendcount, args.sendtype, &send));
  if (!own) TUTTI_PLAN_TRY(read_data(args.recvbuf, args.recvcount, args.recvtype, &recv));
  if (root && (!many(send, comm.size, &all) || (!own && !match(Coll::scatter, send, recv))))
    return Reason::arguments;
  const std::size_t mine = static_cast<std::size_t>(comm.rank) * send.bytes;
  plan->call.coll = Coll::scatter;
  plan->call.root = args.root;
  plan->call.bytes = root ? send.bytes : recv.bytes;
  plan->call.send = root ? all.user : nullptr;
  plan->call.recv = own ? all.user + mine : recv.user;
  const bool packs_send = root && !all.dense(), packs_recv = !own && !recv.dense();
  if (!packs_recv && !packs_send) return Reason::none;
  Staging& stage = staging(plan);
  if (!stage.reserve((packs_send ? all.bytes + 64 : 0) + (packs_recv ? recv.bytes : 0))) {
    return Reason::no_memory;
  }
  if (packs_send) {
    char* packed = pack_side(stage, all);
    plan->call.send = packed;
    if (own) plan->call.recv = packed + mine;  // the root's own block stays where it is
  }
  if (packs_recv) {
    char* packed = stage.take(recv.bytes);
    plan->call.recv = packed;
    stage.unpack_after(recv, packed);
  }
  return Reason::none;
}

Reason make_plan(const AlltoallArgs& args, const Comm& comm, bool, Plan* plan) {
  const bool own = in_place(args.sendbuf);
  Data recv, send, all_recv, all_send;
  TUTTI_PLAN_TRY(read_data(args.recvbuf, args.recvcount, args.recvtype, &recv));
  if (!own) TUTTI_PLAN_TRY(read_data(args.sendbuf, args.sendcount, args.sendtype, &send));
  if (!many(recv, comm.size, &all_recv)) return Reason::arguments;
  if (!own && (!many(send, comm.size, &all_send) || !match(Coll::alltoall, send, recv)))
    return Reason::arguments;
  plan->call.coll = Coll::alltoall;
  plan->call.bytes = recv.bytes;
  plan->call.recv = all_recv.user;
  plan->call.send = own ? all_recv.user : all_send.user;
  if (all_recv.dense() && (own || all_send.dense())) return Reason::none;
  Staging& stage = staging(plan);
  if (!stage.reserve(scratch_for(all_recv) + (own ? 0 : scratch_for(all_send)))) {
    return Reason::no_memory;
  }
  if (!all_recv.dense()) {
    char* packed = stage.take(all_recv.bytes);
    plan->call.recv = packed;
    if (own) {
      stage.pack_before(all_recv, packed);
      plan->call.send = packed;
    }
    stage.unpack_after(all_recv, packed);
  }
  if (!own && !all_send.dense()) plan->call.send = pack_side(stage, all_send);
  return Reason::none;
}

}  // namespace tutti::mpi
