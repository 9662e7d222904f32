// Seeds of randomised tests: another one in every run, printed, and repeatable.
#pragma once

#include <cstdint>

namespace tutti::testing {

/// TEST_SEED where it is set, else from the system's random device. Printed on first use. Mixed
/// with `stream`, so that tests do not depend on which others run.
std::uint64_t random_seed(std::uint64_t stream = 0);

}  // namespace tutti::testing
