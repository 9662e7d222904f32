// The models of MCAST-2007 and CDCP-2008, for the module tutti._core.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <stdexcept>

#include "bindings_sim.hpp"
#include "model/cdcp2008.hpp"
#include "model/mcast2007.hpp"
#include "team/multicast.hpp"

namespace nb = nanobind;
namespace model = tutti::model;

namespace {

/// A dict by algorithm of (microseconds, the last member's). Empty where the message is larger than
/// a datagram.
nb::dict multicast(const std::string& path, int nodes, std::size_t bytes, double timeout) {
  const tutti::sim::Network n = load_profile(path);
  if (nodes < 2 || !(timeout > 0)) throw std::invalid_argument("two nodes at least, and a timeout");
  nb::dict result;
  if (bytes > tutti::Multicast::fragment_bytes(n.mtu)) return result;
  const double last = model::multicast_mean(n, bytes, 0) +
                      model::longest_run(nodes - 1, n.loss) * model::ring_step(n, bytes);
  const auto both = [&](double us) { return nb::make_tuple(us, us); };
  result["multicast:chords=1"] = nb::make_tuple(model::multicast_mean(n, bytes, n.loss), last);
  result["multicast_linear_ack"] = both(model::linear_ack(n, nodes, bytes, n.loss, timeout));
  result["multicast_tree_ack"] = both(model::tree_ack(n, nodes, bytes, n.loss, timeout));
  result["multicast_coroot_ack"] = both(model::coroot_ack(n, nodes, bytes, n.loss, timeout));
  return result;
}

}  // namespace

void bind_models(nb::module_& module) {
  using namespace nb::literals;
  module.def("model_multicast", &multicast, "profile"_a, "nodes"_a, "bytes"_a,
             "timeout"_a = 1000.0);
  module.def(
      "model_dedicated",
      [](const std::string& path, int dcps, int apps, std::size_t bytes) {
        return model::dedicated_allreduce(load_profile(path), dcps, apps, bytes);
      },
      "profile"_a, "dcps"_a, "apps"_a, "bytes"_a);
  module.def(
      "model_dedicated_overhead",
      [](const std::string& path, std::size_t bytes) {
        return model::dedicated_overhead(load_profile(path), bytes);
      },
      "profile"_a, "bytes"_a);
  module.def("conventional_steps", &model::conventional_steps, "processors"_a);
  module.def("published_steps", &model::published_steps, "dcps"_a);
  module.def("corrected_steps", &model::corrected_steps, "dcps"_a);
}
