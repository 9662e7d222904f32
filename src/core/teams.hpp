// The teams of a process: those in use, and those that it has given up and others perhaps have not.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "fabric/fabric.hpp"
#include "team/team.hpp"

namespace tutti {

/// Under the engine's lock.
class Teams final : public BlockCollector {
 public:
  explicit Teams(Fabric& fabric) noexcept : fabric_(fabric) {}
  Teams(const Teams&) = delete;
  Teams& operator=(const Teams&) = delete;

  void add(std::unique_ptr<Team> team);
  /// This end of a team is given up; its memory is kept until the other members have done so too.
  void release(Team& team) noexcept;
  /// The same of one that was never added.
  void release(std::unique_ptr<Team> team) { released_.push_back(std::move(team)); }
  /// Frees what everybody has given up by now.
  void sweep() noexcept;

  bool collect_blocks() noexcept override;

 private:
  Fabric& fabric_;
  std::unordered_map<const Team*, std::unique_ptr<Team>> used_;
  std::vector<std::unique_ptr<Team>> released_;
  std::uint64_t collected_ns_ = 0;  // when collect_blocks() looked last
  bool blocks_coming_ = false;      // what it saw
};

}  // namespace tutti
