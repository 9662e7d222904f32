// What a large message costs two processes of a node, without any protocol: through shared memory,
// or by the kernel's copies between processes (cross-memory attach), where the reader copies alone,
// the writer alone, or each one half at the same time. Half of a round trip.
//
//   g++ -O2 -std=c++20 -march=native -o halves bench/halves.cpp && ./halves [ROUNDS]
//
// Two processes on the first two processors. A row is a size and how the buffers are used: `same`
// sends from one buffer and receives in another, `passed on` sends from where it has received.
// Median and fastest microseconds over the rounds, in which all ways take turns.
#include <immintrin.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "two_processors.hpp"

namespace {

constexpr std::size_t kMost = std::size_t{16} << 20, kRing = std::size_t{1} << 20, kPart = 32768;

enum class Who { ring, reader, writer, halves };
constexpr const char* kNames[] = {"ring", "reader", "writer", "halves"};

struct alignas(128) Counter {
  std::atomic<long> value{0};
  void set(long to) { value.store(to, std::memory_order_release); }
  void await(long wanted) const {
    while (value.load(std::memory_order_acquire) < wanted) _mm_pause();
  }
};

/// Messages of one of the two.
struct Way {
  Counter announced, ready, read, wrote;       // messages
  Counter parts_written, parts_read;           // parts of the ring
  std::atomic<char*> from{nullptr}, to{nullptr};
  alignas(4096) char ring[kRing];
};

struct Shared {
  Counter met[2];
  std::atomic<pid_t> pid[2];
  Way ways[2];
};

double now_us() {
  return std::chrono::duration<double, std::micro>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// Copies between this process and `pid`, into or out of this one's memory.
void attach(bool reads, pid_t pid, char* mine, char* theirs, std::size_t bytes) {
  const iovec local{mine, bytes}, remote{theirs, bytes};
  const ssize_t moved = reads ? process_vm_readv(pid, &local, 1, &remote, 1, 0)
                              : process_vm_writev(pid, &local, 1, &remote, 1, 0);
  if (moved == static_cast<ssize_t>(bytes)) return;
  std::perror("halves: cross-memory attach");
  std::_Exit(1);
}

class Side {
 public:
  Side(Shared& shared, int self) : shared_(shared), self_(self) {
    for (char** buffer : {&out_, &in_}) {
      *buffer = static_cast<char*>(std::aligned_alloc(4096, kMost));
      std::memset(*buffer, 1, kMost);
    }
    shared_.pid[self_] = getpid();
  }
  double run(std::size_t bytes, Who who, bool pass_on, int turns) {
    shared_.met[self_].set(++met_);
    shared_.met[1 - self_].await(met_);
    const double start = now_us();
    for (int i = 0; i < turns; ++i) {
      if (self_ == 1) receive(bytes, who);
      if (self_ == 1 && pass_on) std::swap(in_, out_);
      send(bytes, who);
      if (self_ == 0) receive(bytes, who);
      if (self_ == 0 && pass_on) std::swap(in_, out_);
    }
    return (now_us() - start) / turns / 2;
  }

 private:
  void send(std::size_t bytes, Who who) {
    Way& way = shared_.ways[self_];
    if (who == Who::ring) return send_parts(way, bytes);
    way.from.store(out_, std::memory_order_relaxed);
    way.announced.set(++sent_);
    if (who != Who::reader) {
      way.ready.await(sent_);
      const std::size_t first = who == Who::writer ? 0 : bytes / 2;
      attach(false, shared_.pid[1 - self_], out_ + first, way.to + first, bytes - first);
      way.wrote.set(sent_);
    }
    if (who != Who::writer) way.read.await(sent_);
  }
  void receive(std::size_t bytes, Who who) {
    Way& way = shared_.ways[1 - self_];
    if (who == Who::ring) return receive_parts(way, bytes);
    way.announced.await(++received_);
    way.to.store(in_, std::memory_order_relaxed);
    way.ready.set(received_);
    if (who != Who::writer) {
      attach(true, shared_.pid[1 - self_], in_, way.from, who == Who::reader ? bytes : bytes / 2);
      way.read.set(received_);
    }
    if (who != Who::reader) way.wrote.await(received_);
  }
  void send_parts(Way& way, std::size_t bytes) {
    for (std::size_t at = 0; at < bytes; at += kPart) {
      way.parts_read.await(parts_out_ + 1 - static_cast<long>(kRing / kPart));
      std::memcpy(way.ring + parts_out_ * kPart % kRing, out_ + at, std::min(kPart, bytes - at));
      way.parts_written.set(++parts_out_);
    }
  }
  void receive_parts(Way& way, std::size_t bytes) {
    for (std::size_t at = 0; at < bytes; at += kPart) {
      way.parts_written.await(parts_in_ + 1);
      std::memcpy(in_ + at, way.ring + parts_in_ * kPart % kRing, std::min(kPart, bytes - at));
      way.parts_read.set(++parts_in_);
    }
  }
  Shared& shared_;
  int self_;
  char *out_ = nullptr, *in_ = nullptr;
  long met_ = 0, sent_ = 0, received_ = 0, parts_out_ = 0, parts_in_ = 0;
};

struct Row {
  std::size_t bytes;
  bool pass_on;
  std::vector<double> us[4];
};

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 11;
  const auto processes = TwoProcesses<Shared>::begin();
  std::vector<Row> rows;
  for (std::size_t bytes = 16384; bytes <= kMost; bytes *= 2)
    for (const bool pass_on : {false, true}) rows.push_back({bytes, pass_on, {}});
  Side side(*processes.shared, processes.self);
  for (int round = 0; round < rounds; ++round)
    for (Row& row : rows)
      for (int who = 0; who < 4; ++who) {
        const int turns = std::max<int>(4, static_cast<int>((std::size_t{8} << 20) / row.bytes));
        side.run(row.bytes, static_cast<Who>(who), row.pass_on, 2);
        row.us[who].push_back(side.run(row.bytes, static_cast<Who>(who), row.pass_on, turns));
      }
  if (processes.self == 1) return 0;
  std::printf("%9s %-9s", "bytes", "buffers");
  for (const char* name : kNames) std::printf(" %18s", name);
  std::printf("\n");
  for (Row& row : rows) {
    std::printf("%9zu %-9s", row.bytes, row.pass_on ? "passed on" : "same");
    for (auto& us : row.us) {
      std::sort(us.begin(), us.end());
      std::printf(" %8.1f (%7.1f)", us[us.size() / 2], us[0]);
    }
    std::printf("\n");
  }
  return processes.end();
}
