// Simulated multicast: datagrams to a group through the crossbar or the fat tree, with loss,
// duplication and reordering by seed.
//
// The sender's NIC sends once; switches copy. In a fat tree a datagram takes one up-link and one
// down-link per leaf with members. A node's NIC receives it once for all members of the node. Each
// copy to a node may be lost, doubled, or delayed behind later ones. A member that has no receive
// posted loses it, as with verbs UD. The bytes are always carried, since protocols read numbers
// from them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "fabric/fabric.hpp"

namespace tutti::sim {

class SimFabric;
class World;

/// Shared by the copies of a cast, until one of them is damaged.
using Datagram = std::shared_ptr<const std::vector<std::byte>>;

/// What a member has received and not yet taken.
struct Mailbox {
  std::deque<Datagram> datagrams;
  Datagram viewed;        // what view() has given last
  std::size_t depth = 0;  // receives that are posted when none is in use
  Datagrams::Counts counts;
  Word arrivals{0};
};

struct Group {
  std::map<int, Mailbox*> members;  // by rank
};

/// A datagram on its way: shared by its copies.
struct Flight {
  Group* group = nullptr;
  Datagram data;
  int copies = 0;
};

/// All groups of a machine.
class Groups {
 public:
  Group* of(const std::uint64_t id[2]) { return &groups_[{id[0], id[1]}]; }

 private:
  std::map<std::array<std::uint64_t, 2>, Group> groups_;  // stable addresses
};

/// One rank's side.
class SimDatagrams final : public Datagrams {
 public:
  SimDatagrams(World& world, SimFabric& fabric) noexcept : world_(world), fabric_(fabric) {}
  ~SimDatagrams() override;
  Status join(const std::uint64_t id[2], int depth, int* out) noexcept override;
  void leave(int group) noexcept override;
  Status cast(int group, const void* data, std::size_t bytes) noexcept override;
  std::size_t receive(int group, void* out, std::size_t capacity) noexcept override;
  const std::byte* view(int group, std::size_t* bytes) noexcept override;
  void deepen(int group, int depth) noexcept override;
  std::size_t room(int group) const noexcept override {
    return joined(group) ? boxes_[static_cast<std::size_t>(group)].box->depth : 0;
  }
  const Word& arrivals(int group) const noexcept override {
    return boxes_[static_cast<std::size_t>(group)].box->arrivals;
  }
  Counts counts(int group) const noexcept override {
    return boxes_[static_cast<std::size_t>(group)].box->counts;
  }

 private:
  struct Membership {
    Group* group = nullptr;  // nullptr: left
    std::unique_ptr<Mailbox> box;
  };
  bool joined(int group) const noexcept {
    return group >= 0 && static_cast<std::size_t>(group) < boxes_.size() &&
           boxes_[static_cast<std::size_t>(group)].group != nullptr;
  }
  World& world_;
  SimFabric& fabric_;
  std::vector<Membership> boxes_;
};

}  // namespace tutti::sim
