// Bootstrap: how a fabric exchanges a few bytes with its peers before it can reach them.
#pragma once

#include <cstddef>

#include "base/status.hpp"

namespace tutti {

/// Supplied by the host runtime. Collective over the job; used only while a fabric is created.
class Bootstrap {
 public:
  virtual ~Bootstrap() = default;
  virtual int rank() const noexcept = 0;
  virtual int size() const noexcept = 0;
  /// Gathers `bytes` from every rank into `out` (size() * bytes), in rank order. Blocking.
  virtual Status allgather(const void* in, void* out, std::size_t bytes) noexcept = 0;
};

}  // namespace tutti
