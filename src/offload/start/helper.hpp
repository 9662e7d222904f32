// Processes of tutti's own beside those of the program. They are children of nobody whom the
// program knows, and have one descriptor of the process that has started them.
#pragma once

#include <string>

namespace tutti::offload {

inline constexpr int kHelperDescriptor = 3;

/// Starts the executable `program` with `descriptor` as kHelperDescriptor; returns once it has
/// called begin_helper(). Both arrays end with a null. Gives 0, or errno. Any thread.
int start_helper(const std::string& program, char* const* arguments, int descriptor,
                 char* const* environment) noexcept;

/// The first thing that such a program does: it goes on in a child of its own, lets all other
/// descriptors go and leaves signals of the terminal to the program.
void begin_helper() noexcept;

}  // namespace tutti::offload
