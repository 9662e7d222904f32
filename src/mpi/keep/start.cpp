#include <cstring>
#include <string>

#include "base/log.hpp"
#include "mpi/keep/keep.hpp"
#include "offload/start/helper.hpp"

namespace tutti::mpi {

void start_keeper(const std::string& program, int descriptor, const char* folder) noexcept {
  std::string name = "tutti-keep", where = folder;
  char* const arguments[] = {name.data(), where.data(), nullptr};
  char* const environment[] = {nullptr};  // above all no LD_PRELOAD
  const int error = offload::start_helper(program, arguments, descriptor, environment);
  if (error != 0)
    log(LogLevel::warn, "recorders of ranks that are killed all at once are not written: %s: %s",
        program.c_str(), std::strerror(error));
}

}  // namespace tutti::mpi
