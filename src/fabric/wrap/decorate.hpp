// The decorators that settings ask for, around a fabric.
#pragma once

#include <memory>
#include <string>

#include "base/settings.hpp"
#include "fabric/fabric.hpp"

namespace tutti::wrap {

/// Wraps `fabric` as TUTTI_FAULT, TUTTI_CHECK and TUTTI_TRACE say: faults innermost, then the
/// check, then the trace, so that both see what the program sees. Gives `fabric` itself where none
/// is set. On a bad specification or an unwritable file gives nullptr, and `*message` says in one
/// line what would be right.
std::unique_ptr<Fabric> decorate(std::unique_ptr<Fabric> fabric, const Settings& settings,
                                 std::string* message);

}  // namespace tutti::wrap
