#include "base/status.hpp"

namespace tutti {

const char* name(Code code) noexcept {
  switch (code) {
    case Code::ok:
      return "ok";
    case Code::peer_lost:
      return "peer lost";
    case Code::timeout:
      return "timeout";
    case Code::truncated:
      return "truncated";
    case Code::invalid_argument:
      return "invalid argument";
    case Code::no_memory:
      return "no memory";
    case Code::not_permitted:
      return "not permitted";
    case Code::unsupported:
      return "unsupported";
    case Code::version_mismatch:
      return "version mismatch";
    case Code::corrupt:
      return "corrupt";
    case Code::internal:
      return "internal error";
    case Code::left_to_host:
      return "left to the host";
  }
  return "unknown status";
}

}  // namespace tutti
