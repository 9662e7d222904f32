// The processor's settings for floating-point numbers, as exact sums need them: round to nearest,
// subnormals kept, no traps. Programs that were built with -ffast-math, or for Intel's compilers,
// flush subnormals to zero, and some trap.
#pragma once

#include <cstdint>

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace tutti {

/// In force while it lives; then the settings are what they were, exceptions raised included.
class FloatEnvironment {
 public:
  FloatEnvironment() noexcept : before_(read()) { write(kDefault); }
  ~FloatEnvironment() {
    asm volatile("" ::: "memory");  // what is computed until now has been stored
    write(before_);
  }
  FloatEnvironment(const FloatEnvironment&) = delete;
  FloatEnvironment& operator=(const FloatEnvironment&) = delete;

 private:
#if defined(__SSE2__)
  using Word = unsigned;
  static constexpr Word kDefault = 0x1f80;  // MXCSR: all exceptions masked
  static Word read() noexcept { return _mm_getcsr(); }
  static void write(Word word) noexcept {
    _mm_setcsr(word);
    asm volatile("" ::: "memory");  // what is loaded from now on is computed so
  }
#elif defined(__aarch64__)
  using Word = std::uint64_t;
  static constexpr Word kDefault = 0;  // FPCR
  static Word read() noexcept {
    Word word;
    asm volatile("mrs %0, fpcr" : "=r"(word)::"memory");
    return word;
  }
  static void write(Word word) noexcept { asm volatile("msr fpcr, %0" ::"r"(word) : "memory"); }
#else
#error "how does this processor round?"
#endif

  Word before_;
};

}  // namespace tutti
