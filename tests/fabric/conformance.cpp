#include "fabric/conformance.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "../base/random_seed.hpp"

namespace tutti::test {

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Conformance);

void Conformance::run(int ranks, const NodeBody& body) {
  const std::vector<Outcome> all = outcomes(ranks, body);
  ASSERT_EQ(all.size(), static_cast<std::size_t>(ranks)) << "the world could not be made";
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    EXPECT_TRUE(all[rank].status.ok() && !all[rank].died)
        << "rank " << rank << ": " << name(all[rank].status.code) << ": "
        << (all[rank].status.detail != nullptr ? all[rank].status.detail : "");
  }
}

namespace {

constexpr std::size_t kData = Node::kControlBytes;  // where the tests' part of the arenas begins
constexpr std::size_t kMiB = std::size_t{1} << 20;

bool refused(const Status& status) {
  return status.code == Code::truncated || status.code == Code::invalid_argument;
}

/// Bytes that differ by seed and place.
std::byte pattern(std::uint64_t seed, std::size_t i) {
  return static_cast<std::byte>((seed * 0x9e3779b97f4a7c15 + i * 0x100000001b3) >> 24);
}
std::vector<std::byte> patterned(std::uint64_t seed, std::size_t bytes) {
  std::vector<std::byte> data(bytes);
  for (std::size_t i = 0; i < bytes; ++i) data[i] = pattern(seed, i);
  return data;
}
/// First place where `data` differs from the pattern, or `bytes`.
std::size_t differs(const std::byte* data, std::uint64_t seed, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) {
    if (data[i] != pattern(seed, i)) return i;
  }
  return bytes;
}
std::size_t differs_from(const std::byte* data, std::byte value, std::size_t bytes) {
  return static_cast<std::size_t>(
      std::find_if(data, data + bytes, [&](std::byte b) { return b != value; }) - data);
}

// ---- memory
// --------------------------------------------------------------------------------------

Task arenas(Node& n) {
  EXPECT_GT(std::strlen(n.fabric.traits().name), 0u);
  Region& arena = n.fabric.arena();
  TUTTI_REQUIRE(arena.base != nullptr && arena.bytes >= 16 * kMiB);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(arena.base) % kCacheLine, 0u);

  // Zeroed; reserving twice, overlapping, nothing at all, and more than there is.
  TUTTI_REQUIRE_OK(n.fabric.reserve(kData, 2 * kMiB));
  EXPECT_EQ(differs_from(n.arena() + kData, std::byte{0}, 2 * kMiB), 2 * kMiB);
  TUTTI_REQUIRE_OK(n.fabric.reserve(kData, 2 * kMiB));
  TUTTI_REQUIRE_OK(n.fabric.reserve(kData + kMiB, 2 * kMiB));
  TUTTI_REQUIRE_OK(n.fabric.reserve(arena.bytes, 0));
  EXPECT_EQ(n.fabric.reserve(arena.bytes, 1).code, Code::no_memory);
  EXPECT_EQ(n.fabric.reserve(kData, arena.bytes).code, Code::no_memory);
  EXPECT_EQ(n.fabric.reserve(~std::size_t{0}, 2).code, Code::no_memory);
  EXPECT_EQ(n.fabric.reserve(1, ~std::size_t{0}).code, Code::no_memory);
  std::memset(n.arena() + kData, 0x5a + n.rank(), 3 * kMiB);
  TUTTI_REQUIRE_OK(n.fabric.reserve(kData, kMiB));  // must not clear
  EXPECT_EQ(differs_from(n.arena() + kData, static_cast<std::byte>(0x5a + n.rank()), 3 * kMiB),
            3 * kMiB);
  TUTTI_REQUIRE_OK(co_await outcome(n.barrier()));

  for (int peer = 0; peer < n.size(); ++peer) {
    Remote remote;
    TUTTI_REQUIRE_OK(n.fabric.arena_of(peer, &remote));
    EXPECT_EQ(remote.peer, peer);
    EXPECT_EQ(remote.bytes, arena.bytes);
    EXPECT_EQ(remote.mapped != nullptr, n.fabric.maps(peer));
    std::vector<std::byte> seen(64);
    Completion completion;
    TUTTI_REQUIRE_OK(n.fabric.get(remote, kData + 100, seen.data(), seen.size(), &completion));
    TUTTI_REQUIRE_OK(co_await outcome(n.completed(completion)));
    EXPECT_EQ(differs_from(seen.data(), static_cast<std::byte>(0x5a + peer), seen.size()),
              seen.size());
  }
  for (const int stranger : {-1, n.size(), 1 << 30}) {
    Remote remote;
    remote.peer = 77;
    EXPECT_FALSE(n.fabric.arena_of(stranger, &remote).ok()) << stranger;
    EXPECT_EQ(remote.peer, 77) << "set although it failed";
    EXPECT_FALSE(n.fabric.maps(stranger)) << stranger;
  }
  co_await n.barrier();
  co_return Status::success();
}

TEST_P(Conformance, ArenasAreZeroedReservedAndReachedByAll) { run(3, arenas); }

/// Exposes memory, sends its key around, and checks what the key is good for on every other rank.
Task check_keys(Node& n, std::byte* memory, std::size_t bytes) {
  Region region;
  TUTTI_REQUIRE_OK(n.fabric.expose(memory, bytes, &region));
  EXPECT_EQ(region.base, memory);
  EXPECT_EQ(region.bytes, bytes);
  for (int peer = 0; peer < n.size(); ++peer) {
    if (peer != n.rank()) TUTTI_REQUIRE_OK(n.send(peer, &region.key, sizeof region.key));
  }
  for (int peer = 0; peer < n.size(); ++peer) {
    if (peer == n.rank()) continue;
    Key key;
    TUTTI_REQUIRE_OK(co_await outcome(n.receive(peer, &key, sizeof key)));
    Remote remote;
    TUTTI_REQUIRE_OK(n.fabric.attach(peer, key, &remote));
    EXPECT_EQ(remote.peer, peer);
    EXPECT_EQ(remote.bytes, bytes);

    const Remote untouched = remote;
    for (const int wrong : {-1, n.size(), (peer + 1) % n.size()}) {
      EXPECT_FALSE(n.fabric.attach(wrong, key, &remote).ok())
          << "a key of " << peer << " as one of " << wrong;
    }
    for (int bit = 0; bit < 256; ++bit) {
      Key altered = key;
      altered.words[bit / 64] ^= std::uint64_t{1} << (bit % 64);
      EXPECT_TRUE(refused(n.fabric.attach(peer, altered, &remote))) << "bit " << bit << " altered";
    }
    EXPECT_TRUE(refused(n.fabric.attach(peer, Key{}, &remote)));
    Key cut = key;  // as if the message with the key had ended early
    cut.words[3] = cut.words[2] = 0;
    EXPECT_TRUE(refused(n.fabric.attach(peer, cut, &remote)));
    EXPECT_EQ(remote.handle, untouched.handle);
    EXPECT_EQ(remote.peer, untouched.peer) << "set although it failed";
  }
  TUTTI_REQUIRE_OK(co_await outcome(n.barrier()));
  n.fabric.withdraw(region);
  co_return Status::success();
}

Task keys(Node& n) {
  TUTTI_REQUIRE_OK(n.fabric.reserve(kData, kMiB));
  TUTTI_REQUIRE_OK(co_await outcome(check_keys(n, n.arena() + kData + 128, 1000)));
  TUTTI_REQUIRE_OK(co_await outcome(n.barrier()));
  std::vector<std::byte> user(5000);
  if (n.fabric.traits().user_memory) {
    TUTTI_REQUIRE_OK(co_await outcome(check_keys(n, user.data() + 3, 4000)));
  } else {
    Region region;
    const Status status = n.fabric.expose(user.data(), user.size(), &region);
    EXPECT_TRUE(status.ok() || status.code == Code::not_permitted ||
                status.code == Code::unsupported);
    if (status.ok()) n.fabric.withdraw(region);
  }
  co_await n.barrier();
  co_return Status::success();
}

TEST_P(Conformance, KeysTravelAndAlteredOnesAreRefused) { run(3, keys); }

Task exposures(Node& n) {
  TUTTI_REQUIRE_OK(n.fabric.reserve(kData, kMiB));
  std::byte* const memory = n.arena() + kData;
  // The same memory twice, parts of it, and none.
  Region whole, again, part, none;
  TUTTI_REQUIRE_OK(n.fabric.expose(memory, 4096, &whole));
  TUTTI_REQUIRE_OK(n.fabric.expose(memory, 4096, &again));
  TUTTI_REQUIRE_OK(n.fabric.expose(memory + 1024, 64, &part));
  TUTTI_REQUIRE_OK(n.fabric.expose(memory, 0, &none));
  n.fabric.withdraw(whole);
  // What is left still works, from oneself too.
  const auto data = patterned(7, 64);
  Remote remote;
  TUTTI_REQUIRE_OK(n.fabric.attach(n.rank(), part.key, &remote));
  Completion completion;
  TUTTI_REQUIRE_OK(n.fabric.put(remote, 0, data.data(), data.size(), nullptr, &completion));
  TUTTI_REQUIRE_OK(co_await outcome(n.completed(completion)));
  TUTTI_REQUIRE_OK(n.fabric.attach(n.rank(), again.key, &remote));
  std::vector<std::byte> seen(64);
  TUTTI_REQUIRE_OK(n.fabric.get(remote, 1024, seen.data(), seen.size(), &completion));
  TUTTI_REQUIRE_OK(co_await outcome(n.completed(completion)));
  EXPECT_EQ(differs(seen.data(), 7, 64), 64u);
  n.fabric.withdraw(again);
  n.fabric.withdraw(part);
  n.fabric.withdraw(none);
  for (int i = 0; i < 2000; ++i) {  // nothing is used up
    TUTTI_REQUIRE_OK(n.fabric.expose(memory + i % 64, 128, &part));
    n.fabric.withdraw(part);
  }
  co_await n.barrier();
  co_return Status::success();
}

TEST_P(Conformance, MemoryIsExposedAndWithdrawnAnyNumberOfTimes) { run(2, exposures); }

// ---- data
// ----------------------------------------------------------------------------------------

struct Range {
  std::size_t offset, bytes;
};
const Range kRanges[] = {{0, 0},        {0, 1},        {1, 1},       {0, 7},
                         {3, 8},        {0, 63},       {1, 64},      {63, 65},
                         {0, 4095},     {17, 4096},    {4096, 8192}, {5, 65536},
                         {0, 65537},    {100, 300000}, {0, 999'999}, {1'000'000, 48'576},
                         {1'048'576, 0}};
constexpr std::size_t kTarget = kMiB;  // bytes of the target region; the Word lies behind

/// Rank 0 puts each range into rank 1's region, which has guards around; rank 1 checks data and
/// guards.
Task put_ranges(Node& n, std::byte* memory) {
  // | guard | kTarget bytes | Word | guard |
  std::byte* const target = memory + 4096;
  const std::size_t exposed = kTarget + sizeof(Word);
  Word& word = *new (target + kTarget) Word(0);
  Region region;
  TUTTI_REQUIRE_OK(n.fabric.expose(target, exposed, &region));
  TUTTI_REQUIRE_OK(n.send(1 - n.rank(), &region.key, sizeof region.key));
  Key key;
  TUTTI_REQUIRE_OK(co_await outcome(n.receive(1 - n.rank(), &key, sizeof key)));
  Remote remote;
  TUTTI_REQUIRE_OK(n.fabric.attach(1 - n.rank(), key, &remote));
  std::uint64_t round = 0;
  for (const Range& range : kRanges) {
    ++round;
    if (n.rank() == 0) {
      const auto data = patterned(round, range.bytes);
      const Tail tail{kTarget, round};
      Completion completion;
      TUTTI_REQUIRE_OK(
          n.fabric.put(remote, range.offset, data.data(), range.bytes, &tail, &completion));
      TUTTI_REQUIRE_OK(co_await outcome(n.completed(completion)));
    } else {
      TUTTI_REQUIRE_OK(co_await outcome(n.reached(word, round, 0)));
      EXPECT_EQ(word.load(), round);
      EXPECT_EQ(differs(target + range.offset, round, range.bytes), range.bytes)
          << "range " << round;
      EXPECT_EQ(differs_from(memory, std::byte{0xee}, 4096), 4096u) << "range " << round;
      EXPECT_EQ(differs_from(target, std::byte{0xee}, range.offset), range.offset)
          << "range " << round;
      const std::size_t rest = kTarget - range.offset - range.bytes;
      EXPECT_EQ(differs_from(target + range.offset + range.bytes, std::byte{0xee}, rest), rest)
          << "range " << round;
      EXPECT_EQ(differs_from(target + exposed, std::byte{0xee}, 1024), 1024u) << "range " << round;
      std::memset(target + range.offset, 0xee, range.bytes);
    }
    TUTTI_REQUIRE_OK(co_await outcome(n.barrier()));
  }
  n.fabric.withdraw(region);
  co_return Status::success();
}

constexpr std::size_t kGuarded = 4096 + kTarget + sizeof(Word) + 1024;

Task puts(Node& n) {
  TUTTI_REQUIRE_OK(n.fabric.reserve(kData, 2 * kMiB));
  std::memset(n.arena() + kData, 0xee, kGuarded);
  TUTTI_REQUIRE_OK(co_await outcome(n.barrier()));
  TUTTI_REQUIRE_OK(co_await outcome(put_ranges(n, n.arena() + kData)));
  if (n.fabric.traits().user_memory) {
    std::vector<std::byte> user(kGuarded, std::byte{0xee});
    TUTTI_REQUIRE_OK(co_await outcome(n.barrier()));
    TUTTI_REQUIRE_OK(co_await outcome(put_ranges(n, user.data())));
    TUTTI_REQUIRE_OK(co_await outcome(n.barrier()));
  }
  co_await n.barrier();
  co_return Status::success();
}

TEST_P(Conformance, PutsWriteTheirRangeAndNothingElse) { run(2, puts); }

Task get_ranges(Node& n, std::byte* memory) {
  Region region;
  TUTTI_REQUIRE_OK(n.fabric.expose(memory, kTarget, &region));
  for (std::size_t i = 0; i < kTarget; ++i)
    memory[i] = pattern(static_cast<std::uint64_t>(n.rank()), i);
  TUTTI_REQUIRE_OK(n.send(1 - n.rank(), &region.key, sizeof region.key));
  Key key;
  TUTTI_REQUIRE_OK(co_await outcome(n.receive(1 - n.rank(), &key, sizeof key)));
  Remote remote;
  TUTTI_REQUIRE_OK(n.fabric.attach(1 - n.rank(), key, &remote));
  Completion completion;
  std::uint64_t posted = 0;
  for (const Range& range : kRanges) {
    std::vector<std::byte> data(range.bytes + 128, std::byte{0xee});
    TUTTI_REQUIRE_OK(
        n.fabric.get(remote, range.offset, data.data() + 64, range.bytes, &completion));
    EXPECT_EQ(completion.posted(), ++posted);
    TUTTI_REQUIRE_OK(co_await outcome(n.completed(completion)));
    EXPECT_TRUE(completion.status().ok());
    for (std::size_t i = 0; i < range.bytes; ++i) {
      if (data[64 + i] == pattern(static_cast<std::uint64_t>(1 - n.rank()), range.offset + i))
        continue;
      ADD_FAILURE() << "offset " << range.offset << " bytes " << range.bytes << ": wrong from byte "
                    << i;
      break;
    }
    EXPECT_EQ(differs_from(data.data(), std::byte{0xee}, 64), 64u);
    EXPECT_EQ(differs_from(data.data() + 64 + range.bytes, std::byte{0xee}, 64), 64u);
  }
  TUTTI_REQUIRE_OK(co_await outcome(n.barrier()));
  n.fabric.withdraw(region);
  co_return Status::success();
}

Task gets(Node& n) {
  TUTTI_REQUIRE_OK(n.fabric.reserve(kData, 2 * kMiB));
  TUTTI_REQUIRE_OK(co_await outcome(get_ranges(n, n.arena() + kData)));
  if (n.fabric.traits().user_memory) {
    std::vector<std::byte> user(kTarget);
    TUTTI_REQUIRE_OK(co_await outcome(get_ranges(n, user.data())));
  }
  co_await n.barrier();
  co_return Status::success();
}

TEST_P(Conformance, GetsReadTheirRange) { run(2, gets); }

constexpr std::size_t kMapped = 300'000;  // more than is copied through registered blocks

/// New memory where the old was: other pages behind the same addresses.
bool map_again(std::byte* memory) {
  return mmap(memory, kMapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
              0) == memory;
}

/// Rank 0 puts out of `memory` and gets into it; what rank 1 exposes there is put to. Between that
/// it is freed and mapped again.
Task map_and_send(Node& n, std::byte* memory, std::uint64_t seed) {
  const bool exposes = n.rank() == 1 && n.fabric.traits().user_memory;
  const auto data = patterned(seed, kMapped);
  Completion completion;
  Remote remote;
  Region region;
  TUTTI_REQUIRE(map_again(memory));
  if (exposes) TUTTI_REQUIRE_OK(n.fabric.expose(memory, kMapped, &region));
  TUTTI_REQUIRE_OK(n.send(1 - n.rank(), &region.key, sizeof region.key));
  Key key;
  TUTTI_REQUIRE_OK(co_await outcome(n.receive(1 - n.rank(), &key, sizeof key)));
  if (n.rank() == 0) {
    std::memcpy(memory, data.data(), kMapped);
    TUTTI_REQUIRE_OK(n.fabric.arena_of(1, &remote));
    TUTTI_REQUIRE_OK(n.fabric.put(remote, kData, memory, kMapped, nullptr, &completion));
    TUTTI_REQUIRE_OK(co_await outcome(n.completed(completion)));
    if (n.fabric.traits().user_memory) {
      TUTTI_REQUIRE_OK(n.fabric.attach(1, key, &remote));
      TUTTI_REQUIRE_OK(n.fabric.put(remote, 0, memory, kMapped, nullptr, &completion));
      TUTTI_REQUIRE_OK(co_await outcome(n.completed(completion)));
    }
  }
  TUTTI_REQUIRE_OK(co_await outcome(n.barrier()));
  if (n.rank() == 0) {
    TUTTI_REQUIRE(map_again(memory));
    TUTTI_REQUIRE_OK(n.fabric.arena_of(1, &remote));
    TUTTI_REQUIRE_OK(n.fabric.get(remote, kData, memory, kMapped, &completion));
    TUTTI_REQUIRE_OK(co_await outcome(n.completed(completion)));
    EXPECT_EQ(differs(memory, seed, kMapped), kMapped) << "seed " << seed;
  } else {
    EXPECT_EQ(differs(n.arena() + kData, seed, kMapped), kMapped) << "seed " << seed;
  }
  if (exposes) {
    EXPECT_EQ(differs(memory, seed, kMapped), kMapped) << "seed " << seed;
    n.fabric.withdraw(region);
  }
  co_await n.barrier();
  co_return Status::success();
}

Task remapped(Node& n) {
  TUTTI_REQUIRE_OK(n.fabric.reserve(kData, kMiB));
  TUTTI_REQUIRE_OK(co_await outcome(n.barrier()));
  void* const memory =
      mmap(nullptr, kMapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  TUTTI_REQUIRE(memory != MAP_FAILED);
  for (std::uint64_t round = 1; round <= 4; ++round)
    TUTTI_REQUIRE_OK(co_await outcome(map_and_send(n, static_cast<std::byte*>(memory), round)));
  munmap(memory, kMapped);
  co_return Status::success();
}

TEST_P(Conformance, MemoryThatIsFreedAndMappedAgainIsNotMistaken) { run(2, remapped); }

/// Both ranks try what is out of range towards the other, which then finds its memory untouched.
Task out_of_range(Node& n) {
  TUTTI_REQUIRE_OK(n.fabric.reserve(kData, kMiB));
  std::byte* const memory = n.arena() + kData;
  std::memset(memory, 0xee, 8192);
  Region region;
  TUTTI_REQUIRE_OK(n.fabric.expose(memory + 2048, 1024, &region));
  TUTTI_REQUIRE_OK(n.send(1 - n.rank(), &region.key, sizeof region.key));
  Key key;
  TUTTI_REQUIRE_OK(co_await outcome(n.receive(1 - n.rank(), &key, sizeof key)));
  Remote remote;
  TUTTI_REQUIRE_OK(n.fabric.attach(1 - n.rank(), key, &remote));

  std::vector<std::byte> data(8192, std::byte{0x11});
  Completion completion;
  const std::size_t huge = ~std::size_t{0};
  const Range bad[] = {{1025, 0}, {1024, 1}, {0, 1025},    {1000, 25},
                       {huge, 1}, {1, huge}, {huge, huge}, {huge - 7, 8}};
  for (const Range& range : bad) {
    EXPECT_EQ(
        n.fabric.put(remote, range.offset, data.data(), range.bytes, nullptr, &completion).code,
        Code::truncated);
    EXPECT_EQ(n.fabric.get(remote, range.offset, data.data(), range.bytes, &completion).code,
              Code::truncated);
  }
  // A bad counter: nothing is written, the data neither.
  for (const std::size_t offset : {std::size_t{1017}, std::size_t{1024}, huge, huge - 7}) {
    const Tail tail{offset, 1};
    EXPECT_TRUE(refused(n.fabric.put(remote, 0, data.data(), 16, &tail, &completion))) << offset;
  }
  for (std::size_t offset = 1; offset < 8; ++offset) {
    const Tail tail{offset, 1};
    EXPECT_TRUE(refused(n.fabric.put(remote, 64, data.data(), 16, &tail, &completion))) << offset;
  }
  EXPECT_FALSE(n.fabric.get(remote, 0, data.data(), 16, nullptr).ok())
      << "a get without a completion";
  Remote nobody = remote;
  for (const int stranger : {-1, n.size()}) {
    nobody.peer = stranger;
    EXPECT_FALSE(n.fabric.put(nobody, 0, data.data(), 16, nullptr, &completion).ok());
    EXPECT_FALSE(n.fabric.get(nobody, 0, data.data(), 16, &completion).ok());
  }
  EXPECT_EQ(completion.posted(), 0u) << "what was refused does not count";
  EXPECT_EQ(completion.finished(), 0u);
  TUTTI_REQUIRE_OK(co_await outcome(n.barrier()));
  EXPECT_EQ(differs_from(memory, std::byte{0xee}, 8192), 8192u);
  n.fabric.withdraw(region);
  co_await n.barrier();
  co_return Status::success();
}

TEST_P(Conformance, WhatIsOutOfRangeIsRefusedBeforeAnythingIsWritten) { run(2, out_of_range); }

/// Many operations on one completion; sources are overwritten as soon as they have counted.
Task completions(Node& n) {
  constexpr std::size_t kPieces = 64, kPiece = 5000;
  TUTTI_REQUIRE_OK(n.fabric.reserve(kData, kMiB));
  const int peer = (n.rank() + 1) % n.size();
  const int from = (n.rank() + n.size() - 1) % n.size();
  Remote remote;
  TUTTI_REQUIRE_OK(n.fabric.arena_of(peer, &remote));
  const std::size_t word = kData + 900'000;
  for (std::uint64_t round = 1; round <= 5; ++round) {
    Completion sent;
    std::vector<std::vector<std::byte>> sources;
    for (std::size_t piece = 0; piece < kPieces; ++piece) {
      sources.push_back(patterned(round * 100 + piece, kPiece));
      const Tail tail{word, round};
      TUTTI_REQUIRE_OK(n.fabric.put(remote, kData + piece * kPiece, sources[piece].data(), kPiece,
                                    piece + 1 == kPieces ? &tail : nullptr, &sent));
      EXPECT_EQ(sent.posted(), piece + 1);
      EXPECT_LE(sent.finished(), sent.posted());
    }
    TUTTI_REQUIRE_OK(co_await outcome(n.completed(sent)));
    EXPECT_EQ(sent.finished(), kPieces);
    EXPECT_TRUE(sent.status().ok());
    for (auto& source : sources) std::fill(source.begin(), source.end(), std::byte{0x99});
    TUTTI_REQUIRE_OK(co_await outcome(n.reached(n.word(word), round, from)));
    for (std::size_t piece = 0; piece < kPieces; ++piece) {
      EXPECT_EQ(differs(n.arena() + kData + piece * kPiece, round * 100 + piece, kPiece), kPiece);
    }
    TUTTI_REQUIRE_OK(co_await outcome(n.barrier()));
  }
  co_await n.barrier();
  co_return Status::success();
}

TEST_P(Conformance, CompletionsCountAndFreeTheSource) { run(3, completions); }

}  // namespace

// ---- order
// ---------------------------------------------------------------------------------------

namespace {

/// Ranks 0 and 1: whether there is time left for another batch, as rank 0 sees it.
Task time_left(Node& n, std::uint64_t until_ns, bool* more) {
  std::uint8_t answer = n.fabric.now_ns() < until_ns;
  if (n.rank() == 0) {
    co_await n.send(1, &answer, 1);
  } else {
    co_await n.receive(0, &answer, 1);
  }
  co_await n.barrier();
  *more = answer != 0;
  co_return Status::success();
}

}  // namespace

Task tail_order(Node& n, std::size_t bytes, std::uint64_t rounds, std::uint64_t budget_ns,
                std::uint64_t* violations) {
  constexpr std::uint64_t kBatch = 200;
  const std::uint64_t until = n.fabric.now_ns() + budget_ns;
  // The counter lies right behind the data, as in a block that is filled from the bottom.
  const std::size_t end = kData + 16384;
  const std::size_t start = end - bytes;
  const std::size_t answer = kData + 32768;
  TUTTI_REQUIRE_OK(n.fabric.reserve(kData, 65536));
  const std::uint64_t base = n.word(n.rank() == 0 ? answer : end).load();  // of the size before
  TUTTI_REQUIRE_OK(co_await outcome(n.barrier()));
  Remote remote;
  TUTTI_REQUIRE_OK(n.fabric.arena_of(1 - n.rank(), &remote));
  std::vector<std::uint64_t> data(bytes / 8);
  bool more = true;
  for (std::uint64_t round = base + 1; more && round <= base + rounds; ++round) {
    if ((round - base) % kBatch == 0)
      TUTTI_REQUIRE_OK(co_await outcome(time_left(n, until, &more)));
    if (n.rank() == 0) {
      std::fill(data.begin(), data.end(), round);
      const Tail tail{end, round};
      Completion sent;
      TUTTI_REQUIRE_OK(n.fabric.put(remote, start, data.data(), bytes, &tail, &sent));
      TUTTI_REQUIRE_OK(co_await outcome(n.completed(sent)));
      TUTTI_REQUIRE_OK(co_await outcome(n.reached(n.word(answer), round, 1)));
    } else {
      TUTTI_REQUIRE_OK(co_await outcome(n.reached(n.word(end), round, 0)));
      // From the back: what is written last is missing most easily.
      const auto* words = reinterpret_cast<const volatile std::uint64_t*>(n.arena() + start);
      bool whole = true;
      for (std::size_t i = bytes / 8; i-- > 0;) whole = whole && words[i] == round;
      if (!whole) ++*violations;
      const Tail tail{answer, round};
      TUTTI_REQUIRE_OK(n.fabric.put(remote, 0, nullptr, 0, &tail, nullptr));
    }
  }
  co_await n.barrier();
  co_return Status::success();
}

namespace {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr std::uint64_t kManyRounds = 5'000;
#else
constexpr std::uint64_t kManyRounds = 50'000;
#endif

std::uint64_t rounds_on(const Node& n, std::uint64_t real) {
  return n.fabric.traits().virtual_time ? std::max<std::uint64_t>(real / 50, 200) : real;
}

Task the_last_byte(Node& n) {
  for (const std::size_t bytes : kTailSizes) {
    std::uint64_t violations = 0;
    TUTTI_REQUIRE_OK(co_await outcome(
        tail_order(n, bytes, rounds_on(n, kManyRounds), 250'000'000, &violations)));
    EXPECT_EQ(violations, 0u) << "counters that overtook their data, at " << bytes << " bytes";
  }
  co_return Status::success();
}

TEST_P(Conformance, TheLastByteComesLast) { run(2, the_last_byte); }

/// Puts to one Word, one after the other without waiting: seen in order, each with its data. The
/// values change several bytes at once, so that a counter written in pieces would be noticed.
Task same_word(Node& n, std::byte* memory, std::uint64_t batches) {
  constexpr std::uint64_t kBatch = 512, kStep = 0x0101'0101'0101;
  Word& word = *new (memory) Word(0);
  auto* slots = reinterpret_cast<std::uint64_t*>(memory + kCacheLine);
  Region region;
  TUTTI_REQUIRE_OK(n.fabric.expose(memory, kCacheLine + kBatch * 8, &region));
  TUTTI_REQUIRE_OK(n.send(1 - n.rank(), &region.key, sizeof region.key));
  Key key;
  TUTTI_REQUIRE_OK(co_await outcome(n.receive(1 - n.rank(), &key, sizeof key)));
  Remote remote;
  TUTTI_REQUIRE_OK(n.fabric.attach(1 - n.rank(), key, &remote));
  TUTTI_REQUIRE_OK(co_await outcome(n.barrier()));
  const std::uint64_t until = n.fabric.now_ns() + 1'000'000'000;
  bool more = true;
  for (std::uint64_t batch = 0; more && batch < batches; ++batch) {
    const std::uint64_t first = batch * kBatch;
    if (n.rank() == 0) {
      std::vector<std::uint64_t> values(kBatch);
      Completion sent;
      for (std::uint64_t i = 0; i < kBatch; ++i) {
        values[i] = first + i;
        const Tail tail{0, (first + i + 1) * kStep};
        TUTTI_REQUIRE_OK(n.fabric.put(remote, kCacheLine + i * 8, &values[i], 8, &tail, &sent));
      }
      TUTTI_REQUIRE_OK(co_await outcome(n.completed(sent)));
    } else {
      std::uint64_t seen = first;
      while (seen < first + kBatch) {
        TUTTI_REQUIRE_OK(co_await outcome(n.reached(word, (seen + 1) * kStep, 0)));
        const std::uint64_t value = word.load(std::memory_order_acquire);
        TUTTI_REQUIRE(value % kStep == 0 && value / kStep > seen &&
                      value / kStep <= first + kBatch);
        for (; seen < value / kStep; ++seen) TUTTI_REQUIRE(slots[seen - first] == seen);
      }
    }
    TUTTI_REQUIRE_OK(co_await outcome(time_left(n, until, &more)));
  }
  n.fabric.withdraw(region);
  co_return Status::success();
}

Task ordered_puts(Node& n) {
  TUTTI_REQUIRE_OK(n.fabric.reserve(kData, 65536));
  const std::uint64_t batches = rounds_on(n, kManyRounds) / 200;
  TUTTI_REQUIRE_OK(co_await outcome(same_word(n, n.arena() + kData, batches)));
  if (n.fabric.traits().user_memory) {
    struct alignas(kCacheLine) Lines {
      std::byte bytes[8192];
    };
    const auto user = std::make_unique<Lines>();
    TUTTI_REQUIRE_OK(co_await outcome(same_word(n, user->bytes, batches)));
    TUTTI_REQUIRE_OK(co_await outcome(n.barrier()));
  }
  co_await n.barrier();
  co_return Status::success();
}

TEST_P(Conformance, PutsToOneWordBecomeVisibleInOrder) { run(2, ordered_puts); }

/// A tail comes no earlier than the data of the puts before it, whatever their regions: data into a
/// region of its own, then the tail alone into the arena.
Task cover(Node& n, std::byte* memory, std::uint64_t first, std::uint64_t rounds) {
  constexpr std::size_t kBytes = 20'000, kArrived = kData, kAnswer = kData + kCacheLine;
  const int peer = 1 - n.rank();
  Region region;
  TUTTI_REQUIRE_OK(n.fabric.expose(memory, kBytes, &region));
  TUTTI_REQUIRE_OK(n.send(peer, &region.key, sizeof region.key));
  Key key;
  TUTTI_REQUIRE_OK(co_await outcome(n.receive(peer, &key, sizeof key)));
  Remote remote, arena;
  TUTTI_REQUIRE_OK(n.fabric.attach(peer, key, &remote));
  TUTTI_REQUIRE_OK(n.fabric.arena_of(peer, &arena));
  TUTTI_REQUIRE_OK(co_await outcome(n.barrier()));
  for (std::uint64_t round = first; round < first + rounds; ++round) {
    const std::size_t bytes = 8 + round * 977 % (kBytes - 8);
    if (n.rank() == 0) {
      const auto data = patterned(round, bytes);
      Completion sent;
      const Tail tail{kArrived, round};
      TUTTI_REQUIRE_OK(n.fabric.put(remote, 0, data.data(), bytes / 2, nullptr, &sent));
      TUTTI_REQUIRE_OK(n.fabric.put(remote, bytes / 2, data.data() + bytes / 2, bytes - bytes / 2,
                                    nullptr, &sent));
      TUTTI_REQUIRE_OK(n.fabric.put(arena, 0, nullptr, 0, &tail, &sent));
      TUTTI_REQUIRE_OK(co_await outcome(n.completed(sent)));
      TUTTI_REQUIRE_OK(co_await outcome(n.reached(n.word(kAnswer), round, 1)));
    } else {
      TUTTI_REQUIRE_OK(co_await outcome(n.reached(n.word(kArrived), round, 0)));
      TUTTI_REQUIRE(differs(memory, round, bytes) == bytes);
      const Tail answer{kAnswer, round};
      TUTTI_REQUIRE_OK(n.fabric.put(arena, 0, nullptr, 0, &answer, nullptr));
    }
  }
  TUTTI_REQUIRE_OK(co_await outcome(n.barrier()));
  n.fabric.withdraw(region);
  co_return Status::success();
}

Task covered(Node& n) {
  TUTTI_REQUIRE_OK(n.fabric.reserve(kData, 65536));
  const std::uint64_t rounds = rounds_on(n, 2'000);
  TUTTI_REQUIRE_OK(co_await outcome(cover(n, n.arena() + kData + 4096, 1, rounds)));
  if (n.fabric.traits().user_memory) {
    std::vector<std::byte> user(20'000);
    TUTTI_REQUIRE_OK(co_await outcome(cover(n, user.data(), rounds + 1, rounds)));
    TUTTI_REQUIRE_OK(co_await outcome(n.barrier()));
  }
  co_await n.barrier();
  co_return Status::success();
}

TEST_P(Conformance, ATailCoversAllPutsBeforeIt) { run(2, covered); }

/// Every rank signals words of its own and of the next rank's memory; what was stored before is
/// seen with it.
Task signals(Node& n) {
  constexpr std::size_t kOwn = kData, kFrom = kData + 4096;
  TUTTI_REQUIRE_OK(n.fabric.reserve(kData, 65536));
  TUTTI_REQUIRE_OK(co_await outcome(n.barrier()));
  const int next = (n.rank() + 1) % n.size();
  const int previous = (n.rank() + n.size() - 1) % n.size();
  Remote of_next, of_previous;
  TUTTI_REQUIRE_OK(n.fabric.arena_of(next, &of_next));
  TUTTI_REQUIRE_OK(n.fabric.arena_of(previous, &of_previous));
  TUTTI_REQUIRE(of_next.mapped != nullptr && of_previous.mapped != nullptr);
  auto* there = static_cast<std::byte*>(of_next.mapped);
  auto* behind = static_cast<std::byte*>(of_previous.mapped);
  const auto signal = [&n](int peer, std::byte* at, std::uint64_t value) {
    std::memcpy(at + kCacheLine, &value, sizeof value);
    n.fabric.signal(peer, *reinterpret_cast<Word*>(at), value);
    if (n.fabric.sleepers()) {
      for (int rank = 0; rank < n.size(); ++rank) n.fabric.wake(rank);
    }
  };
  for (std::uint64_t round = 1; round <= 100; ++round) {
    // Published in the own memory, read by the next rank.
    signal(n.rank(), n.arena() + kOwn, round);
    TUTTI_REQUIRE_OK(
        co_await outcome(n.reached(*reinterpret_cast<Word*>(behind + kOwn), round, previous)));
    std::uint64_t value = 0;
    std::memcpy(&value, behind + kOwn + kCacheLine, sizeof value);
    TUTTI_REQUIRE(value == round);
    // Written into the next rank's memory.
    signal(next, there + kFrom, round);
    TUTTI_REQUIRE_OK(co_await outcome(n.reached(n.word(kFrom), round, previous)));
    std::memcpy(&value, n.arena() + kFrom + kCacheLine, sizeof value);
    TUTTI_REQUIRE(value == round);
    TUTTI_REQUIRE_OK(co_await outcome(n.barrier()));
  }
  co_await n.barrier();
  co_return Status::success();
}

Task signals_where_mapped(Node& n) {
  for (int peer = 0; peer < n.size(); ++peer) {
    if (!n.fabric.maps(peer)) co_return Status::success();
  }
  co_await signals(n);
  co_return Status::success();
}

TEST_P(Conformance, SignalsReleaseWhatWasStoredBefore) { run(3, signals_where_mapped); }

// ---- waiting
// -------------------------------------------------------------------------------------

/// A short pause of changing length, so that rings meet every moment of the other side's falling
/// asleep.
void linger(std::mt19937& generator) {
  for (unsigned i = generator() % 400; i != 0; --i) cpu_pause();
}

/// Waits by arm, look, sleep, disarm. True when a sleep ran out: nobody rang.
bool sleep_for(Node& n, const Word& word, std::uint64_t value, Attention attention,
               std::uint64_t* sleeps) {
  constexpr std::uint64_t kLong = 2'000'000'000;
  for (; word.load(std::memory_order_acquire) < value; n.fabric.progress()) {
    const std::uint32_t ticket = n.fabric.arm(attention);
    bool missed = false;
    if (word.load(std::memory_order_acquire) < value) {
      const std::uint64_t before = n.fabric.now_ns();
      n.fabric.sleep(ticket, kLong, attention);
      missed = n.fabric.now_ns() - before >= kLong;
      ++*sleeps;
    }
    n.fabric.disarm(attention);
    if (missed) return true;
  }
  return false;
}

Task wake_ups(Node& n, Event event, Attention attention) {
  if (n.fabric.traits().virtual_time) co_return Status::success();  // nobody sleeps there
  constexpr std::uint64_t kRounds = 22'000, kBatch = 500, kBudget = 3'000'000'000;
  const std::uint64_t until = n.fabric.now_ns() + kBudget;
  bool more = true;
  TUTTI_REQUIRE_OK(n.fabric.reserve(kData, 65536));
  TUTTI_REQUIRE_OK(co_await outcome(n.barrier()));
  Remote remote;
  TUTTI_REQUIRE_OK(n.fabric.arena_of(1 - n.rank(), &remote));
  std::mt19937 generator(static_cast<unsigned>(n.rank()) + 1);
  std::uint64_t sleeps = 0, missed = 0;
  for (std::uint64_t round = 1; more && round <= kRounds && missed == 0; ++round) {
    if (round % kBatch == 0) TUTTI_REQUIRE_OK(co_await outcome(time_left(n, until, &more)));
    if (static_cast<int>(round % 2) == n.rank()) {
      linger(generator);
      // By turns as a put with a counter, and as a store that is rung for.
      if (round % 4 < 2 || remote.mapped == nullptr) {
        const Tail tail{kData, round};
        TUTTI_REQUIRE_OK(n.fabric.put(remote, 0, nullptr, 0, &tail, nullptr, event));
      } else {
        n.fabric.signal(remote.peer,
                        *reinterpret_cast<Word*>(static_cast<std::byte*>(remote.mapped) + kData),
                        round);
        if (n.fabric.sleepers()) n.fabric.wake(remote.peer, event);
      }
    } else {
      linger(generator);
      // So that both happen: sleeps in a row, for which provisions are made, and the end of those.
      if (generator() % 64 == 0) n.fabric.stays_awake();
      missed += sleep_for(n, n.word(kData), round, attention, &sleeps);
    }
  }
  EXPECT_EQ(missed, 0u) << "a sleeper was not woken";
  EXPECT_GT(sleeps, kBatch / 100) << "nobody slept: the test has tested nothing";
  co_await n.barrier();
  co_return Status::success();
}

TEST_P(Conformance, NoWakeUpIsLost) {
  run(2, [](Node& n) { return wake_ups(n, Event::solicited, Attention::all); });
}
TEST_P(Conformance, NoWakeUpIsLostOfSolicitedEvents) {
  run(2, [](Node& n) { return wake_ups(n, Event::solicited, Attention::solicited); });
}
TEST_P(Conformance, NoWakeUpIsLostOfUnsolicitedEvents) {
  run(2, [](Node& n) { return wake_ups(n, Event::unsolicited, Attention::all); });
}

/// Sleeps for solicited events. False when that ended before its time.
bool sleeps_whole(Node& n, std::uint64_t nanoseconds) {
  const std::uint32_t ticket = n.fabric.arm(Attention::solicited);
  const std::uint64_t before = n.fabric.now_ns();
  n.fabric.sleep(ticket, nanoseconds, Attention::solicited);
  const bool whole = n.fabric.now_ns() - before >= nanoseconds;
  n.fabric.disarm(Attention::solicited);
  return whole;
}

/// Rank 0 puts small things, at last one that it rings for; rank 1 sleeps meanwhile and counts how
/// often it wakes before the bell.
Task selective_events(Node& n) {
  if (n.fabric.traits().virtual_time) co_return Status::success();
  constexpr std::uint64_t kPuts = 100, kSlice = 50'000'000, kLongest = 20'000'000'000;
  TUTTI_REQUIRE_OK(n.fabric.reserve(kData, 65536));
  Remote remote;
  TUTTI_REQUIRE_OK(n.fabric.arena_of(1 - n.rank(), &remote));
  const auto put = [&](std::uint64_t value) {
    const std::uint64_t data = value * 7;
    const Tail tail{kData, value};
    return n.fabric.put(remote, kData + 8, &data, sizeof data, &tail, nullptr, Event::unsolicited);
  };
  // Some decorators cut sleeps short.
  const bool sleeps = sleeps_whole(n, kSlice) || sleeps_whole(n, kSlice);
  for (std::uint64_t round = 0; round < 2; ++round) {  // connections are made in the first
    TUTTI_REQUIRE_OK(co_await outcome(n.barrier()));
    const std::uint64_t last = (round + 1) * kPuts;
    if (n.rank() == 0) {
      for (std::uint64_t value = round * kPuts + 1; value <= last; ++value) {
        usleep(1000);
        n.fabric.progress();
        TUTTI_REQUIRE_OK(put(value));
      }
      n.fabric.wake(1);
    } else {
      std::uint64_t early = 0;
      const std::uint64_t until = n.fabric.now_ns() + kLongest;
      while (n.word(kData).load(std::memory_order_acquire) < last && n.fabric.now_ns() < until) {
        early += sleeps_whole(n, kSlice) ? 0 : 1;
        n.fabric.progress();
      }
      EXPECT_EQ(n.word(kData).load(std::memory_order_acquire), last) << "after the bell";
      if (round != 0 && sleeps && n.fabric.traits().selective_events) {
        EXPECT_GE(early, 1u) << "the bell wakes";
        EXPECT_LE(early, 4u) << "of " << kPuts << " puts that should not";
      }
    }
  }
  TUTTI_REQUIRE_OK(co_await outcome(n.barrier()));
  co_return Status::success();
}

TEST_P(Conformance, UnsolicitedEventsWakeOnlyWhoSleepsForThem) { run(2, selective_events); }

Task bells(Node& n) {
  if (n.fabric.traits().virtual_time) co_return Status::success();
  constexpr std::uint64_t kShort = 3'000'000, kLong = 20'000'000'000;
  // Not rung: the time runs out.
  std::uint32_t ticket = n.fabric.arm(Attention::all);
  std::uint64_t before = n.fabric.now_ns();
  n.fabric.sleep(ticket, kShort, Attention::all);
  n.fabric.disarm(Attention::all);
  EXPECT_LT(n.fabric.now_ns() - before, kLong / 2);
  // Rung between arm and sleep, also where arms nest.
  for (const int nested : {0, 1, 2}) {
    for (int i = 0; i < nested; ++i) n.fabric.arm(Attention::solicited);
    ticket = n.fabric.arm(Attention::all);
    n.fabric.wake(n.rank());
    before = n.fabric.now_ns();
    n.fabric.sleep(ticket, kLong, Attention::all);
    EXPECT_LT(n.fabric.now_ns() - before, kLong / 2);
    n.fabric.disarm(Attention::all);
    for (int i = 0; i < nested; ++i) n.fabric.disarm(Attention::solicited);
  }
  // Rings for nobody: for those who do not sleep, and for ranks that do not exist.
  for (const int rank : {-1, 0, 1, n.size(), 1 << 20}) n.fabric.wake(rank);
  co_await n.barrier();
  co_return Status::success();
}

TEST_P(Conformance, BellsWakeAndSleepsEnd) { run(2, bells); }

Task clocks(Node& n) {
  std::uint64_t last = n.fabric.now_ns();
  for (int i = 0; i < 1000; ++i) {
    n.fabric.spend(Work::copy, 4096);
    n.fabric.progress();
    const std::uint64_t now = n.fabric.now_ns();
    EXPECT_GE(now, last);
    last = now;
  }
  co_await n.barrier();
  co_return Status::success();
}

TEST_P(Conformance, TimeDoesNotGoBack) { run(2, clocks); }

Task deadlines(Node& n) {
  constexpr std::uint64_t kSoon = 3'000'000, kFar = 10'000'000'000;
  // A word that nobody writes.
  const std::uint64_t until = n.fabric.now_ns() + kSoon;
  TUTTI_REQUIRE_OK(co_await outcome(n.engine.reached_by(n.word(kData), 1, until, n.members)));
  EXPECT_GE(n.fabric.now_ns(), until);
  EXPECT_EQ(n.word(kData).load(), 0u);
  TUTTI_REQUIRE_OK(co_await outcome(n.barrier()));
  // One that is written long before.
  const std::uint64_t before = n.fabric.now_ns();
  Remote peer;
  TUTTI_REQUIRE_OK(n.fabric.arena_of(1 - n.rank(), &peer));
  const Tail tail{kData + kCacheLine, 1};
  Completion sent;
  TUTTI_REQUIRE_OK(n.fabric.put(peer, 0, nullptr, 0, &tail, &sent));
  Word& word = n.word(kData + kCacheLine);
  TUTTI_REQUIRE_OK(
      co_await outcome(n.engine.reached_by(word, 1, before + kFar, n.members, 1 - n.rank())));
  EXPECT_EQ(word.load(), 1u);
  EXPECT_LT(n.fabric.now_ns(), before + kFar);
  TUTTI_REQUIRE_OK(co_await outcome(n.completed(sent)));
  co_await n.barrier();
  co_return Status::success();
}

TEST_P(Conformance, WaitsEndAtTheirDeadlines) { run(2, deadlines); }

// ---- ends
// ----------------------------------------------------------------------------------------

/// Rank 2 dies while the others wait for it; they are told, every further operation towards it
/// fails at once, and among themselves they go on.
Task survivors(Node& n) {
  constexpr std::size_t kNever = kData, kHello = kData + 64;
  TUTTI_REQUIRE_OK(n.fabric.reserve(kData, 65536));
  Region region;
  TUTTI_REQUIRE_OK(n.fabric.expose(n.arena() + kData, 4096, &region));
  for (int peer = 0; peer < n.size(); ++peer) {
    if (peer != n.rank()) TUTTI_REQUIRE_OK(n.send(peer, &region.key, sizeof region.key));
  }
  Key key, other;
  if (n.rank() != 2) TUTTI_REQUIRE_OK(co_await outcome(n.receive(2, &key, sizeof key)));
  TUTTI_REQUIRE_OK(co_await outcome(n.barrier()));
  for (int peer = 0; peer < n.size(); ++peer) EXPECT_TRUE(n.fabric.alive(peer)) << peer;
  TUTTI_REQUIRE_OK(co_await outcome(n.barrier()));
  if (n.rank() == 2) {
    n.die();
    co_return Status::success();
  }
  Remote dead;
  static_cast<void>(n.fabric.attach(2, key, &dead));  // may fail already
  const std::int32_t both[] = {0, 1, 2}, living[] = {0, 1};
  Membership broken{both, 3, {}}, whole{living, 2, {}};
  const std::uint64_t before = n.fabric.now_ns();
  Status status = co_await outcome(n.engine.reached(n.word(kNever), 1, broken));
  EXPECT_EQ(status.code, Code::peer_lost);
  EXPECT_EQ(status.peer, 2);
  EXPECT_LT(n.fabric.now_ns() - before, 5'000'000'000u);
  status = co_await outcome(n.engine.reached(n.word(kNever), 1, broken));  // known now: at once
  EXPECT_EQ(status.code, Code::peer_lost);
  EXPECT_FALSE(n.fabric.alive(2));
  EXPECT_TRUE(n.fabric.alive(1 - n.rank()));

  std::vector<std::byte> data(64);
  Completion completion;
  EXPECT_EQ(n.fabric.attach(2, key, &dead).code, Code::peer_lost);
  Remote arena;
  if (n.fabric.arena_of(2, &arena).ok()) {
    const Tail tail{kNever, 1};
    for (int i = 0; i < 100; ++i) {
      status = n.fabric.put(arena, kHello, data.data(), data.size(), &tail, &completion);
      EXPECT_EQ(status.code, Code::peer_lost);
      EXPECT_EQ(status.peer, 2);
      EXPECT_EQ(n.fabric.get(arena, kHello, data.data(), data.size(), &completion).code,
                Code::peer_lost);
    }
  }
  n.fabric.wake(2);

  // The two that are left.
  Remote peer;
  Completion sent;
  TUTTI_REQUIRE_OK(n.fabric.arena_of(1 - n.rank(), &peer));
  for (std::uint64_t round = 1; round <= 100; ++round) {
    const Tail tail{kHello, round};
    TUTTI_REQUIRE_OK(n.fabric.put(peer, 0, nullptr, 0, &tail, &sent));
    TUTTI_REQUIRE_OK(
        co_await outcome(n.engine.reached(n.word(kHello), round, whole, 1 - n.rank())));
  }
  co_await n.engine.completed(sent, whole);
  co_return Status::success();
}

TEST_P(Conformance, ADeathIsReportedAndTheOthersGoOn) {
  const std::vector<Outcome> all = outcomes(3, survivors);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_TRUE(all[2].died);
  EXPECT_TRUE(all[0].status.ok()) << name(all[0].status.code);
  EXPECT_TRUE(all[1].status.ok()) << name(all[1].status.code);
}

/// Rank 1 ends in good order. What it stored before is seen; a wait for more of it is in vain and
/// says so; waits on others are not disturbed.
Task leavers(Node& n) {
  constexpr std::size_t kLast = kData, kSlow = kData + 64;
  TUTTI_REQUIRE_OK(n.fabric.reserve(kData, 4096));
  TUTTI_REQUIRE_OK(co_await outcome(n.barrier()));
  const Tail last{kLast, 1}, slow{kSlow, 1};
  Remote zero;
  TUTTI_REQUIRE_OK(n.fabric.arena_of(0, &zero));
  Completion sent;
  if (n.rank() == 1) {
    TUTTI_REQUIRE_OK(n.fabric.put(zero, 0, nullptr, 0, &last, &sent));
    co_await n.completed(sent);
    co_return Status::success();
  }
  if (n.rank() == 2) {
    // Long enough for rank 0 to look after the health of its peers several times.
    const std::uint64_t until = n.fabric.now_ns() + 500'000'000;
    for (std::uint64_t i = 1; !n.fabric.traits().virtual_time && n.fabric.now_ns() < until; ++i) {
      const Tail again{kLast + 128, i};
      TUTTI_REQUIRE_OK(n.fabric.put(zero, 0, nullptr, 0, &again, &sent));
      TUTTI_REQUIRE_OK(co_await outcome(n.completed(sent)));
    }
    TUTTI_REQUIRE_OK(n.fabric.put(zero, 0, nullptr, 0, &slow, &sent));
    co_await n.completed(sent);
    co_return Status::success();
  }
  TUTTI_REQUIRE_OK(co_await outcome(n.reached(n.word(kSlow), 1, 2)));
  TUTTI_REQUIRE_OK(co_await outcome(n.reached(n.word(kLast), 1, 1)));
  co_return Status::success();
}

TEST_P(Conformance, WhoLeavesInGoodOrderDisturbsNobody) { run(3, leavers); }

// ---- everything at once
// --------------------------------------------------------------------------

/// Random puts and gets of four ranks, each with a lane of its own in every arena, against a model.
Task soak(Node& n, std::uint64_t seed) {
  constexpr std::size_t kLane = 40'000, kStride = kLane + 2 * kCacheLine;
  const auto lane = [](int owner) { return kData + static_cast<std::size_t>(owner) * kStride; };
  const std::size_t answers = kData + 8 * kStride;
  TUTTI_REQUIRE_OK(n.fabric.reserve(kData, kMiB));
  TUTTI_REQUIRE_OK(co_await outcome(n.barrier()));
  std::mt19937_64 generator(seed * 31 + static_cast<std::uint64_t>(n.rank()));
  const auto size = static_cast<std::size_t>(n.size());
  std::vector<std::vector<std::byte>> model(size, std::vector<std::byte>(kLane));
  std::vector<std::byte> source(kLane), seen(kLane);
  for (std::uint64_t round = 1; round <= 40; ++round) {
    for (std::size_t i = 0; i < kLane; ++i) source[i] = static_cast<std::byte>(generator());
    Completion sent;
    for (int peer = 0; peer < n.size(); ++peer) {
      Remote remote;
      TUTTI_REQUIRE_OK(n.fabric.arena_of(peer, &remote));
      auto& expected = model[static_cast<std::size_t>(peer)];
      for (int put = 0; put < 6; ++put) {
        const std::size_t bytes = generator() % (put == 0 ? kLane : 700);
        const std::size_t offset = generator() % (kLane - bytes + 1);
        const std::size_t from = generator() % (kLane - bytes + 1);
        std::memcpy(expected.data() + offset, source.data() + from, bytes);
        const Tail tail{lane(n.rank()) + kLane + kCacheLine - kLane % kCacheLine, round};
        TUTTI_REQUIRE_OK(n.fabric.put(remote, lane(n.rank()) + offset, source.data() + from, bytes,
                                      put == 5 ? &tail : nullptr, &sent));
      }
    }
    // Everybody answers each counter that has arrived; then the lanes hold what was put.
    for (int peer = 0; peer < n.size(); ++peer) {
      TUTTI_REQUIRE_OK(co_await outcome(
          n.reached(n.word(lane(peer) + kLane + kCacheLine - kLane % kCacheLine), round, peer)));
      Remote remote;
      TUTTI_REQUIRE_OK(n.fabric.arena_of(peer, &remote));
      const Tail answer{answers + static_cast<std::size_t>(n.rank()) * kCacheLine, round};
      TUTTI_REQUIRE_OK(n.fabric.put(remote, 0, nullptr, 0, &answer, nullptr));
    }
    TUTTI_REQUIRE_OK(co_await outcome(n.completed(sent)));
    for (int peer = 0; peer < n.size(); ++peer) {
      TUTTI_REQUIRE_OK(co_await outcome(
          n.reached(n.word(answers + static_cast<std::size_t>(peer) * kCacheLine), round, peer)));
      Remote remote;
      TUTTI_REQUIRE_OK(n.fabric.arena_of(peer, &remote));
      Completion read;
      TUTTI_REQUIRE_OK(n.fabric.get(remote, lane(n.rank()), seen.data(), kLane, &read));
      TUTTI_REQUIRE_OK(co_await outcome(n.completed(read)));
      TUTTI_REQUIRE(seen == model[static_cast<std::size_t>(peer)]);
    }
  }
  co_await n.barrier();
  co_return Status::success();
}

TEST_P(Conformance, RandomPutsAndGetsMatchAModel) {
  const auto seed = tutti::testing::random_seed();
  SCOPED_TRACE("seed " + std::to_string(seed));
  run(4, [seed](Node& n) { return soak(n, seed); });
}

}  // namespace
}  // namespace tutti::test
