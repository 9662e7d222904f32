#include "lab/message.hpp"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace tutti::lab {

namespace {

constexpr std::size_t kMostDescriptors = 8;

void append_number(std::string* out, std::uint32_t value) {
  out->append(reinterpret_cast<const char*>(&value), sizeof value);
}

/// Takes text up to the next zero from the front of `rest`.
std::string take_text(std::string_view* rest) {
  const std::size_t end = rest->find('\0');
  if (end == std::string_view::npos) throw Problem("a request without its end");
  std::string text(rest->substr(0, end));
  rest->remove_prefix(end + 1);
  return text;
}

}  // namespace

Problem system_problem(const std::string& what) {
  return Problem(what + ": " + std::strerror(errno));
}

std::string encode(const Request& request) {
  std::string body;
  append_number(&body, static_cast<std::uint32_t>(request.words.size()));
  append_number(&body, static_cast<std::uint32_t>(request.variables.size()));
  const auto add = [&](const std::string& text) { body.append(text.c_str(), text.size() + 1); };
  add(request.folder);
  for (const std::string& word : request.words) add(word);
  for (const std::string& variable : request.variables) add(variable);
  std::string bytes;
  append_number(&bytes, static_cast<std::uint32_t>(body.size()));
  return bytes + body;
}

Request decode(std::string_view body) {
  std::uint32_t counts[2];
  if (body.size() < sizeof counts) throw Problem("a request that is too short");
  std::memcpy(counts, body.data(), sizeof counts);
  body.remove_prefix(sizeof counts);
  Request request;
  request.folder = take_text(&body);
  for (std::uint32_t i = 0; i < counts[0]; ++i) request.words.push_back(take_text(&body));
  for (std::uint32_t i = 0; i < counts[1]; ++i) request.variables.push_back(take_text(&body));
  if (request.words.empty()) throw Problem("a request without a command");
  return request;
}

bool send_with(int socket, std::string_view bytes, const std::vector<int>& descriptors) {
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMostDescriptors)];
  std::size_t sent = 0;
  while (sent < bytes.size()) {
    iovec part{const_cast<char*>(bytes.data()) + sent, bytes.size() - sent};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (sent == 0 && !descriptors.empty()) {
      const std::size_t size = sizeof(int) * descriptors.size();
      message.msg_control = control;
      message.msg_controllen = CMSG_SPACE(size);
      cmsghdr* header = CMSG_FIRSTHDR(&message);
      header->cmsg_level = SOL_SOCKET;
      header->cmsg_type = SCM_RIGHTS;
      header->cmsg_len = CMSG_LEN(size);
      std::memcpy(CMSG_DATA(header), descriptors.data(), size);
    }
    const ssize_t count = sendmsg(socket, &message, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    sent += static_cast<std::size_t>(count);
  }
  return true;
}

bool receive_with(int socket, std::size_t capacity, std::string* bytes,
                  std::vector<int>* descriptors) {
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMostDescriptors)];
  bytes->resize(capacity);
  iovec part{bytes->data(), capacity};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  ssize_t count;
  do {
    count = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  } while (count < 0 && errno == EINTR);
  bytes->resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  if (count <= 0) return false;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t number = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    const std::size_t before = descriptors->size();
    descriptors->resize(before + number);
    std::memcpy(descriptors->data() + before, CMSG_DATA(header), number * sizeof(int));
  }
  return true;
}

}  // namespace tutti::lab
