// Status: the outcome of an operation. A value, never an exception, on every data path.
#pragma once

#include <cstdint>

namespace tutti {

/// As wide as what lies beside it in a Status: a copy of one with a gap would be put together in
/// memory and read again at once, which waits for all stores before it.
enum class Code : std::uint32_t {
  ok,
  peer_lost,         // a rank of the team died or cannot be reached; `peer` names it (job rank)
  timeout,           // a deadline passed; `peer` names the rank that is missing, or -1
  truncated,         // a message or a key was larger than the place for it
  invalid_argument,  // the caller broke the contract of the function
  no_memory,         // memory, address space or descriptors are exhausted
  not_permitted,     // the kernel refused (cross-memory attach, registration, ...)
  unsupported,       // this fabric, system or build cannot do it
  version_mismatch,  // the ranks run different versions of tutti
  corrupt,           // something that arrived did not pass its check
  internal,          // a broken invariant of tutti itself
  left_to_host       // nothing was done: the host is to run this collective itself
};

/// An outcome. Cheap to copy; trivially destructible. Thread-safe as a value.
struct [[nodiscard]] Status {
  Code code = Code::ok;
  std::int32_t peer = -1;        // job rank concerned, or -1
  const char* detail = nullptr;  // static string, or nullptr

  constexpr bool ok() const noexcept { return code == Code::ok; }

  static constexpr Status success() noexcept { return {}; }
  static constexpr Status peer_lost(std::int32_t peer, const char* detail = nullptr) noexcept {
    return {Code::peer_lost, peer, detail};
  }
  static constexpr Status timeout(std::int32_t peer, const char* detail = nullptr) noexcept {
    return {Code::timeout, peer, detail};
  }
  static constexpr Status error(Code code, const char* detail = nullptr) noexcept {
    return {code, -1, detail};
  }
};

/// The name of a code as it appears in messages ("peer lost", "timeout", ...). Static string.
const char* name(Code code) noexcept;

}  // namespace tutti

/// Returns from the calling function when `expression` is a Status that is not ok.
#define TUTTI_TRY(expression)                                    \
  do {                                                           \
    if (::tutti::Status status_ = (expression); !status_.ok()) { \
      return status_;                                            \
    }                                                            \
  } while (0)
