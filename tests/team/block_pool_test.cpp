#include "team/block_pool.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "fabric/shm/shm.hpp"
#include "team/arena_heap.hpp"

namespace tutti {
namespace {

TEST(RingBytes, AreTwiceTheCoresCacheWithinBounds) {
  EXPECT_EQ(ring_bytes_for(0), std::size_t{1} << 20);  // not known
  EXPECT_EQ(ring_bytes_for(std::size_t{256} << 10), std::size_t{1} << 20);
  EXPECT_EQ(ring_bytes_for(std::size_t{1} << 20), std::size_t{2} << 20);
  EXPECT_EQ(ring_bytes_for(std::size_t{1280} << 10), std::size_t{4} << 20);  // Ice Lake
  EXPECT_EQ(ring_bytes_for(std::size_t{64} << 20), std::size_t{4} << 20);
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
