// copy_bytes: all of the block, nothing but the block, at any alignment.
#include "base/copy.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "base/copy_kernel.hpp"
#include "base/copy_shared.hpp"
#include "base/cpu.hpp"
#include "base/demote.hpp"
#include "base/store_choice.hpp"
#include "random_seed.hpp"

namespace tutti {
namespace {

constexpr std::size_t kGuard = 128;
constexpr std::size_t kPage = 4096;

/// Copies `bytes` between the given offsets into a page, and looks at every byte.
template <class Copy>
::testing::AssertionResult copies(Copy&& copy, std::size_t bytes, std::size_t from_offset,
                                  std::size_t to_offset) {
  std::vector<std::uint8_t> source(bytes + 2 * kPage), target(bytes + 2 * kPage + 2 * kGuard, 0xee);
  for (std::size_t i = 0; i < source.size(); ++i) {
    source[i] = static_cast<std::uint8_t>(i * 7 + i / 251);
  }
  const auto place = [](std::vector<std::uint8_t>& block, std::size_t guard, std::size_t offset) {
    const auto start = reinterpret_cast<std::uintptr_t>(block.data()) + guard;
    return block.data() + guard + (kPage - start % kPage) % kPage + offset;
  };
  const std::uint8_t* from = place(source, 0, from_offset);
  std::uint8_t* to = place(target, kGuard, to_offset);
  copy(to, from, bytes);
  if (!std::equal(from, from + bytes, to)) {
    return ::testing::AssertionFailure() << "wrong bytes";
  }
  const auto untouched = [](std::uint8_t byte) { return byte == 0xee; };
  if (!std::all_of(target.data(), to, untouched) ||
      !std::all_of(to + bytes, target.data() + target.size(), untouched)) {
    return ::testing::AssertionFailure() << "wrote outside";
  }
  return ::testing::AssertionSuccess();
}

TEST(Copy, IsRightForEveryLengthAroundTheThresholdAndNone) {
  EXPECT_TRUE(copies(copy_bytes, 0, 0, 0));
  for (std::size_t bytes = 1; bytes < 70; ++bytes) EXPECT_TRUE(copies(copy_bytes, bytes, 3, 5));
  for (std::size_t bytes = kSmallCopy - 2; bytes < kSmallCopy + 300; ++bytes) {
    ASSERT_TRUE(copies(copy_bytes, bytes, bytes % 61, bytes % 67)) << bytes;
  }
  EXPECT_TRUE(copies(copy_bytes, (std::size_t{3} << 20) + 17, 16, 1));
}

TEST(Copy, AcceptsNullForNothing) { copy_bytes(nullptr, nullptr, 0); }

TEST(Copy, IsRightAtEveryAlignmentWithEveryInstructionSet) {
  std::uint64_t random = testing::random_seed();
  for (const Isa isa : {Isa::baseline, Isa::avx2, Isa::avx512}) {
    if (isa > widest_isa()) continue;
    for (std::size_t from = 0; from < 64; from += 1) {
      for (std::size_t to = 0; to < 64; to += 7) {
        random = random * 6364136223846793005 + 1442695040888963407;
        const std::size_t bytes = kSmallCopy + 1 + (random >> 33) % 600;
        for (const CopyFunction copy : {find_copy_kernel(isa), find_streaming_copy_kernel(isa)}) {
          ASSERT_TRUE(copies(copy, bytes, from, to + from % 7))
              << name(isa) << ": " << bytes << " bytes from " << from << " to " << to + from % 7;
        }
      }
    }
  }
}

TEST(Copy, OfStringsAtAnyAlignment) {
  if (!has_string_copy()) GTEST_SKIP() << "the processor has no fast string copies";
  for (std::size_t from = 0; from < 64; from += 3) {
    for (std::size_t to = 0; to < 64; to += 7) {
      for (const std::size_t bytes : {std::size_t{1}, std::size_t{63}, 4096 + from + 5 * to})
        ASSERT_TRUE(copies(copy_string, bytes, from, to)) << bytes;
    }
  }
}

TEST(Copy, TakesStringsNotWhereTheDestinationIsALittleFurtherInItsPage) {
  alignas(4096) static char memory[3 * 4096];
  EXPECT_TRUE(copies_strings_well(memory, memory + 4096));
  EXPECT_TRUE(copies_strings_well(memory, memory + 4096 + 16));
  EXPECT_FALSE(copies_strings_well(memory + 16, memory + 4096));
  EXPECT_FALSE(copies_strings_well(memory + 4096 + 79, memory + 16));
  EXPECT_TRUE(copies_strings_well(memory + 64, memory + 4096));
}

TEST(CopyToShared, IsRightWhicheverStoresItTries) {
  const auto whole = [](void* to, const void* from, std::size_t bytes) {
    copy_to_shared(to, from, bytes);
  };
  for (int turn = 0; turn < 300; ++turn) {
    for (const std::size_t bytes : {100, 2047, 2048, 4095, 4096, 9001, 16384, 40009})
      ASSERT_TRUE(copies(whole, bytes, turn % 61, turn % 67)) << bytes;
  }
}

using Counts = std::array<int, kStores>;

/// Copies of which each kind costs so much a byte: how many of `copies` each kind has made.
Counts made(StoreChoice& choice, int copies, const std::array<float, kStores>& costs) {
  Counts counts{};
  for (int i = 0; i < copies; ++i) {
    const StoreChoice::Decision decision = choice.next();
    const auto kind = static_cast<std::size_t>(decision.stores);
    ++counts[kind];
    if (decision.timed) choice.record(decision.stores, costs[kind]);
  }
  return counts;
}

/// The same without string copies: how many streamed.
int streamed(StoreChoice& choice, int copies, float cached, float streaming) {
  const Counts counts = made(choice, copies, {cached, streaming, 0});
  EXPECT_EQ(counts[2], 0);
  return counts[1];
}

TEST(StoreChoice, FollowsWhatIsCheaperAndTriesTheOtherSeldom) {
  StoreChoice choice(2, 0);
  EXPECT_LE(streamed(choice, 10000, 1, 0.7F), 100);  // cheaper, but not by the factor
  streamed(choice, 200, 4, 0.7F);                    // the cores move apart
  EXPECT_GE(streamed(choice, 10000, 4, 0.7F), 9600);
  streamed(choice, 200, 1, 0.7F);  // and together again
  EXPECT_LE(streamed(choice, 10000, 1, 0.7F), 100);
}

TEST(StoreChoice, IsNotChangedByOneInterruptedCopy) {
  StoreChoice choice(2, 0);
  streamed(choice, 1000, 1, 1);
  choice.record(Stores::cached, 1e6F);
  EXPECT_LE(streamed(choice, 1000, 1, 1), 20);
}

TEST(StoreChoice, TakesStringsWhereTheyAreCheapest) {
  StoreChoice choice(2, 1);
  made(choice, 200, {1, 1, 0.8F});
  Counts counts = made(choice, 10000, {1, 1, 0.8F});
  EXPECT_GE(counts[2], 9800);
  EXPECT_GE(counts[0], 70);  // the others are still tried
  EXPECT_GE(counts[1], 70);
  made(choice, 400, {1, 1, 3});
  counts = made(choice, 10000, {1, 1, 3});
  EXPECT_GE(counts[0], 9800);
  EXPECT_EQ(choice.best_vectors(), Stores::cached);
  made(choice, 400, {9, 1, 3});
  EXPECT_EQ(choice.best_vectors(), Stores::streaming);
  counts = made(choice, 10000, {9, 1, 3});  // the cheapest even with its reader's part
  EXPECT_GE(counts[1], 9300);
}

// The kernel's word for it; older ones do not name it.
TEST(Demote, IsUsedWhereTheProcessorHasIt) {
  std::ifstream info("/proc/cpuinfo");
  bool named = false;
  for (std::string word; info >> word;) named = named || word == "cldemote";
  EXPECT_TRUE(can_demote() || !named);
}

// Where it has not, it is an instruction that does nothing.
TEST(Demote, LeavesEveryByteAsItWas) {
  std::vector<std::byte> data(3 * kPage);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i * 7 + i / 251);
  const std::vector<std::byte> before = data;
  for (std::size_t offset = 0; offset < 130; ++offset) {
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{64}, kPage})
      demote(data.data() + offset, data.data() + offset + bytes);
  }
  EXPECT_EQ(data, before);
}

}  // namespace
}  // namespace tutti
