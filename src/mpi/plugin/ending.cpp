#include "mpi/plugin/ending.hpp"

#include <unistd.h>

#include "mpi/plugin/recorder.hpp"
#include "mpi/plugin/state.hpp"
#include "mpi/plugin_api.h"

extern "C" __attribute__((visibility("default"))) void tutti_mpi_ending() {
  using namespace tutti::mpi;
  if (getpid() != state.process || !state.job) return;
  end_recorder();
  ending_thread.store(pthread_self(), std::memory_order_relaxed);
  state.job->leave_to_caller();
}
