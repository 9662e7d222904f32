// What the whole plugin shares: the job, the world, and what was agreed at MPI_Init.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/settings.hpp"
#include "core/core.hpp"
#include "mpi/plugin/native.hpp"
#include "mpi/record/record.h"
#include "offload/start/processors.hpp"
#include "p2p/messages.hpp"

namespace tutti::mpi {

/// In the place of one that is not kept: nobody reads it.
extern tutti_record no_record;

/// Written while the plugin is attached (one thread, inside MPI_Init) and while it is detached
/// (inside MPI_Finalize); constant in between.
struct State {
  std::unique_ptr<Job> job;           // null when the world has one rank
  p2p::Messages* messages = nullptr;  // the job's, when point-to-point is taken over (TUTTI_P2P)
  std::unique_ptr<offload::Processors> processors;  // null without dedicated processors
  bool threads = false;                             // MPI_THREAD_MULTIPLE
  bool report = false;                              // count calls
  bool attends = false;                             // to each call: with a report, or to check it
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
  tutti_record* record = &no_record;  // of this rank
  tutti_lane* (*lane)() = nullptr;    // of the calling thread in it; never gives null
  void (*note_early)(tutti_lane*) = nullptr;
};

extern State state;

/// Progresses the host MPI once, without blocking; not beside a thread that ends the process.
void pump_host() noexcept;

/// The calling thread's lane of the record: the first as long as only one thread has ever called.
[[gnu::always_inline]] inline tutti_lane* lane_here() noexcept {
  tutti_record& record = *state.record;
  if (__atomic_load_n(&record.lanes[1].tid, __ATOMIC_RELAXED) == 0) [[likely]]
    return &record.lanes[0];
  return state.lane();
}

/// The MPI carries out the thread's call: notes since when, if it is in one.
inline void stamp_call() noexcept {
  tutti_lane* const lane = lane_here();
  if ((lane->count & 1) != 0 && lane->since_count != lane->count)
    tutti_stamp(lane, tutti_time(lane));
}

/// The thread is in a wait of tutti's: notes since when, and for whom, if it is in a call.
inline void note_awaited() noexcept {
  tutti_lane* const lane = lane_here();
  if ((lane->count & 1) == 0) return;
  const std::int32_t awaited = state.job ? state.job->awaited() : -1;
  if (!tutti_has_waited(lane) || lane->awaited != awaited) tutti_turn_wait(lane, awaited);
}

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
