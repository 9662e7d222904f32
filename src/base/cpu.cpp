#include "base/cpu.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace tutti {
namespace {

#if defined(__x86_64__)

// Of Intel's manual, volume 2, CPUID and XGETBV. Asked directly, because the compilers' own
// __builtin_cpu_supports does not know all of these names before clang 16.
constexpr unsigned bit(int n) { return 1U << n; }
constexpr unsigned kLeaf1Ecx = bit(1) | bit(9) | bit(12) | bit(19) | bit(20) | bit(25) | bit(27) |
                               bit(28) | bit(29);  // PCLMUL SSSE3 FMA SSE4 AES OSXSAVE AVX F16C
constexpr unsigned kLeaf7Ebx = bit(3) | bit(5) | bit(8);                          // BMI AVX2 BMI2
constexpr unsigned kAvx512Ebx = bit(16) | bit(17) | bit(28) | bit(30) | bit(31);  // F DQ CD BW VL
constexpr unsigned kYmmState = bit(1) | bit(2);  // saved by the kernel: SSE, AVX
constexpr unsigned kZmmState = kYmmState | bit(5) | bit(6) | bit(7);

bool all(unsigned word, unsigned bits) { return (word & bits) == bits; }

Isa detect() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0 || !all(ecx, kLeaf1Ecx)) return Isa::baseline;
  unsigned saved = 0, high = 0;
  __asm__("xgetbv" : "=a"(saved), "=d"(high) : "c"(0));
  if (!all(saved, kYmmState) || __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0 ||
      !all(ebx, kLeaf7Ebx)) {
    return Isa::baseline;
  }
  return all(ebx, kAvx512Ebx) && all(saved, kZmmState) ? Isa::avx512 : Isa::avx2;
}

bool detect_fast_strings() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && all(ebx, bit(9));
}

bool detect_demote() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && all(ecx, bit(25));
}

// Leaf 4 describes a cache for each sub-leaf: its kind (0: no more), its level, whether inclusive.
bool detect_evicted_lines_kept() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid(0, &eax, &ebx, &ecx, &edx) == 0 || ebx != signature_INTEL_ebx ||
      ecx != signature_INTEL_ecx || edx != signature_INTEL_edx)
    return true;
  for (unsigned cache = 0;
       __get_cpuid_count(4, cache, &eax, &ebx, &ecx, &edx) != 0 && (eax & 0x1f) != 0; ++cache) {
    if (((eax >> 5) & 7) == 3) return all(edx, bit(1));
  }
  return true;
}

#else

Isa detect() { return Isa::baseline; }
bool detect_fast_strings() { return false; }
bool detect_evicted_lines_kept() { return true; }
bool detect_demote() { return false; }

#endif

}  // namespace

bool has_fast_strings() noexcept { return detect_fast_strings(); }
bool keeps_evicted_lines() noexcept { return detect_evicted_lines_kept(); }
bool can_demote() noexcept { return detect_demote(); }

Isa widest_isa() noexcept {
  static const Isa isa = detect();
  return isa;
}

const char* name(Isa isa) noexcept {
  switch (isa) {
    case Isa::baseline:
      return "baseline";
    case Isa::avx2:
      return "AVX2";
    case Isa::avx512:
      return "AVX-512";
  }
  return "?";
}

}  // namespace tutti
