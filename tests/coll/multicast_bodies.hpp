// What the tests of multicast do, over whichever network.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "support/local_jobs.hpp"

namespace tutti::test {

inline std::vector<std::uint8_t> message_of(int round, std::size_t bytes) {
  std::vector<std::uint8_t> message(bytes);
  for (std::size_t i = 0; i < bytes; ++i)
    message[i] = static_cast<std::uint8_t>(static_cast<std::size_t>(round) * 131 + i * 7 + i / 251);
  return message;
}

/// Compares every byte.
inline void broadcast(Rank& r, int root, std::size_t bytes, int round) {
  const auto message = message_of(round, bytes);
  std::vector<std::uint8_t> buffer = message;
  if (r.rank != root) std::fill(buffer.begin(), buffer.end(), std::uint8_t{0xee});
  Call call;
  call.coll = Coll::bcast;
  call.root = root;
  call.recv = buffer.data();
  call.bytes = bytes;
  const Status status = r.job.run(r.team, call);
  ASSERT_TRUE(status.ok()) << name(status.code) << ": "
                           << (status.detail != nullptr ? status.detail : "") << ", rank " << r.rank
                           << " root " << root << " bytes " << bytes;
  ASSERT_EQ(buffer, message) << "rank " << r.rank << " root " << root << " bytes " << bytes;
}

inline Reduction sum_of_ints() {
  Reduction reduction;
  EXPECT_TRUE(find_reduction(Op::sum, Type::i32, &reduction));
  return reduction;
}

/// Allgather and allreduce by multicast, several sizes, every element.
inline void cast_blocks(Rank& r) {
  const auto size = static_cast<std::size_t>(r.size);
  for (const std::size_t count : {1, 3, 5000, 70'001}) {
    std::vector<std::int32_t> mine(count), all(count * size), sum(count);
    for (std::size_t i = 0; i < count; ++i) mine[i] = static_cast<std::int32_t>(i) * (r.rank + 1);
    Call call;
    call.coll = Coll::allgather;
    call.send = mine.data();
    call.recv = all.data();
    call.bytes = count * sizeof(std::int32_t);
    ASSERT_STREQ(r.job.algorithm(r.team, call), "multicast");
    ASSERT_TRUE(r.job.run(r.team, call).ok());
    const Reduction reduction = sum_of_ints();
    call.coll = Coll::allreduce;
    call.recv = sum.data();
    call.reduction = &reduction;
    ASSERT_STREQ(r.job.algorithm(r.team, call), "multicast");
    ASSERT_TRUE(r.job.run(r.team, call).ok());
    for (std::size_t i = 0; i < count; ++i) {
      for (std::size_t rank = 0; rank < size; ++rank)
        ASSERT_EQ(all[rank * count + i], static_cast<std::int32_t>(i * (rank + 1)));
      ASSERT_EQ(sum[i], static_cast<std::int32_t>(i * size * (size + 1) / 2));
    }
  }
}

}  // namespace tutti::test
