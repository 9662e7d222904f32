// Which of the instruction sets that the kernels are compiled for this machine can run.
#pragma once

#include <cstdint>

namespace tutti {

/// In rising order: each runs on a machine of the next.
enum class Isa : std::uint8_t {
  baseline,  // what the compiler was told to assume: SSE2 on x86-64, NEON on AArch64
  avx2,      // Haswell, Zen and later: AVX2, FMA, F16C, BMI
  avx512     // Skylake-SP, Zen 4 and later: AVX-512 F, CD, BW, DQ, VL
};
inline constexpr int kIsas = 3;

/// The widest that processor and kernel both support. Asks once, then costs a load. Thread-safe.
Isa widest_isa() noexcept;

const char* name(Isa isa) noexcept;

/// Whether `rep movsb` is said to be fast (ERMS: Ivy Bridge, Zen 3 and later). Asks each time.
bool has_fast_strings() noexcept;

/// Whether a line that a core's own cache gives up unchanged stays in the shared cache. Not so on
/// Intel's servers from Skylake on, whose last level is not inclusive; true where nothing is known.
/// Asks each time.
bool keeps_evicted_lines() noexcept;

/// Whether the processor can hand lines on to the shared cache (CLDEMOTE: Intel's servers from
/// Sapphire Rapids on). Asks each time.
bool can_demote() noexcept;

}  // namespace tutti
