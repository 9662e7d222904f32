// tutti-dcp: a dedicated collective processor. Started by a process of the program, with a socket
// to it as descriptor 3; says nothing itself, and leaves when the program's processes have.
#include <memory>
#include <string>

#include "base/settings.hpp"
#include "core/core.hpp"
#include "offload/start/helper.hpp"
#include "offload/start/processors.hpp"
#include "offload/start/socket.hpp"

namespace {

using tutti::Code;
using tutti::Status;
using tutti::offload::Welcome;

constexpr int kSocket = tutti::offload::kHelperDescriptor;  // to its leader

Status allgather(void* self, const void* in, void* out, std::size_t bytes) {
  const auto& welcome = *static_cast<const Welcome*>(self);
  const std::uint64_t length = bytes;
  const bool good =
      tutti::offload::write_all(kSocket, &length, sizeof length) &&
      tutti::offload::write_all(kSocket, in, bytes) &&
      tutti::offload::read_all(kSocket, out, bytes * static_cast<std::size_t>(welcome.size));
  return good ? Status::success() : Status::error(Code::peer_lost, "the program has ended");
}

}  // namespace

int main() {
  tutti::offload::begin_helper();
  Welcome welcome{};
  if (!tutti::offload::read_all(kSocket, &welcome, sizeof welcome) ||
      welcome.magic != tutti::offload::kWelcome)
    return 2;
  tutti::Settings settings;
  std::string message;
  if (!load_settings(&settings, &message).ok()) return 3;
  if (!tutti::offload::settle(welcome.place, settings).ok()) return 3;
  tutti::Host host;
  host.rank = welcome.rank;
  host.size = welcome.size;
  host.apps = welcome.apps;
  host.self = &welcome;
  host.allgather = &allgather;
  host.has_collectives = true;  // the program's
  std::unique_ptr<tutti::Job> job;
  if (!tutti::Job::create(host, false, &job).ok()) return 4;
  job->serve();
  return 0;
}
