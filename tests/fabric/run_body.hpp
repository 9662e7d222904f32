// One rank of a World in real time: its fabric, an engine, and the body.
#pragma once

#include <functional>
#include <memory>

#include "base/settings.hpp"
#include "engine/engine.hpp"
#include "fabric/world.hpp"

namespace tutti::test {

inline constexpr double kBodyDeadline = 20;  // seconds after which a body that waits is a failure

/// Runs the body on one rank. `ready` is called when the control area is reserved and comes back
/// when all ranks have got there; `over` likewise when the body has ended.
template <class Ready, class Over>
Status run_body(Fabric& fabric, const Settings& settings, int cores, std::function<void()> die,
                const NodeBody& body, Ready ready, Over over) {
  const Status reserved = fabric.reserve(0, Node::kControlBytes);
  ready();
  Settings bounded = settings;
  bounded.deadline_s = kBodyDeadline;
  bool between_nodes = false;
  for (std::int32_t peer = 0; peer < fabric.size(); ++peer)
    between_nodes = between_nodes || (fabric.reaches(peer) && !fabric.maps(peer));
  // The machine may have other things to do; between nodes that is known there.
  if (!between_nodes) bounded.spin_us = 100;
  Engine engine(fabric, choose_wait_policy(fabric.size(), cores, between_nodes, bounded),
                HostPump{}, false);
  auto node = std::make_unique<Node>(fabric, engine, std::move(die));
  Engine::Guard guard(engine);
  const Status status = reserved.ok() ? engine.run([&] { return body(*node); }, guard) : reserved;
  over();
  return status;
}

}  // namespace tutti::test
