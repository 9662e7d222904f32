// How the ranks of a job agree on whether all of them have succeeded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/status.hpp"
#include "fabric/bootstrap.hpp"

namespace tutti {

/// What this rank reports where `codes` has what each rank has come to: a failure on all of them or
/// on none. Who has only waited in vain is told what has failed elsewhere.
inline Status agreed(const std::vector<Code>& codes, const Status& mine) {
  const auto failure = [](Code code, std::size_t rank) {
    return Status{code, static_cast<std::int32_t>(rank), "another rank failed"};
  };
  if (!mine.ok() && mine.code != Code::timeout) return mine;
  for (std::size_t rank = 0; rank < codes.size(); ++rank) {
    if (codes[rank] != Code::ok && codes[rank] != Code::timeout) return failure(codes[rank], rank);
  }
  for (std::size_t rank = 0; rank < codes.size() && mine.ok(); ++rank) {
    if (codes[rank] != Code::ok) return failure(codes[rank], rank);
  }
  return mine;
}

/// The same, in an exchange of its own. Collective over the bootstrap.
inline Status agree(Bootstrap& bootstrap, const Status& mine) {
  std::vector<Code> codes(static_cast<std::size_t>(bootstrap.size()));
  TUTTI_TRY(bootstrap.allgather(&mine.code, codes.data(), sizeof mine.code));
  return agreed(codes, mine);
}

}  // namespace tutti
