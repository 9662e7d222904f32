// The shm fabric in the conformance suite, in each of its forms.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <vector>

#include "fabric/conformance.hpp"
#include "fabric/shm_world.hpp"

namespace tutti::test {
namespace {

std::vector<WorldFactory> worlds() {
  std::vector<WorldFactory> all;
  for (const Switch cma : {Switch::on, Switch::off}) {
    for (const SegmentKind segment : {SegmentKind::memfd, SegmentKind::posix}) {
      Settings settings;
      settings.arena = std::size_t{64} << 20;
      settings.cma = cma;
      settings.segment = segment;
      const std::string form = std::string(segment == SegmentKind::memfd ? "Memfd" : "Posix") +
                               (cma == Switch::on ? "WithCma" : "WithoutCma");
      all.push_back({"Threads" + form, [settings] { return make_thread_world(settings); }});
#ifndef __SANITIZE_THREAD__  // which cannot see other processes
      all.push_back({"Processes" + form, [settings] { return make_process_world(settings); }});
#endif
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Shm, Conformance, ::testing::ValuesIn(worlds()), world_name);

/// The calling thread runs on the index-th of its processors from here on; gives that one's NUMA
/// domain, -1: refused.
int bind(int index) {
  cpu_set_t allowed, one;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return -1;
  index %= CPU_COUNT(&allowed);
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &allowed) && index-- == 0) CPU_SET(cpu, &one);
  }
  unsigned domain = 0;
  if (sched_setaffinity(0, sizeof one, &one) != 0) return -1;
  return syscall(SYS_getcpu, nullptr, &domain, nullptr) == 0 ? static_cast<int>(domain) : -1;
}

/// In which NUMA domain each page of [begin, begin + bytes) lies, or minus an error. Empty where
/// the system does not say: `errno`.
std::vector<int> domains_of(const std::byte* begin, std::size_t bytes) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  std::vector<const void*> pages;
  for (std::size_t at = 0; at < bytes; at += page) pages.push_back(begin + at);
  std::vector<int> domains(pages.size(), -1);
  const long code =
      syscall(SYS_move_pages, 0, pages.size(), pages.data(), nullptr, domains.data(), 0);
  return code == 0 ? domains : std::vector<int>();
}

constexpr std::size_t kOffset = std::size_t{1} << 20, kBytes = std::size_t{256} << 10;

/// Each rank reserves memory, and all of them see it where its owner runs.
Task see_pages(Node& n) {
  const std::uint64_t own = static_cast<std::uint64_t>(bind(n.rank()));
  TUTTI_REQUIRE(static_cast<int>(own) >= 0);
  TUTTI_REQUIRE_OK(n.fabric.reserve(kOffset, kBytes));
  const std::vector<int> mine = domains_of(n.arena() + kOffset, kBytes);
  EXPECT_EQ(mine, std::vector<int>(mine.size(), static_cast<int>(own))) << "rank " << n.rank();
  for (int peer = 0; peer < n.size(); ++peer)
    if (peer != n.rank()) TUTTI_REQUIRE_OK(n.send(peer, &own, sizeof own));
  for (int peer = 0; peer < n.size(); ++peer) {
    if (peer == n.rank()) continue;
    std::uint64_t domain = 0;
    co_await n.receive(peer, &domain, sizeof domain);
    Remote arena;
    co_await n.fabric.arena_of(peer, &arena);
    const std::byte* const memory = static_cast<const std::byte*>(arena.mapped) + kOffset;
    for (std::size_t at = 0; at < kBytes; at += 64) EXPECT_EQ(memory[at], std::byte{0});
    const std::vector<int> theirs = domains_of(memory, kBytes);
    EXPECT_EQ(theirs, std::vector<int>(theirs.size(), static_cast<int>(domain)))
        << "rank " << n.rank() << " sees rank " << peer;
  }
  co_await n.barrier();
  co_return Status::success();
}

class ShmPages : public ::testing::TestWithParam<WorldFactory> {};

TEST_P(ShmPages, LieInTheNumaDomainOfTheirOwner) {
  const std::byte probe{1};
  if (domains_of(&probe, 1).empty())
    GTEST_SKIP() << "the system does not say where pages are: " << std::strerror(errno);
  if (!std::filesystem::exists("/sys/devices/system/node/node1"))
    std::puts("one NUMA domain: this sees that all pages are there, and none can be elsewhere");
  for (const Outcome& outcome : GetParam().make()->run(4, see_pages))
    EXPECT_TRUE(outcome.status.ok()) << name(outcome.status.code);
}

INSTANTIATE_TEST_SUITE_P(Shm, ShmPages, ::testing::ValuesIn(worlds()), world_name);

}  // namespace
}  // namespace tutti::test
