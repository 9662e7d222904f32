// The serial model of every collective, and one rank's buffers for a call: what tests of
// collectives on any fabric compare with.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "coll/parcels.hpp"
#include "select/select.hpp"

namespace tutti::test {

/// Bits that look random, of a counter: so any part of what a rank has can be had by itself.
inline std::uint32_t bits_of(std::uint32_t counter) {
  counter = (counter ^ (counter >> 16)) * 0x85ebca6bu;
  counter = (counter ^ (counter >> 13)) * 0xc2b2ae35u;
  return counter ^ (counter >> 16);
}

/// What the collective must give at `rank`, from the inputs of all ranks. Elements are 32-bit
/// integers and the reduction is a wrapping sum.
class Model {
 public:
  Model(Coll coll, int size, int root, std::size_t count, std::uint64_t round)
      : coll_(coll), size_(size), root_(root), count_(count), round_(round) {}
  /// Of listed blocks. Those of a reduce-scatter grow and shrink, and some are empty.
  std::size_t v_count(int rank) const {
    const auto r = static_cast<std::size_t>(rank);
    if (coll_ == Coll::reduce_scatter) return r % 3 == 2 ? 0 : count_ * (r % 4 + 1) / 3;
    return count_ / (r + 1);
  }
  /// Where a block of a reduce-scatter begins.
  std::size_t begin(int rank) const {
    std::size_t sum = 0;
    for (int r = 0; r < rank; ++r) sum += v_count(r);
    return sum;
  }
  /// Of collectives with counts that differ: what `from` sends to `to`; every third pair nothing.
  std::size_t pair_count(int from, int to) const {
    const bool sends = coll_ != Coll::scatterv || from == root_;
    const bool receives = coll_ != Coll::gatherv || to == root_;
    const auto mix = static_cast<std::size_t>(5 * from + 7 * to) + count_;
    return sends && receives && mix % 3 != 0 ? count_ / (mix % 4 + 1) : 0;
  }
  /// Elements that lie before those for `to`, or from `from`.
  std::size_t sent_before(int from, int to) const {
    std::size_t sum = 0;
    for (int i = 0; i < to; ++i) sum += pair_count(from, i);
    return sum;
  }
  std::size_t received_before(int to, int from) const {
    std::size_t sum = 0;
    for (int i = 0; i < from; ++i) sum += pair_count(i, to);
    return sum;
  }
  /// How many elements a rank sends.
  std::size_t send_count(int rank) const {
    if (has_parcels(coll_)) return sent_before(rank, size_);
    if (coll_ == Coll::allgatherv) return v_count(rank);
    if (coll_ == Coll::reduce_scatter) return begin(size_);
    const bool vector_of_blocks =
        coll_ == Coll::scatter || coll_ == Coll::alltoall || coll_ == Coll::reduce_scatter_block;
    return vector_of_blocks ? count_ * static_cast<std::size_t>(size_) : count_;
  }
  std::vector<std::int32_t> input(int rank) const { return part(rank, 0, send_count(rank)); }

  /// Of the first `ranks` ranks.
  std::vector<std::int32_t> sum_of(int ranks, std::size_t begin, std::size_t count) const {
    std::vector<std::uint32_t> total(count, 0);
    for (int rank = 0; rank < ranks; ++rank) {
      const std::uint32_t first = counter_of(rank, begin);
      for (std::size_t i = 0; i < count; ++i)
        total[i] += bits_of(first + static_cast<std::uint32_t>(i));
    }
    return {total.begin(), total.end()};
  }
  std::vector<std::int32_t> sum(std::size_t begin, std::size_t count) const {
    return sum_of(size_, begin, count);
  }
  std::vector<std::int32_t> expected(int rank) const {
    const auto own = static_cast<std::size_t>(rank) * count_;
    switch (coll_) {
      case Coll::bcast:
        return input(root_);
      case Coll::reduce:
        return rank == root_ ? sum(0, count_) : std::vector<std::int32_t>{};
      case Coll::allreduce:
        return sum(0, count_);
      case Coll::reduce_scatter_block:
        return sum(own, count_);
      case Coll::reduce_scatter:
        return sum(begin(rank), v_count(rank));
      case Coll::scan:
        return sum_of(rank + 1, 0, count_);
      case Coll::exscan:
        return rank == 0 ? std::vector<std::int32_t>{} : sum_of(rank, 0, count_);
      case Coll::gather:
        if (rank != root_) return {};
        [[fallthrough]];
      case Coll::allgather:
      case Coll::allgatherv: {
        std::vector<std::int32_t> all;
        for (int from = 0; from < size_; ++from) add_part(from, 0, send_count(from), &all);
        return all;
      }
      case Coll::scatter:
        return part(root_, own, count_);
      case Coll::alltoall: {
        std::vector<std::int32_t> all;
        for (int from = 0; from < size_; ++from) add_part(from, own, count_, &all);
        return all;
      }
      case Coll::gatherv:
      case Coll::scatterv:
      case Coll::alltoallv:
      case Coll::alltoallw: {
        std::vector<std::int32_t> all;
        for (int from = 0; from < size_; ++from)
          add_part(from, sent_before(from, rank), pair_count(from, rank), &all);
        return all;
      }
      default:
        return {};
    }
  }
  Coll coll() const { return coll_; }
  int size() const { return size_; }
  int root() const { return root_; }
  std::size_t count() const { return count_; }

 private:
  /// Of element `begin` of what a rank sends in this round.
  std::uint32_t counter_of(int rank, std::size_t begin) const {
    const auto of_rank = static_cast<std::uint32_t>(rank) * 1000003u;
    const auto of_round = static_cast<std::uint32_t>(round_) * 0x9e3779b9u;
    return of_rank + of_round + static_cast<std::uint32_t>(begin);
  }
  void add_part(int rank, std::size_t begin, std::size_t count,
                std::vector<std::int32_t>* to) const {
    const std::uint32_t first = counter_of(rank, begin);
    const std::size_t before = to->size();
    to->resize(before + count);
    for (std::size_t i = 0; i < count; ++i)
      (*to)[before + i] =
          static_cast<std::int32_t>(bits_of(first + static_cast<std::uint32_t>(i)));
  }
  std::vector<std::int32_t> part(int rank, std::size_t begin, std::size_t count) const {
    std::vector<std::int32_t> values;
    add_part(rank, begin, count, &values);
    return values;
  }
  Coll coll_;
  int size_;
  int root_;
  std::size_t count_;
  std::uint64_t round_;
};

/// The buffers and the call of one rank. In place as Call says.
struct Case {
  std::vector<std::int32_t> send, recv, before;
  std::vector<std::size_t> counts, displs;
  std::size_t result_begin = 0;
  std::shared_ptr<Parcels> parcels;
  Call call;

  Case(const Model& model, int rank, bool in_place, const Reduction& reduction) {
    const Coll coll = model.coll();
    const std::size_t count = model.count();
    const auto size = static_cast<std::size_t>(model.size());
    call.coll = coll;
    call.root = model.root();
    call.bytes = coll == Coll::barrier ? 0 : count * 4;
    call.reduction = &reduction;
    send = model.input(rank);
    std::size_t own = 0;  // where the own block lies in the receive buffer
    if (coll == Coll::allgatherv) {
      std::size_t total = 0;
      for (int r = 0; r < model.size(); ++r) {
        counts.push_back(model.v_count(r) * 4);
        displs.push_back(total * 4);
        if (r == rank) own = total;
        total += model.v_count(r);
      }
      call.bytes = total * 4;
      call.counts = counts.data();
      call.displs = displs.data();
      recv.assign(total, -1);
    } else if (coll == Coll::reduce_scatter) {
      for (int r = 0; r < model.size(); ++r) counts.push_back(model.v_count(r) * 4);
      call.bytes = model.begin(model.size()) * 4;
      call.counts = counts.data();
      recv.assign(model.begin(model.size()), -1);
    } else if (has_parcels(coll)) {
      describe_parcels(model, rank, in_place);
      return;
    } else if (coll == Coll::allgather || coll == Coll::alltoall || coll == Coll::gather) {
      recv.assign(count * size, -1);
      own = static_cast<std::size_t>(rank) * count;
    } else {
      recv.assign(coll == Coll::reduce_scatter_block ? count * size : count, -1);
    }
    call.send = send.data();
    call.recv = recv.data();
    const bool root = rank == model.root();
    if (coll == Coll::bcast) {
      if (root) recv = send;
      call.recv = recv.data();
    } else if (in_place) {
      if (coll == Coll::scatter) {
        if (root) {
          result_begin = static_cast<std::size_t>(rank) * count;
          call.recv = send.data() + result_begin;
        }
      } else if ((coll != Coll::gather && coll != Coll::reduce) || root) {
        const std::size_t place =
            coll == Coll::allgather || coll == Coll::allgatherv || coll == Coll::gather ? own : 0;
        std::copy(send.begin(), send.end(), recv.begin() + static_cast<std::ptrdiff_t>(place));
        call.send = recv.data() + place;
      }
    }
    before = recv;
  }
  void describe_parcels(const Model& model, int rank, bool in_place);
  /// What has been received; where something else has been overwritten as well, all of it.
  std::vector<std::int32_t> result(std::size_t length) const {
    const bool has_rest = call.coll == Coll::reduce_scatter || call.coll == Coll::exscan;
    const auto rest = static_cast<std::ptrdiff_t>(length);
    if (has_rest && !std::equal(recv.begin() + rest, recv.end(), before.begin() + rest))
      return recv;
    const auto* begin = static_cast<const std::int32_t*>(
        call.recv == recv.data() ? static_cast<const void*>(recv.data()) : call.recv);
    if (call.coll == Coll::allgather || call.coll == Coll::gather) begin = recv.data();
    return {begin, begin + length};
  }
};

/// In place, what a rank keeps for itself is there already.
inline void Case::describe_parcels(const Model& model, int rank, bool in_place) {
  call.bytes = 0;
  recv.assign(model.received_before(rank, model.size()), -1);
  parcels = std::make_shared<Parcels>(rank, model.size());
  for (int i = 0; i < model.size(); ++i) {
    std::int32_t* from = send.data() + model.sent_before(rank, i);
    std::int32_t* const to = recv.data() + model.received_before(rank, i);
    if (i == rank && in_place) {
      std::copy(from, from + model.pair_count(rank, rank), to);
      from = to;
    }
    parcels->send(i, from, model.pair_count(rank, i) * 4);
    parcels->receive(i, to, model.pair_count(i, rank) * 4);
  }
  parcels->arrange();
  call.parcels = parcels.get();
  call.send = send.data();
  call.recv = recv.data();
}

struct Combination {
  const Algorithm* algorithm;
  std::string forced;
};

/// Every algorithm of the list, with some parameters.
inline std::vector<Combination> combinations() {
  std::vector<Combination> all;
  for (const Algorithm* const one : algorithms()) {
    const Algorithm& algorithm = *one;
    const std::string base = std::string(name(algorithm.coll)) + "=" + algorithm.name;
    all.push_back({&algorithm, base});
    if (algorithm.parameters[0].name == nullptr) continue;
    // All four run the same code: one of them with other parameters is enough.
    if (has_parcels(algorithm.coll) && algorithm.coll != Coll::alltoallv) continue;
    const std::string key = algorithm.parameters[0].name;
    if (key == "overlap") {
      for (const char* more : {":overlap=0", ":drivers=3"})
        all.push_back({&algorithm, base + more});
    } else if (key == "radix") {
      for (const char* radix : {"3", "16"}) all.push_back({&algorithm, base + ":radix=" + radix});
    } else if (key == "degree") {
      for (const char* degree : {"1", "7", "15"})
        all.push_back({&algorithm, base + ":degree=" + degree});
    } else if (key == "chords") {
      for (const char* chords : {"2", "32"})
        all.push_back({&algorithm, base + ":chords=" + chords});
    } else if (key == "window") {
      all.push_back({&algorithm, base + ":window=24"});
    } else if (key != "timeout") {
      all.push_back({&algorithm, base + ":" + key + "=1024"});
    }
    for (const Parameter& further : algorithm.parameters) {
      if (further.name == nullptr) continue;
      if (std::string(further.name) == "early")
        all.push_back({&algorithm, base + ":block=1024:degree=3:early=1"});
      if (std::string(further.name) == "down")
        all.push_back({&algorithm, base + ":degree=7:down=7"});
    }
  }
  return all;
}

/// All roots where they differ and are few; else first, last and one that moves with the round.
inline std::vector<int> roots(Coll coll, int size, std::uint64_t round) {
  const bool rooted = coll == Coll::bcast || coll == Coll::reduce || coll == Coll::gather ||
                      coll == Coll::scatter || coll == Coll::gatherv || coll == Coll::scatterv;
  if (!rooted) return {0};
  std::vector<int> some = {0};
  if (size > 1) some.push_back(size - 1);
  if (size > 2) some.push_back(1 + static_cast<int>(round % static_cast<std::uint64_t>(size - 2)));
  return some;
}

}  // namespace tutti::test
