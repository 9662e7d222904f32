#include "fabric/wrap/decorate.hpp"

#include <utility>

#include "fabric/wrap/check.hpp"
#include "fabric/wrap/fault.hpp"
#include "fabric/wrap/trace.hpp"

namespace tutti::wrap {

std::unique_ptr<Fabric> decorate(std::unique_ptr<Fabric> fabric, const Settings& settings,
                                 std::string* message) {
  if (!settings.fault.empty()) {
    FaultSpec spec;
    if (!FaultSpec::parse(settings.fault, &spec, message)) return nullptr;
    fabric = std::make_unique<Fault>(std::move(fabric), spec);
  }
  if (settings.check == tutti::Check::contract) fabric = std::make_unique<Check>(std::move(fabric));
  if (!settings.trace.empty()) {
    fabric = Trace::open(std::move(fabric), settings.trace, message);
  }
  return fabric;
}

}  // namespace tutti::wrap
