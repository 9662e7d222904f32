// What the whole plugin shares: the job, the world, and what was agreed at MPI_Init.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/settings.hpp"
#include "core/core.hpp"
#include "mpi/plugin/native.hpp"
#include "offload/start/processors.hpp"
#include "p2p/messages.hpp"

namespace tutti::mpi {

/// Written while the plugin is attached (one thread, inside MPI_Init) and while it is detached
/// (inside MPI_Finalize); constant in between.
struct State {
  std::unique_ptr<Job> job;           // null when the world has one rank
  p2p::Messages* messages = nullptr;  // the job's, when point-to-point is taken over (TUTTI_P2P)
  std::unique_ptr<offload::Processors> processors;  // null without dedicated processors
  bool threads = false;                             // MPI_THREAD_MULTIPLE
  bool report = false;                              // count calls
  double began = 0;                                 // now() when MPI_Init was over, with a report
  int rank = 0;  // in the program's world, whose ranks are the first of the job
  int size = 1;
  int process = 0;  // the one that called MPI_Init; a child that it forks is no rank
  Settings settings;
  // Private communicator of all processes of the MPI's world, only ever probed once the job exists.
  MPI_Comm pump_comm{};
  // Of the program's processes, for the report: the world may have been revoked by then. The pump's
  // wherever that serves: how many communicators there are decides whether Debian's Open MPI 4.1
  // hangs in MPI_Dist_graph_create (docs/mpi.md).
  MPI_Comm report_comm{};
  MPI_Group world_group{};
  void** handlers = nullptr;
};

extern State state;

/// Progresses the host MPI once, without blocking; not beside a thread that ends the process.
void pump_host() noexcept;

/// Around calls of the MPI's own that may block until other ranks have moved on: those may wait for
/// messages of tutti's that are under way here, which the progress thread then looks after.
class NativeCall {
 public:
  NativeCall() noexcept : covered_(state.messages != nullptr && state.messages->cover()) {}
  ~NativeCall() {
    if (covered_) [[unlikely]]
      state.messages->uncover();
  }
  NativeCall(const NativeCall&) = delete;
  NativeCall& operator=(const NativeCall&) = delete;

 private:
  const bool covered_;
};

}  // namespace tutti::mpi
