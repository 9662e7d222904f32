// The log sink. One line per event, written with one write(2) to standard error:
//   tutti: [rank 3] message
// Log once, where a thing is decided; never on a data path.
#pragma once

#include "base/settings.hpp"

namespace tutti {

/// Sets what the following calls use. Called once at job creation. Not thread-safe.
void log_setup(LogLevel level, int rank) noexcept;
LogLevel log_level() noexcept;

/// printf-style; a newline is added. Thread-safe, async-signal-unsafe.
void log(LogLevel level, const char* format, ...) noexcept __attribute__((format(printf, 2, 3)));

}  // namespace tutti
