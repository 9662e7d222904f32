// Calls that a communicator has met before: most programs make few kinds of calls, many times each.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

#include "core/core.hpp"
#include "mpi/plugin/args.hpp"
#include "mpi/plugin/datatype.hpp"
#include "mpi/plugin/native.hpp"
#include "mpi/plugin/sides.hpp"
#include "mpi/plugin/space.hpp"

namespace tutti::mpi {

/// What a record says of a collective beside its bytes and its root (tutti_past::what).
inline std::uint64_t what_of(Coll coll, const Reduction* reduction) noexcept {
  const std::uint64_t op = reduction != nullptr ? reduction->op : Reduction::kNoName;
  const std::uint64_t type = reduction != nullptr ? reduction->type : Reduction::kNoName;
  return static_cast<std::uint64_t>(coll) | op << 8 | type << 16;
}

/// Of one that is left to the MPI.
std::uint64_t what_left(Coll coll) noexcept;
/// With the algorithm of a call that has been run.
std::uint64_t with_algorithm(std::uint64_t what, const Route& route) noexcept;

/// Which sides of a call a rank has, by its arguments.
struct SidesHere {
  bool at_root, sent, received, in_place;

  template <class Args>
  static SidesHere of(const Args& args, int rank) noexcept;
};

/// What is left of a plan (plan.hpp) that packs nothing and has a predefined operator: all but the
/// addresses and the root.
class KnownCall {
 public:
  /// Where the arguments are of this kind, and their buffers such that nobody has to look closer:
  /// the call is in `*call`.
  template <class Args>
  bool fits(const Args& args, const SidesHere& here, int rank, Call* call) const noexcept;
  /// Of arguments with that plan.
  template <class Args>
  void keep(const Args& args, const SidesHere& here, const Call& call,
            const Route& its_route) noexcept;
  /// Where only that is the same for all calls of a kind.
  void keep(Coll coll, const Route& its_route) noexcept {
    what_ = with_algorithm(what_of(coll, nullptr), its_route);
    route_ = its_route;
  }
  const Route& route() const noexcept { return route_; }
  /// Of all such calls, for the record.
  std::uint64_t what() const noexcept { return what_; }

 private:
  template <class Args>
  bool has_elements(const Args& args, const SidesHere& here) const noexcept;
  template <class Args>
  bool set_addresses(const Args& args, const SidesHere& here, int rank, Call* call) const noexcept;

  MPI_Count sent_ = 0, received_ = 0;  // elements
  MPI_Datatype sent_type_{}, received_type_{};
  MPI_Op op_{};
  bool in_place_ = false;
  std::size_t bytes_ = 0;
  const Reduction* reduction_ = nullptr;
  std::uint64_t what_ = 0;
  Route route_;  // of no choice: nothing is kept
};

/// Of one communicator: some for each collective, each in a place that its count and whether the
/// rank is the root give it. As its blocking collectives: never by two threads at a time.
class KnownCalls {
 public:
  /// nullptr where no such call is kept.
  template <class Args>
  const KnownCall* find(const Args& args, int rank, int size, Call* call) const noexcept;
  /// Keeps it, if all its data are what the core takes as they are.
  template <class Args>
  void keep(const Args& args, int rank, const Call& call, const Route& route) noexcept;

  /// Of a collective of which each rank knows but its own counts: all its calls have one route.
  /// nullptr where none is kept.
  const KnownCall* find(Coll coll) const noexcept {
    const auto& known = of_[static_cast<std::size_t>(coll)];
    return known ? &known->front() : nullptr;
  }
  void keep(Coll coll, const Route& route) noexcept {
    if (std::array<KnownCall, kEach>* const known = room(coll)) known->front().keep(coll, route);
  }

 private:
  static constexpr int kCountBits = 2;
  static constexpr std::size_t kEach = std::size_t{2} << kCountBits;
  template <class Args>
  static std::size_t place_of(const Args& args, const SidesHere& here) noexcept;

  /// nullptr where there is no memory.
  std::array<KnownCall, kEach>* room(Coll coll) noexcept {
    auto& known = of_[static_cast<std::size_t>(coll)];
    if (!known) known.reset(new (std::nothrow) std::array<KnownCall, kEach>);
    return known.get();
  }

  std::array<std::unique_ptr<std::array<KnownCall, kEach>>, kColls> of_;
};

/// Lists of counts and displacements: nobody remembers these.
template <class Args>
inline constexpr bool has_lists = has_parcels(Args::kColl) || requires(Args args) {
  args.recvcounts;
};

// ---- inline: every blocking call passes through it

template <class Args>
[[gnu::always_inline]] inline SidesHere SidesHere::of(const Args& args, int rank) noexcept {
  constexpr SidesOf of = sides_of(Args::kColl);
  SidesHere here{};
  if constexpr (requires { args.root; }) here.at_root = rank == args.root;
  here.sent = has(of.sent, here.at_root);
  here.received = has(of.received, here.at_root);
  if constexpr (of.in_place != InPlace::none) {
    constexpr bool sent = of.in_place == InPlace::sent;
    const void* const buffer = sent ? args.sendbuf : args.recvbuf;
    here.in_place = here.sent && here.received && buffer == MPI_IN_PLACE;
    (sent ? here.sent : here.received) &= !here.in_place;
  }
  return here;
}

/// Those that matter on this rank.
template <class Args>
[[gnu::always_inline]] inline bool KnownCall::has_elements(const Args& args,
                                                           const SidesHere& here) const noexcept {
  if constexpr (Args::kColl == Coll::barrier) {
    return true;
  } else if constexpr (requires { args.recvtype; }) {
    return (!here.sent || (sent_ == args.sendcount && sent_type_ == args.sendtype)) &&
           (!here.received || (received_ == args.recvcount && received_type_ == args.recvtype));
  } else {
    const Elements elements = sent_by(args);
    if constexpr (requires { args.op; })
      if (op_ != args.op) return false;
    return sent_ == elements.count && sent_type_ == elements.type;
  }
}

/// As the plan does it. False where an address is wrong here, or may be.
template <class Args>
[[gnu::always_inline]] inline bool KnownCall::set_addresses(const Args& args, const SidesHere& here,
                                                            int rank, Call* call) const noexcept {
  if constexpr (Args::kColl == Coll::barrier) {
    return true;
  } else if constexpr (Args::kColl == Coll::bcast) {
    call->recv = const_cast<void*>(static_cast<const void*>(args.buffer));
    return args.buffer != nullptr && args.buffer != MPI_IN_PLACE;
  } else {
    constexpr SidesOf of = sides_of(Args::kColl);
    constexpr bool reduces = requires { args.op; };
    constexpr bool own_block = !reduces && of.sent.blocks != of.received.blocks;
    const auto suspect = [](const void* buffer) {
      return buffer == nullptr || buffer == MPI_IN_PLACE;
    };
    auto* const send = const_cast<char*>(static_cast<const char*>(args.sendbuf));
    auto* const recv = static_cast<char*>(args.recvbuf);
    if (here.sent && suspect(send)) return false;
    if (here.received && suspect(recv)) return false;
    if (here.sent && here.received && send == recv) return false;
    const std::size_t own = own_block ? static_cast<std::size_t>(rank) * bytes_ : 0;
    if (here.sent) call->send = send;
    if (here.received) call->recv = recv;
    if (here.in_place && of.in_place == InPlace::sent) call->send = recv + own;
    if (here.in_place && of.in_place == InPlace::received) call->recv = send + own;
    return true;
  }
}

template <class Args>
[[gnu::always_inline]] inline bool KnownCall::fits(const Args& args, const SidesHere& here,
                                                   int rank, Call* call) const noexcept {
  if (route_.choice == nullptr || in_place_ != here.in_place || !has_elements(args, here) ||
      !set_addresses(args, here, rank, call))
    return false;
  call->coll = Args::kColl;
  if constexpr (requires { args.root; }) call->root = args.root;
  call->bytes = bytes_;
  if constexpr (requires { args.op; }) call->reduction = reduction_;
  return true;
}

template <class Args>
void KnownCall::keep(const Args& args, const SidesHere& here, const Call& call,
                     const Route& its_route) noexcept {
  in_place_ = here.in_place;
  if constexpr (Args::kColl != Coll::barrier) {
    const Elements sent = sent_by(args), received = received_by(args);
    sent_ = sent.count;
    sent_type_ = sent.type;
    received_ = received.count;
    received_type_ = received.type;
  }
  if constexpr (requires { args.op; }) op_ = args.op;
  bytes_ = call.bytes;
  reduction_ = call.reduction;
  what_ = with_algorithm(what_of(Args::kColl, call.reduction), its_route);
  route_ = its_route;
}

/// Calls of several counts in turn, and a root that changes, have places of their own as a rule.
template <class Args>
[[gnu::always_inline]] inline std::size_t KnownCalls::place_of(const Args& args,
                                                               const SidesHere& here) noexcept {
  if constexpr (Args::kColl == Coll::barrier) {
    return 0;
  } else {
    const auto count =
        static_cast<std::uint64_t>(here.sent ? sent_by(args).count : received_by(args).count);
    constexpr std::uint64_t kSpread = 0x9e3779b97f4a7c15u;
    return 2 * static_cast<std::size_t>((count * kSpread) >> (64 - kCountBits)) + here.at_root;
  }
}

template <class Args>
[[gnu::always_inline]] inline const KnownCall* KnownCalls::find(const Args& args, int rank,
                                                                int size,
                                                                Call* call) const noexcept {
  if constexpr (has_lists<Args>) {
    return nullptr;
  } else {
    const auto& known = of_[static_cast<std::size_t>(Args::kColl)];
    if (!known || (Args::kColl != Coll::barrier && may_have_spaces())) return nullptr;
    if constexpr (requires { args.root; })
      if (args.root < 0 || args.root >= size) return nullptr;
    const SidesHere here = SidesHere::of(args, rank);
    const KnownCall& kept = (*known)[place_of(args, here)];
    return kept.fits(args, here, rank, call) ? &kept : nullptr;
  }
}

/// Whether the core takes the rank's data as they are, whatever the plan has said: a call that was
/// left to the MPI has not been packed either. Other handles than these may come to mean something
/// else.
template <class Args>
bool needs_no_packing(const Args& args, const SidesHere& here) noexcept {
  if constexpr (Args::kColl == Coll::barrier) {
    return true;
  } else {
    const auto is_plain = [](const Elements& elements) {
      const TypeInfo* const type = find_predefined_type(elements.type);
      const bool at_extent = requires { args.op; };  // so reductions take their elements
      return type != nullptr && (type->dense || at_extent);
    };
    return (!here.sent || is_plain(sent_by(args))) &&
           (!here.received || is_plain(received_by(args)));
  }
}

template <class Args>
void KnownCalls::keep(const Args& args, int rank, const Call& call, const Route& route) noexcept {
  if constexpr (!has_lists<Args>) {
    const SidesHere here = SidesHere::of(args, rank);
    if (may_have_spaces() || !needs_no_packing(args, here)) return;
    if constexpr (requires { args.op; })
      if (!is_predefined(args.op)) return;
    if (std::array<KnownCall, kEach>* const known = room(Args::kColl))
      (*known)[place_of(args, here)].keep(args, here, call, route);
  }
}

}  // namespace tutti::mpi
