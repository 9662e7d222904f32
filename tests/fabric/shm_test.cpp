// The shm fabric in the conformance suite, in each of its forms.
#include <gtest/gtest.h>

#include <vector>

#include "fabric/conformance.hpp"
#include "fabric/shm_world.hpp"

namespace tutti::test {
namespace {

std::vector<WorldFactory> worlds() {
  std::vector<WorldFactory> all;
  for (const Switch cma : {Switch::on, Switch::off}) {
    for (const SegmentKind segment : {SegmentKind::memfd, SegmentKind::posix}) {
      Settings settings;
      settings.arena = std::size_t{64} << 20;
      settings.cma = cma;
      settings.segment = segment;
      const std::string form = std::string(segment == SegmentKind::memfd ? "Memfd" : "Posix") +
                               (cma == Switch::on ? "WithCma" : "WithoutCma");
      all.push_back({"Threads" + form, [settings] { return make_thread_world(settings); }});
#ifndef __SANITIZE_THREAD__  // which cannot see other processes
      all.push_back({"Processes" + form, [settings] { return make_process_world(settings); }});
#endif
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Shm, Conformance, ::testing::ValuesIn(worlds()), world_name);

}  // namespace
}  // namespace tutti::test
