// Networks for tests of the simulation.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "fabric/sim/network.hpp"

namespace tutti::sim::test {

/// A profile of the source tree.
inline Network profile(const std::string& name) {
  Network network;
  std::string message;
  EXPECT_TRUE(
      load_network(std::string(TUTTI_PROFILES) + "/" + name + ".toml", &network, &message).ok())
      << message;
  return network;
}

}  // namespace tutti::sim::test
