// Whole messages over a stream socket, with a limit to how long the other end may take.
#pragma once

#include <cstddef>

namespace tutti::offload {

/// False when the other end has gone, or nothing has come for half a minute.
bool read_all(int socket, void* out, std::size_t bytes) noexcept;
bool write_all(int socket, const void* data, std::size_t bytes) noexcept;

}  // namespace tutti::offload
