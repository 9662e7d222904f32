// Plans of the collectives of which each rank knows but its own counts: what it sends and receives
// becomes parcels. Whether tutti takes a call depends on the communicator and the collective alone.
#include "mpi/plugin/plan.hpp"
#include "mpi/plugin/sides.hpp"

namespace tutti::mpi {
namespace {

/// A side of a call on this rank: a block for each member, or one for the root.
class ListedSide {
 public:
  bool here() const noexcept { return kind_ != Kind::none; }
  /// The only block, for `member`.
  void set_one(int member, const Elements& elements) noexcept {
    kind_ = Kind::one;
    member_ = member;
    elements_ = elements;
  }
  void set_all(const void* buffer, CountList counts, CountList displs, MPI_Datatype type) noexcept {
    kind_ = Kind::all;
    elements_ = {buffer, 0, type};
    counts_ = counts;
    displs_ = displs;
  }
  /// With a type for each, and displacements in bytes.
  void set_all(const void* buffer, CountList counts, CountList displs,
               const MPI_Datatype* types) noexcept {
    set_all(buffer, counts, displs, MPI_Datatype{});
    kind_ = Kind::typed;
    types_ = types;
  }
  /// What can be wrong whatever the counts are.
  Reason check() const noexcept {
    if (kind_ == Kind::none || kind_ == Kind::one) return Reason::none;
    if (counts_.null() || displs_.null() || elements_.buffer == MPI_IN_PLACE)
      return Reason::arguments;
    if (kind_ == Kind::typed) return types_ != nullptr ? Reason::none : Reason::arguments;
    return find_type(elements_.type) != nullptr ? Reason::none : Reason::arguments;
  }
  /// The block of `member`; of those that there are none the count is 0, and nothing else is set.
  Reason read(int member, Data* out) const {
    out->count = out->bytes = 0;
    if (kind_ == Kind::one)
      return member == member_ ? read_data(elements_.buffer, elements_.count, elements_.type, out)
                               : Reason::none;
    if (kind_ == Kind::none || counts_[member] == 0) return Reason::none;
    const MPI_Datatype type = kind_ == Kind::typed ? types_[member] : elements_.type;
    TUTTI_PLAN_TRY(read_data(elements_.buffer, counts_[member], type, out));
    out->user += displs_[member] * (kind_ == Kind::typed ? 1 : out->type->extent);
    out->locate();
    return Reason::none;
  }

 private:
  enum class Kind : unsigned char { none, one, all, typed };
  Kind kind_ = Kind::none;
  int member_ = -1;
  Elements elements_{};
  CountList counts_{static_cast<const int*>(nullptr)}, displs_{static_cast<const int*>(nullptr)};
  const MPI_Datatype* types_ = nullptr;
};

/// Both sides. In place, alltoallv and alltoallw send what is where they receive; of the others the
/// root's own block stays where it is.
struct ListedSides {
  ListedSide sent, received;
  bool in_place = false;
};

void read_sides(const GathervArgs& args, int rank, ListedSides* out) {
  const bool root = rank == args.root;
  out->in_place = root && args.sendbuf == MPI_IN_PLACE;
  if (!out->in_place) out->sent.set_one(args.root, {args.sendbuf, args.sendcount, args.sendtype});
  if (root) out->received.set_all(args.recvbuf, args.recvcounts, args.displs, args.recvtype);
}

void read_sides(const ScattervArgs& args, int rank, ListedSides* out) {
  const bool root = rank == args.root;
  out->in_place = root && args.recvbuf == MPI_IN_PLACE;
  if (!out->in_place)
    out->received.set_one(args.root, {args.recvbuf, args.recvcount, args.recvtype});
  if (root) out->sent.set_all(args.sendbuf, args.sendcounts, args.displs, args.sendtype);
}

void read_sides(const AlltoallvArgs& args, int /*rank*/, ListedSides* out) {
  out->in_place = args.sendbuf == MPI_IN_PLACE;
  out->received.set_all(args.recvbuf, args.recvcounts, args.rdispls, args.recvtype);
  if (!out->in_place) out->sent.set_all(args.sendbuf, args.sendcounts, args.sdispls, args.sendtype);
}

void read_sides(const AlltoallwArgs& args, int /*rank*/, ListedSides* out) {
  out->in_place = args.sendbuf == MPI_IN_PLACE;
  out->received.set_all(args.recvbuf, args.recvcounts, args.rdispls, args.recvtypes);
  if (!out->in_place)
    out->sent.set_all(args.sendbuf, args.sendcounts, args.sdispls, args.sendtypes);
}

/// Whether this MPI calls buffers that are the same an error, and they are.
template <class Args>
bool same_buffers(const Args& args, const Data& sent, const Data& received) noexcept {
  if constexpr (requires { args.sdispls; }) {
    // It looks only where lists and types are the same, too.
    bool same_types = false;
    if constexpr (requires { args.sendtypes; }) {
      same_types = args.sendtypes == args.recvtypes;
    } else {
      same_types = args.sendtype == args.recvtype;
    }
    return same_types && args.sendbuf == args.recvbuf && args.sendcounts == args.recvcounts &&
           received.bytes != 0 && alias_is_error(Args::kColl);
  } else {
    return sent.bytes != 0 && args.sendbuf == args.recvbuf && aliased(Args::kColl, sent, received);
  }
}

/// The blocks of both sides, by member.
struct Listed {
  std::vector<Data> sent, received;
};

Reason read_blocks(const ListedSides& sides, const Comm& comm, Listed* out) {
  TUTTI_PLAN_TRY(sides.sent.check());
  TUTTI_PLAN_TRY(sides.received.check());
  const auto size = static_cast<std::size_t>(comm.size);
  out->sent.resize(size);
  out->received.resize(size);
  for (int i = 0; i < comm.size; ++i) {
    const auto member = static_cast<std::size_t>(i);
    TUTTI_PLAN_TRY(sides.sent.read(i, &out->sent[member]));
    TUTTI_PLAN_TRY(sides.received.read(i, &out->received[member]));
  }
  return Reason::none;
}

/// Bytes that the blocks have when they are packed; false where there can be no so many.
bool add_packed(const std::vector<Data>& blocks, bool all, std::size_t* bytes) noexcept {
  for (const Data& block : blocks) {
    if (block.count == 0 || (!all && block.dense())) continue;
    if (__builtin_add_overflow(*bytes, block.bytes, bytes)) return false;
  }
  return true;
}

/// Where a block is sent from or received into; `*packed` moves on where that is packed data.
template <class Pack>
char* place_of(const Data& block, bool packs, char** packed, Pack&& pack) {
  if (!packs) return block.user;
  char* const place = *packed;
  *packed += block.bytes;
  pack(block, place);
  return place;
}

/// Packed where they are not in one piece, and before they are overwritten.
Reason make_parcels(const Listed& listed, const ListedSides& sides, bool exchanges,
                    const Comm& comm, Plan* plan) {
  const bool overwritten = exchanges && sides.in_place;
  const std::vector<Data>& sent = overwritten ? listed.received : listed.sent;
  std::size_t packed_sent = 0, packed_received = 0;
  if (!add_packed(sent, overwritten, &packed_sent) ||
      !add_packed(listed.received, false, &packed_received))
    return Reason::arguments;
  plan->staging = std::make_unique<Staging>();
  Staging& stage = *plan->staging;
  char *out = nullptr, *in = nullptr;
  if (packed_sent + packed_received != 0) {
    if (!stage.reserve(packed_sent + packed_received)) return Reason::no_memory;
    out = stage.take(packed_sent);
    in = stage.take(packed_received);
  }
  Parcels& parcels = stage.parcels.emplace(comm.rank, comm.size);
  for (int d = 0; d < comm.size; ++d) {
    const int to = (comm.rank + d) % comm.size, from = (comm.rank - d + comm.size) % comm.size;
    const Data& going = sent[static_cast<std::size_t>(to)];
    const Data& coming = listed.received[static_cast<std::size_t>(from)];
    // What stays with this rank is there already.
    if (overwritten && d == 0) continue;
    if (going.bytes != 0)
      parcels.send(to,
                   place_of(going, overwritten || !going.dense(), &out,
                            [&](const Data& b, char* p) { stage.pack_before(b, p); }),
                   going.bytes);
    if (coming.bytes != 0)
      parcels.receive(from,
                      place_of(coming, !coming.dense(), &in,
                               [&](const Data& b, char* p) { stage.unpack_after(b, p); }),
                      coming.bytes);
  }
  parcels.arrange();
  plan->call.parcels = &parcels;
  return Reason::none;
}

}  // namespace

template <class Args>
Reason plan_parcels(const Args& args, const Comm& comm, bool blocking, Plan* plan) {
  constexpr bool exchanges = requires { args.sdispls; };
  ListedSides sides;
  read_sides(args, comm.rank, &sides);
  Listed listed;
  TUTTI_PLAN_TRY(read_blocks(sides, comm, &listed));
  // In place the root keeps its block: it neither sends nor receives it.
  const auto own = static_cast<std::size_t>(comm.rank);
  if (sides.in_place && !exchanges) listed.sent[own] = listed.received[own] = Data{};
  if (!sides.in_place && listed.sent[own].bytes > listed.received[own].bytes)
    return Reason::arguments;
  if (!sides.in_place && same_buffers(args, listed.sent[own], listed.received[own]))
    return Reason::arguments;
  // The core is asked all the same: it counts the calls that it leaves.
  if (left(*team_of(comm, blocking), plan->call) != Reason::none) return Reason::none;
  return make_parcels(listed, sides, exchanges, comm, plan);
}

template Reason plan_parcels(const GathervArgs&, const Comm&, bool, Plan*);
template Reason plan_parcels(const ScattervArgs&, const Comm&, bool, Plan*);
template Reason plan_parcels(const AlltoallvArgs&, const Comm&, bool, Plan*);
template Reason plan_parcels(const AlltoallwArgs&, const Comm&, bool, Plan*);

}  // namespace tutti::mpi
