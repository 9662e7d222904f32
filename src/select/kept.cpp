#include "select/kept.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>

namespace tutti {
namespace {

constexpr std::size_t kLargest = 1 << 20;  // bytes; a file of tutti's is far smaller

/// A rule's text by where it holds: section and sizes.
using Lines = std::map<std::pair<std::string, std::string>, std::string>;

std::string first_line(const std::string& host) {
  return "# tutti " TUTTI_VERSION " on " + host + ": kept by TUTTI_CHOICE, may be deleted";
}

std::string section_of(const Learnt& one) {
  const char* const place = one.place == Where::Place::node    ? "node"
                            : one.place == Where::Place::nodes ? "nodes"
                                                               : "layers";
  const char* const network = one.place == Where::Place::node ? ""
                              : one.bypass                    ? " network=bypass"
                                                              : " network=kernel";
  return std::string("[") + place + " ranks=" + std::to_string(one.size) +
         " processors=" + (one.scarce ? "scarce" : "own") + network + "]";
}

std::string sizes_of(const Learnt& one) {
  const std::string sizes =
      one.coll == Coll::barrier ? "*" : std::to_string(one.least) + ".." + std::to_string(one.most);
  return std::string(name(one.coll)) + ": " + sizes;
}

std::string comment_of(const Learnt& one) {
  char text[80];
  std::snprintf(text, sizeof text, " took %.2f times as long", one.ratio);
  return "    # " + rule_text(one.against) + text;
}

/// Empty where there is no such file, or none that can be used.
std::string read_text(const std::string& path, const std::string& host, std::string* message) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    if (errno != ENOENT) *message = path + ": " + std::strerror(errno);
    return "";
  }
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (text.size() > kLargest) {
    *message = path + " is larger than what tutti keeps";
  } else if (text.substr(0, text.find('\n')) != first_line(host)) {
    *message = path + " was not kept by this version of tutti on this MPI";
  } else {
    return text;
  }
  return "";
}

Lines lines_of(const std::string& text) {
  Lines lines;
  std::istringstream in(text);
  std::string section, line;
  while (std::getline(in, line)) {
    if (line.starts_with('[')) section = line;
    const std::size_t colon = line.find(": ");  // OP: SIZES ALGORITHM
    const std::size_t end = colon == std::string::npos ? colon : line.find(' ', colon + 2);
    if (!section.empty() && !line.starts_with('#') && end != std::string::npos)
      lines[{section, line.substr(0, end)}] = line.substr(end);
  }
  return lines;
}

std::string text_of(const Lines& lines, const std::string& host) {
  std::string text = first_line(host) + '\n';
  const std::string* section = nullptr;
  for (const auto& [where, rest] : lines) {
    if (section == nullptr || *section != where.first) text += where.first + '\n';
    section = &where.first;
    text += where.second + rest + '\n';
  }
  return text;
}

Status replace(const std::string& path, const std::string& text, std::string* message) {
  const std::string other = path + "." + std::to_string(getpid());
  std::FILE* const file = std::fopen(other.c_str(), "wxe");
  bool written = file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if (file != nullptr && std::fclose(file) != 0) written = false;
  if (written && std::rename(other.c_str(), path.c_str()) == 0) return Status::success();
  *message = path + ": " + std::strerror(errno);
  if (file != nullptr) std::remove(other.c_str());
  return Status::error(Code::not_permitted, "cannot be written");
}

}  // namespace

Rules read_kept(const std::string& path, const std::string& host, std::string* message) {
  Rules rules;
  const std::string text = read_text(path, host, message);
  if (text.empty() || !Rules::parse(text, path, &rules, message).ok()) return Rules{};
  return rules;
}

Status write_kept(const std::string& path, const std::string& host,
                  const std::vector<Learnt>& learnt, std::string* message) {
  std::string unusable;
  Rules rules;
  std::string text = read_text(path, host, &unusable);
  if (!Rules::parse(text, path, &rules, &unusable).ok()) text.clear();
  Lines lines = lines_of(text);
  for (const Learnt& one : learnt) {
    if (one.whole) continue;
    const std::pair<std::string, std::string> where{section_of(one), sizes_of(one)};
    if (!one.chosen) {
      lines[where] = ' ' + rule_text(one.taken) + comment_of(one);
    } else if (const auto known = lines.find(where); known != lines.end()) {
      // It has won against that one; of others it says nothing.
      if (known->second.starts_with(' ' + rule_text(one.against) + ' ')) lines.erase(known);
    }
  }
  return replace(path, text_of(lines, host), message);
}

}  // namespace tutti
