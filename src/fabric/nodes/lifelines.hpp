// Whether a process on another node still exists, asked of the kernels instead of the process:
// while a connection to the port that its network listens on stands, it may be stopped (a
// debugger, swapping) and still lives; a port that refuses belongs to a process that has ended.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <mutex>
#include <unordered_map>

#include "fabric/network.hpp"

namespace tutti::nodes {

class Lifelines final : public PeerHealth {
 public:
  ~Lifelines() override;

  /// The port that rank `peer` listens on. Before anybody asks.
  void know(std::int32_t peer, const sockaddr_storage& address);
  /// A connection that says nothing for so long is not one any more.
  void set_timeout(std::uint64_t nanoseconds) noexcept { timeout_ns_ = nanoseconds; }
  /// What is known now; the connection is made with the first question, and looked at at most every
  /// few milliseconds. Never blocks; any thread.
  Verdict ask(std::int32_t peer, std::uint64_t now_ns) noexcept override;
  /// The peer has answered by itself.
  void release(std::int32_t peer) noexcept;

 private:
  struct Line {
    sockaddr_storage address{};
    int socket = -1;
    bool connected = false;
    std::uint64_t asked_ns = 0;
    Verdict verdict = Verdict::unknown;
  };
  void open(Line& line) noexcept;
  void look(Line& line) noexcept;
  static void close(Line& line) noexcept;

  std::mutex mutex_;  // of all of it; nothing else is locked while it is held
  std::unordered_map<std::int32_t, Line> lines_;
  std::uint64_t timeout_ns_ = 0;
};

}  // namespace tutti::nodes
