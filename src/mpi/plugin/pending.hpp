// TUTTI_CHECK=calls: what the program must leave alone while a call is pending. The memory that a
// started request reads is summed up when it starts and when it has completed, and compared with
// what other requests write meanwhile.
#pragma once

#include <string>

#include "mpi/plugin/request.hpp"

namespace tutti::mpi {

/// Remembers the memory of a request that has just started, and says where another one that is
/// pending writes to what this one reads, or the other way round. Thread-safe.
void watch_buffers(Request& request) noexcept;
/// The request has completed: says where the program has changed meanwhile what it reads, once for
/// each place that started such. The memory may be gone. Called before the request is given back.
/// Thread-safe.
void check_buffers(Request& request) noexcept;
/// The program has let it go before it has completed. Thread-safe.
void forget_buffers(Request& request) noexcept;

/// "MPI_Iallreduce no. 2 on MPI_COMM_WORLD (4 bytes, sum of i32) at app+0x1234", as far as that is
/// known; of messages the peer and the tag. Throws std::bad_alloc.
std::string described(const Request& request);

}  // namespace tutti::mpi
