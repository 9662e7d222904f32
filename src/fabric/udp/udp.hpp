// Datagrams by IP multicast: a socket for each group.
//
// The receive buffer of the socket is what posted receives are elsewhere: it holds what arrives
// until receive() takes it. Other ranks of the machine receive as well (IP_MULTICAST_LOOP), so that
// nodes may be processes of one machine; the own datagrams come back and are dropped by their
// sender's number.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "fabric/groups/groups.hpp"
#include "fabric/groups/losses.hpp"
#include "fabric/network.hpp"
#include "fabric/udp/family.hpp"
#include "fabric/udp/interface.hpp"

namespace tutti::udp {

class UdpDatagrams final : public NetworkDatagrams {
 public:
  ~UdpDatagrams() override;

  /// `rank`: of the job; `family` and `secret`: the same on all ranks. On failure `*message` says
  /// in one line why.
  static Status open(Family family, const std::string& interface, int rank,
                     const groups::Secret& secret, std::unique_ptr<UdpDatagrams>* out,
                     std::string* message);

  Status join(const std::uint64_t id[2], int depth, int* out) noexcept override;
  void leave(int group) noexcept override;
  Status cast(int group, const void* data, std::size_t bytes) noexcept override;
  std::size_t receive(int group, void* out, std::size_t capacity) noexcept override;
  const std::byte* view(int group, std::size_t* bytes) noexcept override;
  void deepen(int group, int depth) noexcept override;
  std::size_t room(int group) const noexcept override;
  const Word& arrivals(int group) const noexcept override;
  Counts counts(int group) const noexcept override;

  std::size_t datagram_bytes() const noexcept override { return datagram_bytes_; }
  const char* place() const noexcept override { return interface_.name.c_str(); }
  int descriptor() const noexcept override { return epoll_; }
  bool progress() noexcept override;

  /// What the kernel keeps for a group until it is taken, as it counts it.
  std::size_t buffer_bytes(int group) const noexcept;
  groups::GroupName name_of(const std::uint64_t id[2]) const noexcept {
    return groups::name_group(secret_, id);
  }

 private:
  static constexpr std::size_t kLongest = 8972;  // a jumbo frame's; the loopback would take more
  // Datagrams that are looked at without a pause: whoever sends faster than they can be looked at,
  // ranks of the job or not, must not keep the caller from everything else.
  static constexpr int kMostForeign = 64;
  static constexpr int kMostAtOnce = 4096;

  struct Group {
    int socket = -1;
    std::uint64_t id[2] = {0, 0};
    groups::GroupName name;
    Word arrivals{0};  // written by whoever looks: the network's thread, or the application's
    // From here on under the engine's lock.
    Counts counts;
    groups::Losses losses;
    int at_once = 0;  // taken since none was left
    std::byte viewed[kLongest];
  };
  UdpDatagrams(Family family, Interface interface, int rank, const groups::Secret& secret) noexcept;
  Status open_socket(Group& group, int depth) noexcept;
  std::size_t buffer_for(int depth) const noexcept;
  void set_buffer(int socket, int depth) const noexcept;
  Group* at(int group) const noexcept;
  const std::byte* pause(Group& group) const noexcept;

  const Family family_;
  const Interface interface_;
  const std::uint32_t rank_;
  const groups::Secret secret_;
  std::size_t datagram_bytes_ = 0;
  int epoll_ = -1;
  std::atomic<int> joined_{0};  // groups, so that progress() costs nothing without any
  std::mutex mutex_;            // groups_ against progress()
  std::vector<std::unique_ptr<Group>> groups_;
};

}  // namespace tutti::udp
