// The instruction sets that kernels are compiled for, and the choice among them. To be included
// before any other header of Highway.
//
// Highway is used for its vectors and for compiling a file once per instruction set, but not for
// the choice at run time: that would need libhwy.so (and with it libstdc++.so) in every process
// that tutti is loaded into. Three sets are enough: more cost compile time and gain nothing on
// kernels that wait for memory. The baseline of x86-64 is left to the compiler's vectoriser where
// Highway has no SSE2 (before 1.0.4).
#pragma once

#include "base/cpu.hpp"

#define HWY_DISABLED_TARGETS \
  (~(HWY_SCALAR | HWY_EMU128 | HWY_SSE2 | HWY_AVX2 | HWY_AVX3 | HWY_NEON_WITHOUT_AES | HWY_NEON))
#define HWY_IS_DEBUG_BUILD 0  // its assertions call into libhwy.so
#include <hwy/detect_targets.h>

// Unknown to the installed Highway.
#ifndef HWY_SSE2
#define HWY_SSE2 0
#endif
#ifndef HWY_NEON_WITHOUT_AES
#define HWY_NEON_WITHOUT_AES 0
#endif

#if HWY_TARGETS & HWY_AVX3
#define TUTTI_RETURN_IF_AVX512(isa, call) \
  if (isa >= ::tutti::Isa::avx512) return N_AVX3::call;
#else
#define TUTTI_RETURN_IF_AVX512(isa, call)
#endif
#if HWY_TARGETS & HWY_AVX2
#define TUTTI_RETURN_IF_AVX2(isa, call) \
  if (isa >= ::tutti::Isa::avx2) return N_AVX2::call;
#else
#define TUTTI_RETURN_IF_AVX2(isa, call)
#endif

/// Within `#if HWY_ONCE`: returns what `call`, a call of a function of HWY_NAMESPACE, gives when
/// compiled for the instruction set `isa`.
#define TUTTI_RETURN_FOR_ISA(isa, call)                     \
  static_cast<void>(isa); /* on a processor with one set */ \
  TUTTI_RETURN_IF_AVX512(isa, call)                         \
  TUTTI_RETURN_IF_AVX2(isa, call)                           \
  return HWY_STATIC_DISPATCH(call)
