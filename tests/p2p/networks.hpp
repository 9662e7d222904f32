// The network between nodes of tests of messages: libfabric's, or, in the virtual machine of
// tests/verbs-vm, verbs on one device for each rank.
#pragma once

#include <memory>
#include <string>

#include "support/local_jobs.hpp"
#ifdef TUTTI_TEST_VERBS
#include "fabric/verbs/verbs.hpp"
#endif

namespace tutti::test {

#ifdef TUTTI_TEST_VERBS
inline Status open_between(const Settings& settings, int rank, std::unique_ptr<Network>* out,
                           std::string* message) {
  constexpr int kDevices = 4;
  Settings own = settings;
  own.net_interface = std::string("e").append(std::to_string(rank % kDevices));
  return verbs::VerbsNetwork::open(own, out, message);
}
/// The guest has little memory, and a device registers arenas whole.
inline constexpr std::size_t kArenaBetween = std::size_t{32} << 20;
#else
inline const OpenNetwork open_between = open_ofi;
inline constexpr std::size_t kArenaBetween = std::size_t{128} << 20;
#endif

}  // namespace tutti::test
