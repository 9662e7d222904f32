#include "sim/catch_up.hpp"

namespace tutti::sim {

Task catch_up(Engine& engine, SimFabric& fabric, Membership& members) noexcept {
  for (Time until = 0; until < fabric.clock();) {
    until = (fabric.clock() + 999) / 1000 * 1000;
    co_await engine.reached(engine.clock(), until / 1000, members);
  }
  co_return Status::success();
}

}  // namespace tutti::sim
