// Point-to-point of the core without any MPI, between two forked processes: half a round trip, a
// one-way stream and a message rate. Run by itself, not beside anything else: medians of
// repetitions, whose order goes round the sizes.
//
//   messages [REPETITIONS]     prints: what, protocol, bytes, microseconds (median, least, most)
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "p2p/messages.hpp"
#include "support/local_jobs.hpp"

namespace {

using namespace tutti;
using Clock = std::chrono::steady_clock;
using p2p::Transfer;

constexpr int kWindow = 64;  // messages under way in a stream

double since(Clock::time_point begin, int operations) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count() / operations;
}

bool ping_pong(test::Rank& r, std::vector<std::byte>& data, std::size_t bytes, int rounds) {
  p2p::Messages& messages = r.job.messages();
  bool ok = true;
  for (int i = 0; i < rounds && ok; ++i) {
    if (r.rank == 0) {
      if (bytes != 0) data[0] = static_cast<std::byte>(i);  // not twice the same data
      ok = messages.send(r.team, data.data(), bytes, 1, 0).ok();
      ok = ok && messages.receive(r.team, data.data(), bytes, 1, 0).status.ok();
    } else {
      ok = messages.receive(r.team, data.data(), bytes, 0, 0).status.ok();
      ok = ok && messages.send(r.team, data.data(), bytes, 0, 0).ok();
    }
  }
  return ok;
}

bool stream(test::Rank& r, std::vector<std::byte>& data, std::size_t bytes, int windows) {
  p2p::Messages& messages = r.job.messages();
  Transfer* transfers[kWindow] = {};
  bool ok = true;
  for (int w = 0; w < windows && ok; ++w) {
    for (Transfer*& t : transfers) {
      ok = ok && (r.rank == 0 ? messages.start_send(r.team, data.data(), bytes, 1, 0,
                                                    SendMode::standard, &t)
                              : messages.start_receive(r.team, data.data(), bytes, 0, 0, &t))
                     .ok();
    }
    for (Transfer*& t : transfers) {
      ok = ok && t != nullptr && messages.wait(*t).status.ok();
      messages.release(std::exchange(t, nullptr));
    }
    char done = 0;
    ok = ok && (r.rank == 0 ? messages.receive(r.team, &done, 1, 1, 1).status
                            : messages.send(r.team, &done, 1, 0, 1))
                   .ok();
  }
  return ok;
}

void report(const char* what, const char* protocol, std::size_t bytes, std::vector<double> times) {
  std::sort(times.begin(), times.end());
  std::printf("%-8s %-15s %9zu %10.3f %10.3f %10.3f\n", what, protocol, bytes,
              times[times.size() / 2], times.front(), times.back());
}

}  // namespace

int main(int argc, char** argv) {
  const int repetitions = argc > 1 ? std::max(1, std::atoi(argv[1])) : 11;
  const std::pair<const char*, Rendezvous> protocols[] = {
      {"write", Rendezvous::write},
      {"read", Rendezvous::read},
      {"read_interrupt", Rendezvous::read_interrupt}};
  const std::size_t sizes[] = {0, 8, 64, 1024, 8192, 16384, 65536, 1 << 20, 4 << 20};
  for (const auto& [protocol, rendezvous] : protocols) {
    Settings settings;
    settings.rendezvous = rendezvous;
    const auto statuses = test::run_processes(2, settings, [&, name = protocol](test::Rank& r) {
      std::vector<std::byte> data(sizes[std::size(sizes) - 1]);
      std::map<std::size_t, std::vector<double>> latency, streaming;
      for (int i = 0; i <= repetitions; ++i) {
        for (const std::size_t bytes : sizes) {
          if (bytes < 16384 && rendezvous != Rendezvous::read_interrupt)
            continue;  // all the same there
          const int rounds = bytes <= 1024 ? 2000 : bytes <= 65536 ? 200 : 20;
          auto begin = Clock::now();
          if (!ping_pong(r, data, bytes, rounds)) std::exit(1);
          if (i != 0) latency[bytes].push_back(since(begin, 2 * rounds));  // the first one warms up
          const int windows = bytes <= 65536 ? 10 : 1;
          begin = Clock::now();
          if (!stream(r, data, bytes, windows)) std::exit(1);
          if (i != 0) streaming[bytes].push_back(since(begin, windows * kWindow));
        }
      }
      if (r.rank != 0) return;
      for (auto& [bytes, times] : latency) report("latency", name, bytes, times);
      for (auto& [bytes, times] : streaming) report("stream", name, bytes, times);
      std::fflush(stdout);
    });
    if (!test::all_exited(statuses)) return 1;
  }
  return 0;
}
