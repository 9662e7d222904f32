// tutti-lab-agent [options] NODE COMMAND ...
//
// Stands in for ssh when a launcher starts its helpers on the nodes of a lab. As with ssh, the
// command's words are joined by spaces and given to a shell, which runs on the node in the caller's
// folder and environment; its exit status is the agent's.
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstring>
#include <string>

#include "lab/message.hpp"

extern char** environ;

namespace tutti::lab {
namespace {

constexpr int kFailed = 255;  // as ssh says that it did not reach the host

int connect_to_lab() {
  const int connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, kAgentAddress.data(), kAgentAddress.size());
  const auto length =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + kAgentAddress.size());
  if (connection < 0 || connect(connection, reinterpret_cast<sockaddr*>(&address), length) != 0) {
    throw system_problem("no lab here (tutti-lab-agent works only in the nodes of tutti lab)");
  }
  return connection;
}

std::string working_folder() {
  char path[4096];
  return getcwd(path, sizeof path) ? path : "/";
}

int run(int argc, char** argv) {
  int at = 1;
  while (at < argc && argv[at][0] == '-') ++at;  // -x, -q: nothing that matters here
  if (at + 1 >= argc) throw Problem("usage: tutti-lab-agent NODE COMMAND ...");
  const std::string node = argv[at];
  if (node.size() >= kNodeNameBytes) throw Problem("no node '" + node + "'");
  std::string command;
  for (int word = at + 1; word < argc; ++word)
    command.append(command.empty() ? "" : " ").append(argv[word]);

  Request request{working_folder(), {"/bin/sh", "-c", command}, {}};
  for (char** variable = environ; *variable; ++variable) request.variables.emplace_back(*variable);
  const int connection = connect_to_lab();
  std::string name = node;
  name.resize(kNodeNameBytes);
  std::int32_t status = kFailed;
  if (!send_with(connection, name, {}) || !send_with(connection, encode(request), {0, 1, 2}) ||
      recv(connection, &status, sizeof status, MSG_WAITALL) != sizeof status) {
    throw Problem("no node '" + node + "' that answers");
  }
  return status;
}

}  // namespace
}  // namespace tutti::lab

int main(int argc, char** argv) {
  try {
    return tutti::lab::run(argc, argv);
  } catch (const tutti::lab::Problem& problem) {
    std::fprintf(stderr, "tutti-lab-agent: %s\n", problem.what());
    return tutti::lab::kFailed;
  }
}
