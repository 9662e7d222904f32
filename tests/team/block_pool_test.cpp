#include "team/block_pool.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "fabric/shm/shm.hpp"
#include "team/arena_heap.hpp"

namespace tutti {
namespace {

constexpr std::size_t kKiB = 1024, kMiB = kKiB * kKiB;

TEST(RingBytes, AreTwiceTheCoresCacheWithinBounds) {
  EXPECT_EQ(ring_bytes_for(0, true), kMiB);  // not known
  EXPECT_EQ(ring_bytes_for(256 * kKiB, true), kMiB);
  EXPECT_EQ(ring_bytes_for(kMiB, true), 2 * kMiB);  // Zen 4
  EXPECT_EQ(ring_bytes_for(1280 * kKiB, true), 4 * kMiB);
  EXPECT_EQ(ring_bytes_for(64 * kMiB, true), 4 * kMiB);
}

TEST(RingBytes, FitIntoTheCoresCacheWhereTheSharedOneDropsLines) {
  EXPECT_EQ(ring_bytes_for(0, false), kMiB);
  EXPECT_EQ(ring_bytes_for(kMiB, false), kMiB);           // Skylake, Cascade Lake
  EXPECT_EQ(ring_bytes_for(1280 * kKiB, false), kMiB);    // Ice Lake
  EXPECT_EQ(ring_bytes_for(2 * kMiB, false), 2 * kMiB);   // Sapphire Rapids
  EXPECT_EQ(ring_bytes_for(64 * kMiB, false), 4 * kMiB);
}

class Pool : public testing::Test {
 protected:
  static constexpr std::size_t kBlock = std::size_t{64} << 10, kRing = std::size_t{1} << 20;

  void SetUp() override {
    ASSERT_TRUE(shm::ShmFabric::create_threads(1, Settings{}, &fabrics_).ok());
    heap_ = std::make_unique<ArenaHeap>(*fabrics_[0], 0);
    pool_ = std::make_unique<BlockPool>(*heap_, kBlock, kRing);
  }
  Piece take(std::size_t bytes) {
    Piece piece;
    EXPECT_TRUE(pool_->take(bytes, &piece).ok());
    return piece;
  }

  std::vector<std::unique_ptr<shm::ShmFabric>> fabrics_;
  std::unique_ptr<ArenaHeap> heap_;
  std::unique_ptr<BlockPool> pool_;
};

TEST_F(Pool, LeavesAGapBehindEachPiece) {
  for (const std::size_t bytes : {std::size_t{64}, std::size_t{1000}, kBlock / 2, kBlock}) {
    std::vector<std::size_t> begins;
    for (int i = 0; i < 100; ++i) begins.push_back(take(bytes).offset);
    std::sort(begins.begin(), begins.end());
    for (std::size_t i = 1; i < begins.size(); ++i)
      ASSERT_GE(begins[i] - begins[i - 1], bytes + ring_gap(bytes)) << bytes;
  }
}

TEST_F(Pool, ComesBackToTheFirstPieceOnlyAfterTheWholeRing) {
  constexpr std::size_t kBytes = 16384;
  const std::size_t first = take(kBytes).offset;
  std::size_t cut = kBytes;
  for (Piece last{first, 0}; cut < 2 * kRing; cut += kBytes) {
    const Piece next = take(kBytes);
    pool_->give(last);
    last = next;
    if (next.offset == first) break;
  }
  EXPECT_GE(cut, kRing / 2);  // the rest are gaps
  EXPECT_LE(cut, kRing);
}

}  // namespace
}  // namespace tutti
