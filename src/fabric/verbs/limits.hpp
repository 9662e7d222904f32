// Numbers that the parts of the verbs network share.
#pragma once

#include <infiniband/verbs.h>
#include <time.h>

#include <cstdint>

namespace tutti::verbs {

inline constexpr std::uint32_t kSends = 64;         // work requests under way on a connection
inline constexpr std::uint32_t kReceives = 1024;    // of the pool that all connections share
inline constexpr std::uint32_t kFewReceives = 512;  // left of them: time to read what has come
inline constexpr std::uint32_t kInline = 128;  // bytes asked for that go along in a work request
inline constexpr std::uint32_t kLeastInline = 16;
inline constexpr int kBacklog = 1024;  // connections that wait to be accepted
inline constexpr std::uint64_t kReceiveId =
    0;  // work request number of every receive; others are addresses

inline constexpr std::uint32_t kRouteHeader = 40;     // bytes in front of a datagram
inline constexpr std::uint32_t kGroupSends = 64;      // datagrams under way out, of all groups
inline constexpr std::uint32_t kGroupReceives = 512;  // that a group may have; few are posted

inline std::uint64_t now_ns() noexcept {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec);
}

/// Adds receives to the pool. They hold no memory: only immediate data is received.
inline bool post_receives(ibv_srq* pool, int count) noexcept {
  ibv_recv_wr request{};
  request.wr_id = kReceiveId;
  ibv_recv_wr* bad = nullptr;
  for (int i = 0; i < count; ++i) {
    if (ibv_post_srq_recv(pool, &request, &bad) != 0) return false;
  }
  return true;
}

}  // namespace tutti::verbs
