// What a rank has passed to a collective: reading it, saying it, and comparing it.
#include "mpi/record/roll.hpp"

namespace tutti::roll {
namespace {

/// Blocks of these differ from rank to rank by right.
bool has_equal_bytes(const Passed& passed) {
  const std::string name = tutti::name(passed.coll);
  const auto ends = [&name](const char* end) { return name.ends_with(end); };
  return passed.bytes != TUTTI_NO_BYTES && !ends("toallv") && !ends("toallw") &&
         !ends("scatterv") && (!ends("gatherv") || ends("allgatherv"));
}

}  // namespace

Passed read_past(const tutti_past& past, bool nonblocking) noexcept {
  Passed passed;
  const std::uint64_t number = __atomic_load_n(&past.number, __ATOMIC_ACQUIRE);
  passed.site = __atomic_load_n(&past.site, __ATOMIC_RELAXED);
  passed.bytes = __atomic_load_n(&past.bytes, __ATOMIC_RELAXED);
  const std::uint64_t what = __atomic_load_n(&past.what, __ATOMIC_RELAXED);
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
  passed.planned = passed.bytes != TUTTI_BYTES_LATER;
  if (!passed.planned) passed.bytes = TUTTI_NO_BYTES;
  passed.nonblocking = nonblocking;
  passed.root = static_cast<std::int32_t>(what >> 32);
  passed.op = static_cast<std::uint8_t>(what >> 8);
  passed.type = static_cast<std::uint8_t>(what >> 16);
  const auto coll = static_cast<std::uint8_t>(what);
  if (coll >= kColls || __atomic_load_n(&past.number, __ATOMIC_RELAXED) != number) return {};
  passed.coll = static_cast<Coll>(coll);
  passed.number = number;
  return passed;
}

std::string name_of(const Passed& passed) {
  std::string word = tutti::name(passed.coll);
  if (!passed.nonblocking) word[0] = static_cast<char>(word[0] - 'a' + 'A');
  return (passed.nonblocking ? "MPI_I" : "MPI_") + word;
}

std::string operation_of(const Passed& passed) {
  if (passed.op == Reduction::kNoName || passed.type == Reduction::kNoName) return {};
  return std::string(tutti::name(static_cast<Op>(passed.op))) + " of " +
         tutti::name(static_cast<Type>(passed.type));
}

std::string described(const Passed& passed, const std::string& comm) {
  std::string arguments;
  const auto add = [&arguments](const std::string& part) {
    arguments += (arguments.empty() ? " (" : ", ") + part;
  };
  if (passed.bytes != TUTTI_NO_BYTES && passed.coll != Coll::barrier)
    add(grouped(passed.bytes) + (passed.bytes == 1 ? " byte" : " bytes"));
  if (passed.root != TUTTI_NO_RANK) add("root " + std::to_string(passed.root));
  if (const std::string operation = operation_of(passed); !operation.empty()) add(operation);
  return name_of(passed) + " no. " + grouped(passed.number) + " on " + comm +
         (arguments.empty() ? "" : arguments + ")");
}

std::string difference(const Passed& a, const Passed& b) {
  if (a.coll != b.coll) return "different collectives have met";
  if (a.root != b.root) return "the roots differ";
  const std::string one = operation_of(a), other = operation_of(b);
  if (!one.empty() && !other.empty() && one != other) return "the operators or types differ";
  if (has_equal_bytes(a) && has_equal_bytes(b) && a.bytes != b.bytes)
    return "the numbers of bytes differ";
  return {};
}

}  // namespace tutti::roll
