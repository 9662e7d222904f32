// A process of a simulated machine that uses point-to-point messages. Private to src/sim.
#pragma once

#include <cstdint>
#include <memory>

#include "fabric/sim/sim.hpp"
#include "p2p/messages.hpp"
#include "team/team.hpp"

namespace tutti::sim {

struct Process {
  Process(SimFabric& its_fabric, const p2p::Options& options)
      : fabric(its_fabric),
        engine(its_fabric, WaitPolicy{}, HostPump{}, false),
        heap(its_fabric, Directory::bytes()),
        messages(engine, heap, options),
        blocks(heap, std::size_t{64} << 10, std::size_t{1} << 20),
        resources{engine, heap, directory, blocks} {}
  /// `members`: all ranks, which must outlive the process.
  Status open(const std::int32_t* members) noexcept {
    constexpr std::uint64_t kTeamId[2] = {0x73696d, 2};
    TUTTI_TRY(Directory::create(fabric, &directory));
    TUTTI_TRY(messages.open());
    return Team::create(resources, kTeamId, fabric.rank(), fabric.size(), members, true, &team);
  }
  FramePool& frames() noexcept { return engine.frames(); }

  SimFabric& fabric;
  Engine engine;
  ArenaHeap heap;
  Directory directory;
  p2p::Messages messages;
  BlockPool blocks;
  TeamResources resources;
  std::unique_ptr<Team> team;
};

}  // namespace tutti::sim
