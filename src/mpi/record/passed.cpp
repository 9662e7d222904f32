// What a rank has passed to a collective: reading it, saying it, and comparing it.
#include <algorithm>
#include <array>
#include <functional>

#include "mpi/record/roll.hpp"
#include "select/select.hpp"

namespace tutti::roll {
namespace {

/// Blocks of these differ from rank to rank by right.
bool has_equal_bytes(const Passed& passed) {
  const std::string name = tutti::name(passed.coll);
  const auto ends = [&name](const char* end) { return name.ends_with(end); };
  return passed.bytes != TUTTI_NO_BYTES && !ends("toallv") && !ends("toallw") &&
         !ends("scatterv") && (!ends("gatherv") || ends("allgatherv"));
}

/// All algorithms by their addresses, each with its place.
class Places {
 public:
  Places() noexcept {
    for (const Algorithm* algorithm : algorithms()) {
      if (count_ == kHost - 1) break;
      all_[count_] = {algorithm, static_cast<std::uint8_t>(1 + count_)};
      ++count_;
    }
    std::sort(all_.data(), all_.data() + count_, before);
  }
  std::uint8_t of(const Algorithm* algorithm) const noexcept {
    const Place* const end = all_.data() + count_;
    const Place* const found = std::lower_bound(all_.data(), end, Place{algorithm, 0}, before);
    return found != end && found->algorithm == algorithm ? found->place : 0;
  }

 private:
  struct Place {
    const Algorithm* algorithm;
    std::uint8_t place;
  };
  static bool before(const Place& a, const Place& b) noexcept {
    return std::less<>{}(a.algorithm, b.algorithm);
  }

  std::array<Place, kHost> all_;
  std::size_t count_ = 0;
};

}  // namespace

Passed passed_of(std::uint64_t bytes, std::uint64_t what, bool nonblocking) noexcept {
  Passed passed;
  passed.planned = bytes != TUTTI_BYTES_LATER;
  passed.bytes = passed.planned ? bytes : TUTTI_NO_BYTES;
  passed.nonblocking = nonblocking;
  passed.root = static_cast<std::int32_t>(what >> 32);
  passed.op = static_cast<std::uint8_t>(what >> 8);
  passed.type = static_cast<std::uint8_t>(what >> 16);
  passed.algorithm = static_cast<std::uint8_t>(what >> 24);
  passed.coll = static_cast<Coll>(static_cast<std::uint8_t>(what));
  return passed;
}

Passed read_past(const tutti_past& past, bool nonblocking) noexcept {
  const std::uint64_t number = __atomic_load_n(&past.number, __ATOMIC_ACQUIRE);
  const std::uint64_t site = __atomic_load_n(&past.site, __ATOMIC_RELAXED);
  const std::uint64_t bytes = __atomic_load_n(&past.bytes, __ATOMIC_RELAXED);
  const std::uint64_t what = __atomic_load_n(&past.what, __ATOMIC_RELAXED);
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
  if (static_cast<std::uint8_t>(what) >= kColls ||
      __atomic_load_n(&past.number, __ATOMIC_RELAXED) != number)
    return {};
  Passed passed = passed_of(bytes, what, nonblocking);
  passed.site = site;
  passed.number = number;
  return passed;
}

std::uint8_t place_of(const Algorithm* algorithm) noexcept {
  if (algorithm == nullptr) return 0;
  if (algorithm->left_to_host()) return kHost;
  static const Places places;
  return places.of(algorithm);
}

std::string algorithm_of(const Passed& passed) {
  if (passed.algorithm == kHost) return "mpi";
  const auto all = algorithms();
  return passed.algorithm != 0 && passed.algorithm <= all.size() ? all[passed.algorithm - 1]->name
                                                                 : "";
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
