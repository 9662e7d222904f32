// TUTTI_CHECK=calls: what ranks pass to one collective is compared, and where it differs one of
// them says so.
#pragma once

#include <cstdint>
#include <string>

#include "mpi/plugin/comm.hpp"
#include "mpi/record/roll.hpp"

namespace tutti::mpi {

/// Compares what this rank has passed to a collective with what others pass to it, and says where
/// that differs. With ranks that share memory nobody waits: it is what they have passed so far, and
/// whoever comes last sees all. Between nodes check_nodes.hpp has it.
void check_call(Comm& comm, bool nonblocking, std::uint64_t number) noexcept;

/// Whether this is the first on the node to say that calls on the communicator do not match: what
/// comes after the first of them is off by one, or garbage. False, too, when so many communicators
/// had such calls that there is no place left.
bool is_first_to_tell(const Comm& comm) noexcept;

/// A call that does not match another one.
struct Caller {
  std::int32_t rank;  // of the world
  roll::Passed passed;
  std::string site;  // "program+0x1234", or empty
};
void tell_difference(const Comm& comm, const std::string& what, const Caller& one,
                     const Caller& other);

}  // namespace tutti::mpi
