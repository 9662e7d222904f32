#include "mpi/plugin/plan.hpp"

#include <algorithm>

namespace tutti::mpi {
namespace {

bool in_place(const void* buffer) { return buffer == MPI_IN_PLACE; }

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
