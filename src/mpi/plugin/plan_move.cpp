// Plans of collectives that move data: their sides (sides.hpp), read from the arguments.
#include <algorithm>
#include <type_traits>
#include <utility>
#include <variant>

#include "mpi/plugin/plan_sides.hpp"

namespace tutti::mpi {
namespace {

inline Reason read_side(const Elements& elements, Blocks blocks, int size, Side* out) {
  TUTTI_PLAN_TRY(read_data(elements.buffer, elements.count, elements.type, &out->all));
  out->here = true;
  out->block = out->all.bytes;
  return blocks == Blocks::one || many(&out->all, size) ? Reason::none : Reason::arguments;
}

// The blocks, and what they are together.
Reason read_listed(const AllgathervArgs& args, const Comm& comm, std::vector<Data>* blocks,
                   Side* out) {
  if (args.recvcounts.null() || args.displs.null()) return Reason::arguments;
  blocks->resize(static_cast<std::size_t>(comm.size));
  out->all = {};
  for (int i = 0; i < comm.size; ++i) {
    Data& block = (*blocks)[static_cast<std::size_t>(i)];
    // The buffer may be null when this rank's view of it is empty; the total is checked below.
    TUTTI_PLAN_TRY(read_data(args.recvbuf, args.recvcounts[i], args.recvtype, &block));
    block.user += args.displs[i] * block.type->extent;
    block.locate();
    if (i == 0) out->all.user = block.user;
    out->all.type = block.type;
    // Displacements may be negative; the core counts from the lowest block.
    out->all.user = std::min(out->all.user, block.user);
    out->all.count += block.count;
    if (block.count != 0 && block.space != nullptr) out->all.space = block.space;
    if (__builtin_add_overflow(out->all.bytes, block.bytes, &out->all.bytes))
      return Reason::arguments;
  }
  out->here = true;
  out->block = (*blocks)[static_cast<std::size_t>(comm.rank)].bytes;
  return Reason::none;
}

// For blocks that need no packing.
void describe_listed(const std::vector<Data>& blocks, const char* lowest, Plan* plan) {
  plan->staging = std::make_unique<Staging>();
  Staging& stage = *plan->staging;
  stage.counts.resize(blocks.size());
  stage.displs.resize(blocks.size());
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    stage.counts[i] = blocks[i].bytes;
    stage.displs[i] = static_cast<std::size_t>(blocks[i].user - lowest);
  }
  plan->call.counts = stage.counts.data();
  plan->call.displs = stage.displs.data();
}

template <class Args>
Reason read_sides(const Args& args, const Comm& comm, bool at_root, Sides* out) {
  constexpr SidesOf of = sides_of(Args::kColl);
  bool sends = has(of.sent, at_root), receives = has(of.received, at_root);
  if constexpr (of.in_place != InPlace::none) {
    constexpr bool sent = of.in_place == InPlace::sent;
    out->in_place = sends && receives && (sent ? args.sendbuf : args.recvbuf) == MPI_IN_PLACE;
    out->whole = of.sent.blocks == of.received.blocks;
    (sent ? sends : receives) &= !out->in_place;
  }
  if constexpr (of.received.blocks != Blocks::listed) {
    if (receives)
      TUTTI_PLAN_TRY(read_side(received_by(args), of.received.blocks, comm.size, &out->received));
  }
  if (sends) TUTTI_PLAN_TRY(read_side(sent_by(args), of.sent.blocks, comm.size, &out->sent));
  return Reason::none;
}

// Where both are at one address.
[[gnu::cold]] bool aliased(const SidesOf& of, const Sides& sides, int size) {
  const auto block = [size](const Side& side, Blocks blocks) {
    Data one = side.all;
    if (blocks == Blocks::each) one.count /= static_cast<std::size_t>(size);
    one.bytes = side.block;
    return one;
  };
  return aliased(of.coll, block(sides.sent, of.sent.blocks),
                 block(sides.received, of.received.blocks));
}

// What a rank sends itself must be what it receives, and lie elsewhere.
inline bool match(const SidesOf& of, const Sides& sides, int size) {
  return !sides.sent.here || !sides.received.here ||
         (sides.sent.block == sides.received.block &&
          (sides.sent.all.user != sides.received.all.user || !aliased(of, sides, size)));
}

// Where the rank's own data lie in a side, for the other one that is in place.
std::size_t own_offset(const Sides& sides, const Side& side, int rank, const Plan& plan) {
  if (sides.whole) return 0;
  if (sides.listed != nullptr) return plan.staging->displs[static_cast<std::size_t>(rank)];
  return static_cast<std::size_t>(rank) * side.block;
}

}  // namespace

template <class Args>
Reason plan_move(const Args& args, const Comm& comm, bool blocking, Plan* plan) {
  constexpr SidesOf of = sides_of(Args::kColl);
  Sides sides;
  [[maybe_unused]] std::conditional_t<of.received.blocks == Blocks::listed, std::vector<Data>,
                                      std::monostate>
      listed;
  if constexpr (of.received.blocks == Blocks::listed) {
    TUTTI_PLAN_TRY(read_listed(args, comm, &listed, &sides.received));
    describe_listed(listed, sides.received.all.user, plan);
    sides.listed = &listed;
  }
  TUTTI_PLAN_TRY(read_sides(args, comm, comm.rank == plan->call.root, &sides));
  if (!match(of, sides, comm.size)) return Reason::arguments;
  const Side& side = sides.received.here ? sides.received : sides.sent;
  Call& call = plan->call;
  call.bytes = of.received.blocks == Blocks::listed ? side.all.bytes : side.block;
  if (sides.sent.here) call.send = sides.sent.all.user;
  if (sides.received.here) call.recv = sides.received.all.user;
  if (sides.in_place) {
    char* const own = side.all.user + own_offset(sides, side, comm.rank, *plan);
    if (of.in_place == InPlace::sent) call.send = own;
    if (of.in_place == InPlace::received) call.recv = own;
  }
  Reason reason = Reason::none;
  if (sides.sent.packs() || sides.received.packs()) [[unlikely]]
    reason = pack_sides(sides, comm, blocking, plan);
  // For the core a broadcast has one buffer.
  if (of.coll == Coll::bcast && sides.sent.here)
    call.recv = const_cast<void*>(std::exchange(call.send, nullptr));
  return reason;
}

template Reason plan_move(const BcastArgs&, const Comm&, bool, Plan*);
template Reason plan_move(const AllgatherArgs&, const Comm&, bool, Plan*);
template Reason plan_move(const AllgathervArgs&, const Comm&, bool, Plan*);
template Reason plan_move(const GatherArgs&, const Comm&, bool, Plan*);
template Reason plan_move(const ScatterArgs&, const Comm&, bool, Plan*);
template Reason plan_move(const AlltoallArgs&, const Comm&, bool, Plan*);

}  // namespace tutti::mpi
