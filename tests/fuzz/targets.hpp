// What reads bytes that somebody else has written. A target is given any bytes, and must come back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tutti::fuzz {

using Bytes = std::vector<std::uint8_t>;

struct Target {
  const char* name;
  void (*run)(const Bytes& input);
  /// Right inputs, from which the driver makes wrong ones: besides the files of corpus/NAME.
  std::vector<Bytes> (*seeds)();
};

extern const std::vector<Target> kTargets;

}  // namespace tutti::fuzz
