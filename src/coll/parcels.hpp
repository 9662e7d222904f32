// What one rank sends and receives in a collective of which each rank knows but its own counts.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/status.hpp"
#include "coll/call.hpp"

namespace tutti {

/// Bytes that this rank has for a member, or expects of it.
struct Parcel {
  int member;
  std::size_t bytes;
  std::byte* data;  // of one that is sent: only read
};

/// The parcels of one rank, by distance: at distance d it sends to member rank + d and receives
/// from member rank - d (modulo the number of members), so that not all turn to the same one at
/// once. Parcels of no bytes are none. Several for one member meet in their order; of a collective
/// of neighbours no more than kMostEach.
///
/// The memory that they describe belongs to the caller; what is sent and what is received must not
/// overlap, but for what a rank keeps for itself at one address. One thread at a time.
class Parcels {
 public:
  /// For one other member, in collectives of neighbours: tables are large enough for so many.
  static constexpr std::size_t kMostEach = 4;

  Parcels(int rank, int size) noexcept : rank_(rank), size_(size) {}

  /// Of a rank where all that is sent is as long: `bytes` for each pair, in rank order at `send`
  /// and `recv`; between neighbours, for those of a ring. Arranged.
  static Parcels even(Coll coll, int root, int rank, int size, const void* send, void* recv,
                      std::size_t bytes);

  /// Back to none, with the memory for as many as there were.
  void clear() noexcept {
    sent_.clear();
    received_.clear();
    kept_ = kept_here_ = 0;
  }
  // Throw std::bad_alloc. After the last of them: arrange(), or arrange_added().
  void send(int member, const void* data, std::size_t bytes) {
    if (bytes != 0)
      sent_.push_back({member, bytes, const_cast<std::byte*>(static_cast<const std::byte*>(data))});
  }
  void receive(int member, void* data, std::size_t bytes) {
    if (bytes != 0) received_.push_back({member, bytes, static_cast<std::byte*>(data)});
  }
  /// Puts them in order.
  void arrange();
  /// The same where they have been added in order.
  void arrange_added() noexcept {
    kept_ = own_of(sent_);
    kept_here_ = own_of(received_);
  }

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }
  /// To others, and from others.
  std::span<const Parcel> sent() const noexcept { return std::span(sent_).subspan(kept_); }
  std::span<const Parcel> received() const noexcept {
    return std::span(received_).subspan(kept_here_);
  }
  /// What the rank sends, to itself, too.
  std::size_t bytes_sent() const noexcept {
    std::size_t sum = 0;
    for (const Parcel& parcel : sent_) sum += parcel.bytes;
    return sum;
  }
  /// How far it is to the receiver of a parcel, and from the sender of one.
  int distance_to(const Parcel& sent) const noexcept {
    return apart(rank_, sent.member);
  }
  int distance_from(const Parcel& received) const noexcept {
    return apart(received.member, rank_);
  }

  /// The first parcel from another member, nullptr: there is none. Those that follow it may be of
  /// the same one.
  const Parcel* first_from(int member) const noexcept;
  /// Whether there is one for the same member `before` places before it.
  static bool same_member(std::span<const Parcel> parcels, std::size_t index,
                          std::size_t before) noexcept {
    return index >= before && parcels[index - before].member == parcels[index].member;
  }

  /// Calls visit(to, from, bytes) for what the rank keeps for itself. Fails where that is more than
  /// it expects.
  template <class Visit>
  Status each_own(Visit&& visit) const {
    for (std::size_t i = 0; i < kept_; ++i) {
      if (i >= kept_here_ || sent_[i].bytes > received_[i].bytes)
        return Status::error(Code::truncated, "this rank sends itself more than it expects");
      visit(received_[i].data, sent_[i].data, sent_[i].bytes);
    }
    return Status::success();
  }
  /// Copies that, on a team of one, as far as there is room.
  void deliver_own() const noexcept;

 private:
  int apart(int from, int to) const noexcept { return to >= from ? to - from : to - from + size_; }

  /// How many at the front are for this rank.
  std::size_t own_of(const std::vector<Parcel>& parcels) const noexcept {
    std::size_t own = 0;
    while (own < parcels.size() && parcels[own].member == rank_) ++own;
    return own;
  }

  int rank_, size_;
  std::vector<Parcel> sent_, received_;
  std::size_t kept_ = 0, kept_here_ = 0;  // how many of them are this rank's own: the first ones
};

}  // namespace tutti
