#include "fabric/wrap/trace.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>

#include "base/log.hpp"

namespace tutti::wrap {
namespace {

constexpr std::size_t kEvents = 8192;  // gathered before they are written

}  // namespace

std::unique_ptr<Fabric> Trace::open(std::unique_ptr<Fabric> inner, const std::string& path,
                                    std::string* message) {
  const std::string own = path + "." + std::to_string(inner->rank());
  const int file = ::open(own.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file < 0) {
    *message = "TUTTI_TRACE: cannot write " + own + ": " + std::strerror(errno);
    return nullptr;
  }
  char head[128];
  const int length = std::snprintf(
      head, sizeof head,
      "[\n{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%d,\"args\":{\"name\":\"rank %d\"}}",
      inner->rank(), inner->rank());
  std::unique_ptr<Trace> trace(new Trace(std::move(inner), file));
  trace->events_.reserve(kEvents);
  trace->put_out(head, static_cast<std::size_t>(length));
  return trace;
}

Trace::~Trace() {
  write();
  put_out("\n]\n", 3);
  close(file_);
}

void Trace::put_out(const char* text, std::size_t bytes) noexcept {
  while (bytes != 0 && !failed_) {
    const ssize_t written = ::write(file_, text, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      failed_ = true;
      log(LogLevel::error, "TUTTI_TRACE: the trace is not complete: %s", std::strerror(errno));
      return;
    }
    text += written;
    bytes -= static_cast<std::size_t>(written);
  }
}

void Trace::write() noexcept {
  std::string text;
  char line[256];
  for (const Record& event : events_) {
    const double begin = static_cast<double>(event.begin_ns) / 1e3;
    const double duration = static_cast<double>(event.end_ns - event.begin_ns) / 1e3;
    const int length = std::snprintf(
        line, sizeof line,
        ",\n{\"name\":\"%s\",\"ph\":\"X\",\"pid\":%d,\"tid\":0,\"ts\":%.3f,\"dur\":%.3f,"
        "\"args\":{\"peer\":%d,\"bytes\":%" PRIu64 ",\"status\":\"%s\"}}",
        event.name, rank_, begin, duration, event.peer, event.bytes, name(event.code));
    text.append(line, static_cast<std::size_t>(length));
  }
  events_.clear();
  put_out(text.data(), text.size());
}

Status Trace::record(const char* operation, std::uint64_t begin_ns, std::int32_t peer,
                     std::size_t bytes, Status status) noexcept {
  events_.push_back({operation, begin_ns, now_ns(), bytes, peer, status.code});
  if (events_.size() == kEvents) write();
  return status;
}

Status Trace::expose(void* base, std::size_t bytes, Region* out) noexcept {
  const std::uint64_t begin = now_ns();
  return record("expose", begin, rank_, bytes, inner().expose(base, bytes, out));
}

void Trace::withdraw(Region& region) noexcept {
  const std::uint64_t begin = now_ns();
  const std::size_t bytes = region.bytes;
  inner().withdraw(region);
  static_cast<void>(record("withdraw", begin, rank_, bytes, Status::success()));
}

Status Trace::attach(std::int32_t peer, const Key& key, Remote* out) noexcept {
  const std::uint64_t begin = now_ns();
  const Status status = inner().attach(peer, key, out);
  return record("attach", begin, peer, status.ok() ? out->bytes : 0, status);
}

Status Trace::reserve(std::size_t offset, std::size_t bytes) noexcept {
  const std::uint64_t begin = now_ns();
  return record("reserve", begin, rank_, bytes, inner().reserve(offset, bytes));
}

Status Trace::put(const Remote& target, std::size_t offset, const void* source, std::size_t bytes,
                  const Tail* tail, Completion* completion, Event event) noexcept {
  const std::uint64_t begin = now_ns();
  const Status status = inner().put(target, offset, source, bytes, tail, completion, event);
  return record(tail == nullptr ? "put" : "put+tail", begin, target.peer, bytes, status);
}

Status Trace::get(const Remote& source, std::size_t offset, void* destination, std::size_t bytes,
                  Completion* completion) noexcept {
  const std::uint64_t begin = now_ns();
  return record("get", begin, source.peer, bytes,
                inner().get(source, offset, destination, bytes, completion));
}

void Trace::signal_virtually(std::int32_t peer, Word& word, std::uint64_t value) noexcept {
  const std::uint64_t begin = now_ns();
  inner().signal(peer, word, value);
  static_cast<void>(record("signal", begin, peer, sizeof value, Status::success()));
}

}  // namespace tutti::wrap
