// The keeper: a process of tutti's own on each node of a job with TUTTI_RECORDER_DIR. It holds the
// memory in which the ranks have their recorders, and writes those that nobody else has written.
#pragma once

#include <string>

namespace tutti::mpi {

/// Starts one of this node from the executable `program`: `descriptor` is that of the node's
/// segment, `folder` where files go to. Where it cannot be started, that is said, and the program
/// goes on without. Any thread, once for each node.
void start_keeper(const std::string& program, int descriptor, const char* folder) noexcept;

}  // namespace tutti::mpi
