// A process that has computed looks at what has happened meanwhile. Private to src/sim.
#pragma once

#include "engine/engine.hpp"
#include "fabric/sim/sim.hpp"

namespace tutti::sim {

/// Everything that reaches this rank before its own time is handled now: whoever computed sees it
/// in the next call, and an interrupt's handler has made the computation longer.
Task catch_up(Engine& engine, SimFabric& fabric, Membership& members) noexcept;

}  // namespace tutti::sim
