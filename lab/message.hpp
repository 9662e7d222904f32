// What the processes of a lab say to each other over unix sockets, and file descriptors sent along.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::lab {

/// Something that keeps the lab from being set up; the message is one line for the user.
struct Problem : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A Problem with the text of errno.
Problem system_problem(const std::string& what);

/// Where the agent finds the lab: an abstract address, and so one in each node's network namespace.
inline constexpr std::string_view kAgentAddress = "tutti-lab";
/// A request begins with the name of its node, filled up with zeros to this length.
inline constexpr std::size_t kNodeNameBytes = 64;
inline constexpr std::size_t kMostRequestBytes = std::size_t{16} << 20;

/// A command that is to run on a node, with the descriptors that become its 0, 1 and 2. On the
/// wire: the bytes that follow, the number of words, of variables (32 bits each, this machine's
/// order), then folder, words and variables, each ended by a zero; the descriptors come with the
/// first byte. What follows on the same connection: from the node, the exit status as a shell
/// counts it (32 bits), and the end; from the client, one byte per signal that the command is to
/// get. A client that goes away ends its command (SIGTERM).
struct Request {
  std::string folder;
  std::vector<std::string> words;
  std::vector<std::string> variables;  // NAME=VALUE
};

std::string encode(const Request& request);
/// Throws Problem on bytes that are no request.
Request decode(std::string_view body);

/// Sends all bytes, with the descriptors. False when the other end is gone.
bool send_with(int socket, std::string_view bytes, const std::vector<int>& descriptors);
/// Receives at most `capacity` bytes and the descriptors that came with them (closed on exec; the
/// caller's). False at the end or on an error.
bool receive_with(int socket, std::size_t capacity, std::string* bytes,
                  std::vector<int>* descriptors);

}  // namespace tutti::lab
