// The ranks of a communicator, and by which number they know it: all that messages need of one, so
// that it can be made without a word to anybody. A team (team.hpp) is a group that runs
// collectives, too.
#pragma once

#include <cstdint>

namespace tutti {

namespace p2p {
struct Context;  // src/p2p
}

class Group {
 public:
  Group() = default;
  /// `id`: the same on all members and different for every group of the job that ever lives.
  /// `ranks`: job ranks in order, which stay the caller's and must outlive it.
  Group(const std::uint64_t id[2], int rank, int size, const std::int32_t* ranks) noexcept
      : ranks_(ranks), rank_(rank), size_(size), id_{id[0], id[1]} {}
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }
  std::int32_t job_rank(int member) const noexcept { return ranks_[member]; }
  const std::int32_t* job_ranks() const noexcept { return ranks_; }
  const std::uint64_t* id() const noexcept { return id_; }

  p2p::Context* context = nullptr;  // p2p::Contexts'; nullptr: it has had no messages here

 protected:
  const std::int32_t* ranks_ = nullptr;
  int rank_ = 0;
  int size_ = 0;
  std::uint64_t id_[2] = {0, 0};
};

}  // namespace tutti
