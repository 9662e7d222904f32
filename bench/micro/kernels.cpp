// Reduction kernels and copies: bytes per second by size.
#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "base/copy.hpp"
#include "base/reduction.hpp"

namespace {

using tutti::Op;
using tutti::Reduction;
using tutti::Type;

void fold(benchmark::State& state, Op op, Type type) {
  Reduction reduction;
  if (!tutti::find_reduction(op, type, &reduction)) {
    state.SkipWithError("no kernel");
    return;
  }
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const std::size_t count = bytes / reduction.element_bytes;
  std::vector<std::byte> left(bytes), right(bytes), out(bytes);
  for (auto _ : state) {
    reduction.fold(left.data(), right.data(), out.data(), count, reduction);
    benchmark::DoNotOptimize(out.data());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(
      static_cast<std::int64_t>(bytes * static_cast<std::size_t>(state.iterations())));
}

/// `skew`: how much further into its page the destination lies than the source.
void copy(benchmark::State& state, bool own, std::size_t skew) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  std::vector<std::byte> from(bytes + 8192), to(bytes + 8192);
  const auto page = [](std::byte* address) {
    return address + (4096 - reinterpret_cast<std::uintptr_t>(address) % 4096);
  };
  std::byte* source = page(from.data());
  std::byte* target = page(to.data()) + skew;
  for (auto _ : state) {
    if (own) {
      tutti::copy_bytes(target, source, bytes);
    } else {
      std::memcpy(target, source, bytes);
    }
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(
      static_cast<std::int64_t>(bytes * static_cast<std::size_t>(state.iterations())));
}

const bool kRegistered = [] {
  for (const Type type : {Type::i32, Type::f32, Type::f64, Type::bf16, Type::pair_f64_i32}) {
    const Op op = type == Type::pair_f64_i32 ? Op::maxloc : Op::sum;
    const std::string name = std::string("fold/") + tutti::name(op) + "/" + tutti::name(type);
    benchmark::RegisterBenchmark(name.c_str(), fold, op, type)
        ->RangeMultiplier(16)
        ->Range(64, 1 << 20);
  }
  for (const std::size_t skew : {0, 16}) {
    for (const bool own : {false, true}) {
      const std::string name =
          std::string(own ? "copy/copy_bytes" : "copy/memcpy") + "/skew:" + std::to_string(skew);
      benchmark::RegisterBenchmark(name.c_str(), copy, own, skew)
          ->RangeMultiplier(16)
          ->Range(256, 1 << 20);
    }
  }
  return true;
}();

}  // namespace
