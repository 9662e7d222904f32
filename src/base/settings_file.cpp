#include "base/settings_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>

#include "base/toml.hpp"

namespace tutti {
namespace {

constexpr std::size_t kLargestFile = std::size_t{1} << 20;

/// The whole of an open regular file; an error message otherwise.
std::optional<std::string> read_all(int fd, std::string* content) {
  struct stat info;
  if (::fstat(fd, &info) != 0) return std::string("cannot be read: ") + std::strerror(errno);
  if (!S_ISREG(info.st_mode)) return "cannot be read: not a regular file";
  if (static_cast<std::size_t>(info.st_size) > kLargestFile) {
    return "is larger than 1 MiB, so it is not a file of settings";
  }
  std::string buffer(static_cast<std::size_t>(info.st_size), '\0');
  std::size_t done = 0;
  while (done < buffer.size()) {
    const ssize_t got = ::read(fd, buffer.data() + done, buffer.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return std::string("cannot be read: ") + std::strerror(errno);
    if (got == 0) break;  // cut short while we read
    done += static_cast<std::size_t>(got);
  }
  buffer.resize(done);
  *content = std::move(buffer);
  return std::nullopt;
}

std::string number_text(auto number) {
  char text[64];
  const auto end = std::to_chars(text, text + sizeof text, number).ptr;
  return std::string(text, end);
}

FileEntry entry_of(std::string_view key, const toml::node& node) {
  FileEntry entry{std::string(key), {}, static_cast<int>(node.source().begin.line), true};
  if (const auto* text = node.as_string()) {
    entry.text = text->get();
  } else if (const auto* boolean = node.as_boolean()) {
    entry.text = boolean->get() ? "true" : "false";
  } else if (const auto* integer = node.as_integer()) {
    entry.text = number_text(integer->get());
  } else if (const auto* real = node.as_floating_point()) {
    entry.text = number_text(real->get());
  } else {
    entry.scalar = false;
  }
  return entry;
}

}  // namespace

bool read_settings_file(const std::string& path, std::vector<FileEntry>* entries,
                        std::string* why) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    *why = std::string("cannot be read: ") + std::strerror(errno);
    return false;
  }
  std::string content;
  const auto error = read_all(fd, &content);
  ::close(fd);
  if (error) {
    *why = *error;
    return false;
  }

  const toml::parse_result parsed = toml::parse(std::string_view(content), std::string_view(path));
  if (!parsed) {
    const auto& at = parsed.error().source().begin;
    *why = "line " + std::to_string(at.line) + ", column " + std::to_string(at.column) +
           ": not valid TOML: " + std::string(parsed.error().description());
    return false;
  }
  std::vector<FileEntry> found;
  for (const auto& [key, node] : parsed.table()) found.push_back(entry_of(key.str(), node));
  std::ranges::stable_sort(found, {}, &FileEntry::line);
  *entries = std::move(found);
  return true;
}

}  // namespace tutti
