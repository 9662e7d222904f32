// The plugin libtutti-net-verbs.so: what it shows.
#include "base/log.hpp"
#include "fabric/verbs/verbs.hpp"

/// Whoever opens the plugin must be of the same version.
extern "C" [[gnu::visibility("default")]] const char* tutti_verbs_version() {
  return TUTTI_VERSION;
}

extern "C" [[gnu::visibility("default")]] tutti::FabricDescription tutti_describe_verbs() {
  return tutti::verbs::VerbsNetwork::describe();
}

/// Opens the network for whoever has opened the plugin (src/core/network.cpp), which was built from
/// the same source.
extern "C" [[gnu::visibility("default")]] tutti::Status tutti_open_verbs(
    const tutti::Settings& settings, std::unique_ptr<tutti::Network>* out, std::string* message) {
  tutti::log_setup(settings.log, -1);  // the plugin has a log of its own
  return tutti::verbs::VerbsNetwork::open(settings, out, message);
}
