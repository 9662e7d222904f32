#include "offload/start/processors.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <new>

#include "fabric/ofi/library.hpp"
#include "offload/mapping.hpp"
#include "offload/start/helper.hpp"
#include "offload/start/socket.hpp"

extern char** environ;

namespace tutti::offload {
namespace {

constexpr int kLeaveMs = 10'000;  // that helpers have to leave in

bool begins_with(const char* text, const char* beginning) noexcept {
  return std::strncmp(text, beginning, std::strlen(beginning)) == 0;
}

/// The environment of a helper: this one's, without what would make it a program of the MPI's.
/// `libfabric`: the setting that names the one to open, which lives as long as the result; empty:
/// this one's.
std::vector<char*> helper_environment(std::string* libfabric) {
  std::vector<char*> result;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const bool replaced = !libfabric->empty() && begins_with(*entry, "TUTTI_LIBFABRIC=");
    if (!replaced && !begins_with(*entry, "LD_PRELOAD=")) result.push_back(*entry);
  }
  if (!libfabric->empty()) result.push_back(libfabric->data());
  result.push_back(nullptr);
  return result;
}

}  // namespace

Status Processors::plan(const Settings& settings, std::string* message) {
  Ratio ratio;
  Introduction me = introduce(settings);
  const Status parsed = parse_ratio(settings.dcp, &ratio, message);
  me.code = static_cast<std::uint64_t>(parsed.code);
  std::vector<Introduction> all(static_cast<std::size_t>(host_.size));
  TUTTI_TRY(host_.allgather(host_.self, &me, all.data(), sizeof me));
  std::map<std::uint64_t, std::size_t> numbers;
  std::vector<int> apps, leaders;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].code != 0) {
      return parsed.ok() ? Status::error(static_cast<Code>(all[rank].code), "another rank failed")
                         : parsed;
    }
    const auto [found, added] = numbers.try_emplace(all[rank].node, apps.size());
    if (added) {
      apps.push_back(0);
      leaders.push_back(static_cast<int>(rank));
    }
    ++apps[found->second];
  }
  const std::vector<int> wanted = processors_of_nodes(ratio, apps);
  helpers_.assign(all.size(), 0);
  for (std::size_t node = 0; node < apps.size(); ++node)
    helpers_[static_cast<std::size_t>(leaders[node])] = wanted[node];
  const auto mine = static_cast<std::size_t>(host_.rank);
  mine_ = helpers_[mine];
  most_ = *std::max_element(helpers_.begin(), helpers_.end());
  size_ = host_.size;
  welcome_ = Welcome{kWelcome, host_.size, 0, host_.size, {}};
  Place& place = welcome_.place;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    size_ += helpers_[rank];
    if (rank < mine) welcome_.rank += helpers_[rank];
    if (all[rank].machine != me.machine) continue;
    place.machine_helpers += helpers_[rank];
    if (rank < mine) place.index += helpers_[rank];
    ++place.machine_ranks;
    for (int i = 0; i < 16; ++i) place.cpus[i] |= all[rank].cpus[i];
  }
  welcome_.size = size_;
  return Status::success();
}

Status Processors::spawn(const std::string& program, std::string* message) {
  // An MPI has one of its own, with which one of another version does not communicate.
  std::string libfabric = ofi::loaded_library();
  if (!libfabric.empty()) libfabric.insert(0, "TUTTI_LIBFABRIC=");
  std::vector<char*> environment = helper_environment(&libfabric);
  std::string name = "tutti-dcp";
  char* const arguments[] = {name.data(), nullptr};
  for (int i = 0; i < mine_; ++i) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
      *message = std::string("no socket for a dedicated processor: ") + std::strerror(errno);
      return Status::error(Code::no_memory, "no socket for a dedicated processor");
    }
    const int error = start_helper(program, arguments, ends[1], environment.data());
    close(ends[1]);
    sockets_.push_back(ends[0]);
    if (error != 0) {
      *message = "cannot start " + program + ": " + std::strerror(error);
      return Status::error(Code::not_permitted, "cannot start a dedicated processor");
    }
  }
  return Status::success();
}

Status Processors::welcome() {
  Welcome next = welcome_;
  for (const int socket : sockets_) {
    if (!write_all(socket, &next, sizeof next))
      return Status::error(Code::peer_lost, "a dedicated processor ended as soon as it started");
    ++next.rank;
    ++next.place.index;
  }
  return Status::success();
}

Status Processors::start(const Host& host, const Settings& settings, const std::string& program,
                         std::unique_ptr<Processors>* out, std::string* message) {
  std::unique_ptr<Processors> processors(new Processors(host));
  TUTTI_TRY(processors->plan(settings, message));
  Status status = processors->spawn(program, message);
  if (status.ok()) status = processors->welcome();
  const auto code = static_cast<std::uint8_t>(status.code);
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(host.size));
  TUTTI_TRY(host.allgather(host.self, &code, codes.data(), 1));
  TUTTI_TRY(status);
  for (const std::uint8_t one : codes) {
    if (one != 0) return Status::error(static_cast<Code>(one), "another rank failed");
  }
  *out = std::move(processors);
  return Status::success();
}

Processors::~Processors() {
  for (const int socket : sockets_) {
    // Whoever still starts sees the end of what it reads; whoever has served ends by itself.
    shutdown(socket, SHUT_WR);
    pollfd entry{socket, POLLIN, 0};
    while (poll(&entry, 1, kLeaveMs) < 0 && errno == EINTR) {
    }
    close(socket);
  }
}

// ---- the exchange

Host Processors::host() const noexcept {
  Host host = host_;
  host.size = size_;
  host.apps = host_.size;
  host.self = const_cast<Processors*>(this);
  host.allgather = &Processors::allgather;
  return host;
}

/// A part of `bytes` from each of this rank's helpers.
bool Processors::receive_parts(std::byte* parts, std::size_t bytes) noexcept {
  bool good = true;
  for (std::size_t i = 0; i < sockets_.size(); ++i) {
    std::uint64_t length = 0;
    good = good && read_all(sockets_[i], &length, sizeof length) && length == bytes &&
           read_all(sockets_[i], parts + i * bytes, bytes);
  }
  return good;
}

bool Processors::send_all(const void* data, std::size_t bytes) noexcept {
  bool good = true;
  for (const int socket : sockets_) good = write_all(socket, data, bytes) && good;
  return good;
}

/// Each rank of the program brings its own part and those of its helpers, and gives its helpers the
/// whole. What goes wrong with a helper of any rank is a failure on all.
Status Processors::allgather(void* self, const void* in, void* out, std::size_t bytes) {
  auto& me = *static_cast<Processors*>(self);
  const std::size_t block = 8 + (1 + static_cast<std::size_t>(me.most_)) * bytes;
  const auto ranks = static_cast<std::size_t>(me.host_.size);
  std::vector<std::byte> mine(block), all(block * ranks);
  std::memcpy(mine.data() + 8, in, bytes);
  mine[0] = static_cast<std::byte>(me.receive_parts(mine.data() + 8 + bytes, bytes) ? 0 : 1);
  TUTTI_TRY(me.host_.allgather(me.host_.self, mine.data(), all.data(), block));
  auto* const result = static_cast<std::byte*>(out);
  std::byte* helper = result + ranks * bytes;
  bool good = true;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const std::byte* from = all.data() + rank * block;
    good = good && from[0] == std::byte{0};
    std::memcpy(result + rank * bytes, from + 8, bytes);
    const std::size_t theirs = static_cast<std::size_t>(me.helpers_[rank]) * bytes;
    std::memcpy(helper, from + 8 + bytes, theirs);
    helper += theirs;
  }
  if (!good) return Status::error(Code::peer_lost, "a dedicated processor ended while it started");
  // A helper that is gone brings nothing to the next exchange, where all ranks see it.
  static_cast<void>(me.send_all(out, static_cast<std::size_t>(me.size_) * bytes));
  return Status::success();
}

}  // namespace tutti::offload
