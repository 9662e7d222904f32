// Job::create: settings, fabric, decorators, engine, and the agreement that all ranks have them.
#include <new>
#include <string>
#include <vector>

#include "base/log.hpp"
#include "core/job.hpp"
#include "fabric/shm/shm.hpp"
#include "fabric/wrap/decorate.hpp"

namespace tutti {
namespace {

class HostBootstrap final : public Bootstrap {
 public:
  explicit HostBootstrap(const Host& host) noexcept : host_(host) {}
  int rank() const noexcept override { return host_.rank; }
  int size() const noexcept override { return host_.size; }
  Status allgather(const void* in, void* out, std::size_t bytes) noexcept override {
    return host_.allgather(host_.self, in, out, bytes);
  }

 private:
  const Host& host_;
};

Status create_here(const Host& host, bool threads, Bootstrap& bootstrap, std::unique_ptr<Job>* out) {
  Settings settings;
  std::string message;
  const Status loaded = load_settings(&settings, &message);
  log_setup(settings.log, host.rank);
  if (!loaded.ok()) {
    log(LogLevel::error, "%s", message.c_str());
    // The others wait in connect's first exchange: it is entered all the same, and fails for all.
    settings.arena = 0;
  }
  std::unique_ptr<shm::ShmFabric> fabric;
  const Status connected = shm::ShmFabric::connect(bootstrap, settings, &fabric);
  if (!loaded.ok()) return loaded;
  TUTTI_TRY(connected);
  const auto node_ranks = static_cast<int>(fabric->neighbours().size());
  const int cores = fabric->node_cores();
  if (host.rank == 0 && node_ranks > 1 && settings.cma == Switch::automatic && !fabric->traits().user_memory) {
    log(LogLevel::warn,
        "the kernel refuses cross-memory attach between ranks (ptrace scope or seccomp): large "
        "messages are copied through shared memory instead");
  }
  std::unique_ptr<Fabric> decorated = wrap::decorate(std::move(fabric), settings, &message);
  if (!decorated) {
    log(LogLevel::error, "%s", message.c_str());
    return Status::error(Code::invalid_argument, "a setting is wrong");
  }
  std::unique_ptr<JobImpl> job;
  TUTTI_TRY(JobImpl::create(settings, std::move(decorated), node_ranks, cores,
                            HostPump{host.self, host.pump, host.host_pending}, threads, &job));
  *out = std::move(job);
  return Status::success();
}

}  // namespace

Status Job::create(const Host& host, bool threads, std::unique_ptr<Job>* out) {
  HostBootstrap bootstrap(host);
  std::unique_ptr<Job> job;
  const Status mine = create_here(host, threads, bootstrap, &job);
  // Nobody may use tutti unless all can: the last word on what each rank has reached.
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(host.size));
  const auto code = static_cast<std::uint8_t>(mine.code);
  TUTTI_TRY(bootstrap.allgather(&code, codes.data(), 1));
  if (!mine.ok()) return mine;
  for (std::size_t rank = 0; rank < codes.size(); ++rank) {
    if (codes[rank] != 0) return {static_cast<Code>(codes[rank]), static_cast<std::int32_t>(rank), "another rank failed"};
  }
  *out = std::move(job);
  return Status::success();
}

}  // namespace tutti
