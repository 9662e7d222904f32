// fuzz TARGET|all [COUNT [FIRST]]: gives COUNT damaged inputs to a target, from number FIRST on.
//
// Input n of a target is always the same, so that "fuzz TARGET 1 n" repeats what was found. Files
// of TUTTI_FUZZ_CORPUS/TARGET are right inputs to begin with.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "fuzz/targets.hpp"

namespace tutti::fuzz {
namespace {

constexpr std::size_t kLongest = 8192;
const char* under_way = "";
std::uint64_t number_under_way = 0;

/// splitmix64.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  std::size_t below(std::size_t limit) { return limit == 0 ? 0 : next() % limit; }

 private:
  std::uint64_t state_;
};

void write_number(Bytes& input, Random& random) {
  constexpr std::uint64_t kNumbers[] = {0,
                                        1,
                                        7,
                                        8,
                                        63,
                                        64,
                                        127,
                                        255,
                                        256,
                                        4095,
                                        4096,
                                        65535,
                                        65536,
                                        (1u << 31) - 1,
                                        1u << 31,
                                        ~0u,
                                        (std::uint64_t{1} << 63) - 1,
                                        std::uint64_t{1} << 63,
                                        ~std::uint64_t{0}};
  const std::uint64_t number = kNumbers[random.below(std::size(kNumbers))];
  const std::size_t bytes = std::min<std::size_t>(input.size(), std::size_t{1} << random.below(4));
  std::memcpy(input.data() + random.below(input.size() - bytes + 1), &number, bytes);
}

void damage(Bytes& input, const Bytes& other, Random& random) {
  const std::size_t at = random.below(input.size());
  const std::size_t length = 1 + random.below(std::min<std::size_t>(input.size() - at, 32));
  switch (random.below(input.empty() ? 2 : 8)) {
    case 0:
      input.insert(input.begin() + static_cast<std::ptrdiff_t>(random.below(input.size() + 1)),
                   1 + random.below(8), static_cast<std::uint8_t>(random.next()));
      break;
    case 1: {
      const std::size_t from = random.below(other.size());
      const std::size_t count = std::min<std::size_t>(other.size() - from, 1 + random.below(64));
      input.insert(input.begin() + static_cast<std::ptrdiff_t>(random.below(input.size() + 1)),
                   other.begin() + static_cast<std::ptrdiff_t>(from),
                   other.begin() + static_cast<std::ptrdiff_t>(from + count));
      break;
    }
    case 2:
      input[at] ^= static_cast<std::uint8_t>(1u << random.below(8));
      break;
    case 3:
      input[at] = static_cast<std::uint8_t>(random.next());
      break;
    case 4:
      write_number(input, random);
      break;
    case 5:
      input.resize(at);
      break;
    case 6: {
      const Bytes piece(input.begin() + static_cast<std::ptrdiff_t>(at),
                        input.begin() + static_cast<std::ptrdiff_t>(at + length));
      input.insert(input.begin() + static_cast<std::ptrdiff_t>(random.below(input.size() + 1)),
                   piece.begin(), piece.end());
      break;
    }
    default:
      input.erase(input.begin() + static_cast<std::ptrdiff_t>(at),
                  input.begin() + static_cast<std::ptrdiff_t>(at + length));
  }
  if (input.size() > kLongest) input.resize(kLongest);
}

std::vector<Bytes> corpus_of(const Target& target) {
  std::vector<Bytes> corpus = target.seeds();
  const char* folder = std::getenv("TUTTI_FUZZ_CORPUS");
  std::error_code none;
  std::vector<std::filesystem::path> files;
  if (folder != nullptr) {
    for (const auto& entry :
         std::filesystem::directory_iterator(std::filesystem::path(folder) / target.name, none))
      files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());  // as the file system lists them would not repeat
  for (const auto& path : files) {
    std::ifstream file(path, std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return corpus;
}

void say_where(int signal_number) {
  char text[128];
  const int length = std::snprintf(text, sizeof text, "fuzz: found by: fuzz %s 1 %llu\n", under_way,
                                   static_cast<unsigned long long>(number_under_way));
  static_cast<void>(!write(STDERR_FILENO, text, static_cast<std::size_t>(length)));
  signal(signal_number, SIG_DFL);
  raise(signal_number);
}

void run(const Target& target, std::uint64_t count, std::uint64_t first) {
  const std::vector<Bytes> corpus = corpus_of(target);
  const auto begin = std::chrono::steady_clock::now();
  under_way = target.name;
  for (std::uint64_t number = first; number < first + count; ++number) {
    number_under_way = number;
    Random random(number * 0x2545f4914f6cdd1d + 1);
    Bytes input = corpus[random.below(corpus.size())];
    const Bytes& other = corpus[random.below(corpus.size())];
    for (std::size_t wounds = 1 + random.below(6); wounds != 0; --wounds)
      damage(input, other, random);
    target.run(input);
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::printf("%-12s %12llu inputs, %6.1f s\n", target.name, static_cast<unsigned long long>(count),
              seconds);
}

}  // namespace
}  // namespace tutti::fuzz

int main(int argc, char** argv) {
  using namespace tutti::fuzz;
  const std::string wanted = argc > 1 ? argv[1] : "all";
  const std::uint64_t count = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 100'000;
  const std::uint64_t first = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 0;
  signal(SIGABRT, say_where);
  signal(SIGSEGV, say_where);
  bool found = false;
  for (const Target& target : kTargets) {
    if (wanted != "all" && wanted != target.name) continue;
    found = true;
    run(target, count, first);
  }
  if (!found) std::fprintf(stderr, "fuzz: no target '%s'\n", wanted.c_str());
  return found ? 0 : 2;
}
