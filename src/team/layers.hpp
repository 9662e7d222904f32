// The layers of a team that has several members on some of its nodes: teams of its members, in
// which its collectives are run one after the other.
#pragma once

#include <cstdint>
#include <memory>

#include "base/status.hpp"
#include "team/node_map.hpp"

namespace tutti {

class Team;

/// The layers of a team, as this rank sees them.
class Layers : public NodeMap {
 public:
  ~Layers();
  Layers(const Layers&) = delete;
  Layers& operator=(const Layers&) = delete;

  /// The members on this node, in the order of the team; nullptr when there is one.
  std::unique_ptr<Team> node;
  /// The first member of each node, in node order; nullptr unless this rank is one.
  std::unique_ptr<Team> leaders;
  /// This rank and those of the same place on the other nodes, where it is not the first one. Made
  /// when it is first wanted.
  std::unique_ptr<Team> lane;

  /// All members, for letters between any two of them; nullptr until it is settled, and where some
  /// member has no memory for it.
  std::unique_ptr<Team> everybody;

  /// Makes this end of it. Local; all members do so with the same collective, and then agree.
  Status open_everybody() noexcept;
  /// Whether all of them have done so.
  void settle_everybody(bool all) noexcept;
  bool settled_everybody() const noexcept { return settled_; }

  /// Where each node has as many members: the team of those that have the same place as this rank,
  /// one on each node (in node order), for algorithms in which every member is a leader. Local; all
  /// of them make it with the same collective.
  Status open_lane(Team** out) noexcept;

 private:
  friend class Team;
  explicit Layers(Team& whole) noexcept;
  /// Of all nodes, when the map is there.
  Status create();
  Status create_lane() noexcept;
  Status announce() noexcept;
  /// True once everybody has given up all of them.
  bool try_reclaim() noexcept;
  void id_of(int layer, std::uint64_t out[2]) const noexcept;

  Team& whole_;
  bool settled_ = false;
};

}  // namespace tutti
