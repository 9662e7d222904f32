#include "core/network.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include "base/log.hpp"
#include "fabric/ofi/ofi.hpp"

namespace tutti {
namespace {

constexpr const char* kPlugin = "libtutti-net-verbs.so";
constexpr const char* kConnectionManager = "/dev/infiniband/rdma_cm";

using OpenVerbs = Status (*)(const Settings&, std::unique_ptr<Network>*, std::string*);
using Version = const char* (*)();

/// The folder of the library or program that this code is in.
std::string own_folder() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(&open_network), &info) == 0 || info.dli_fname == nullptr)
    return ".";
  const std::string path = info.dli_fname;
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

/// Beside the MPI plugins, or below the C library; never closed again.
void* open_plugin() {
  const std::string folder = own_folder();
  for (const char* place : {"/", "/tutti/", "/lib/"}) {
    const std::string path = folder + place + kPlugin;
    if (access(path.c_str(), R_OK) != 0) continue;
    if (void* plugin = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return plugin;
  }
  return dlopen(kPlugin, RTLD_NOW | RTLD_LOCAL);
}

Status open_verbs(const Settings& settings, std::unique_ptr<Network>* out, std::string* message) {
  void* plugin = open_plugin();
  if (plugin == nullptr) {
    const char* why = dlerror();
    *message =
        std::string(kPlugin) + " cannot be opened: " + (why != nullptr ? why : "no reason given");
    return Status::error(Code::unsupported, "no plugin for verbs");
  }
  const auto version = reinterpret_cast<Version>(dlsym(plugin, "tutti_verbs_version"));
  const auto open = reinterpret_cast<OpenVerbs>(dlsym(plugin, "tutti_open_verbs"));
  if (version == nullptr || open == nullptr || std::string(version()) != TUTTI_VERSION) {
    *message = std::string(kPlugin) + " is of another version of tutti";
    return Status::error(Code::version_mismatch, "another version of the plugin for verbs");
  }
  return open(settings, out, message);
}

}  // namespace

Status open_network(const Settings& settings, std::unique_ptr<Network>* out, std::string* message) {
  if (settings.net_provider == "verbs") return open_verbs(settings, out, message);
  if (settings.net_provider.empty() && access(kConnectionManager, R_OK | W_OK) == 0) {
    if (open_verbs(settings, out, message).ok()) return Status::success();
    log(LogLevel::info, "no verbs, so libfabric: %s", message->c_str());
    message->clear();
  }
  return ofi::OfiNetwork::open(settings, out, message);
}

}  // namespace tutti
