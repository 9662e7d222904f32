#include "core/network.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include "base/log.hpp"
#include "fabric/ofi/ofi.hpp"
#include "fabric/shm/shm.hpp"

namespace tutti {
namespace {

constexpr const char* kPlugin = "libtutti-net-verbs.so";
constexpr const char* kConnectionManager = "/dev/infiniband/rdma_cm";

using OpenVerbs = Status (*)(const Settings&, std::unique_ptr<Network>*, std::string*);
using DescribeVerbs = FabricDescription (*)();
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

/// Beside the MPI plugins, below the C library, or where the command line's module belongs to
/// either; never closed again.
void* open_plugin() {
  const std::string folder = own_folder();
  for (const char* place : {"/", "/tutti/", "/lib/", "/../../"}) {
    const std::string path = folder + place + kPlugin;
    if (access(path.c_str(), R_OK) != 0) continue;
    if (void* plugin = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return plugin;
  }
  return dlopen(kPlugin, RTLD_NOW | RTLD_LOCAL);
}

/// What the plugin shows: nullptr for a function of another version of tutti.
template <class Function>
Function find(void* plugin, const char* name) {
  const auto version = reinterpret_cast<Version>(dlsym(plugin, "tutti_verbs_version"));
  if (version == nullptr || std::string(version()) != TUTTI_VERSION) return nullptr;
  return reinterpret_cast<Function>(dlsym(plugin, name));
}

Status open_verbs(const Settings& settings, std::unique_ptr<Network>* out, std::string* message) {
  void* plugin = open_plugin();
  if (plugin == nullptr) {
    const char* why = dlerror();
    *message =
        std::string(kPlugin) + " cannot be opened: " + (why != nullptr ? why : "no reason given");
    return Status::error(Code::unsupported, "no plugin for verbs");
  }
  const auto open = find<OpenVerbs>(plugin, "tutti_open_verbs");
  if (open == nullptr) {
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

std::vector<FabricDescription> describe_fabrics() {
  std::vector<FabricDescription> all = {shm::ShmFabric::describe(), ofi::OfiNetwork::describe()};
  void* plugin = open_plugin();
  const auto verbs =
      plugin != nullptr ? find<DescribeVerbs>(plugin, "tutti_describe_verbs") : nullptr;
  if (verbs != nullptr) all.push_back(verbs());
  return all;
}

}  // namespace tutti
