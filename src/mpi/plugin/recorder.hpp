// The flight recorder's part in the plugin: what it is told of the process, and when its contents
// are written to files (TUTTI_RECORDER, TUTTI_RECORDER_DIR). Each call is noted by the preload.
#pragma once

#include <climits>
#include <cstddef>
#include <string>

#include "core/core.hpp"
#include "mpi/record/record.h"

namespace tutti::mpi {

/// Before the record is known to anybody. `programs`: the folder of tutti's own. Thread of
/// MPI_Init.
void begin_recorder(const Records& node, const std::string& programs) noexcept;
/// Writes the own one, as wanted. Thread of MPI_Finalize, and of exit() without it.
void end_recorder() noexcept;
/// Writes those of all ranks of the node, as far as nobody has done so in the last second, where a
/// folder is set: something has happened that may end the job. Any thread, at any time in between.
void write_recorders() noexcept;

inline constexpr std::size_t kRecorderPath = PATH_MAX + 64, kRecorderPart = kRecorderPath + 16;
/// Where a record is written to in a folder, and by way of which file of this process's own.
void name_recorder_file(const tutti_record& record, const char* folder, char (&path)[kRecorderPath],
                        char (&part)[kRecorderPart]) noexcept;
/// Writes a record and its events to `path`, by way of the file `part`. `maps`: of the process, in
/// /proc. Safe in a signal's handler. False where it cannot be written, or where another thread of
/// this process is writing one.
bool write_recorder_file(const tutti_record& record, const char* maps, const char* part,
                         const char* path) noexcept;

}  // namespace tutti::mpi
