// What tests of messages between a few ranks have in common.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

#include "core/job.hpp"
#include "p2p/messages.hpp"
#include "support/local_jobs.hpp"

namespace tutti::test {

/// So many bytes that differ by place and by `salt`.
inline std::vector<std::byte> pattern(std::size_t bytes, int salt) {
  std::vector<std::byte> data(bytes);
  for (std::size_t i = 0; i < bytes; ++i)
    data[i] = static_cast<std::byte>(i * 31 + i / 251 + static_cast<std::size_t>(salt));
  return data;
}

inline void barrier(Rank& r) { ASSERT_TRUE(r.job.run(r.team, Call{}).ok()); }

/// Two ranks talk to each other for the first time. A first message may wait here for its way to
/// the other. Who hears from that a second time has been heard by it, and what it sends from then
/// on leaves at once.
inline void greet(Rank& r) {
  char byte = 0;
  for (int i = 0; i < 2; ++i) {
    const Receipt receipt =
        r.job.messages().exchange(r.team, &byte, 1, 1 - r.rank, 0, &byte, 1, 1 - r.rank, 0);
    ASSERT_TRUE(receipt.status.ok());
  }
}

inline Settings settings_of(Rendezvous rendezvous, const char* fault = "") {
  Settings settings;
  settings.arena = std::size_t{128} << 20;
  settings.deadline_s = 60;
  settings.rendezvous = rendezvous;
  settings.fault = fault;
  return settings;
}

inline p2p::Counts counts(Rank& r) { return r.job.messages().counts(); }

}  // namespace tutti::test
