// Makes the scheduler choose again many times per millisecond, and processors wake up quickly.
#pragma once

#include <atomic>
#include <thread>
#include <vector>

namespace tutti::lab {

/// In a lab many ranks share a core, and most MPIs poll without giving way. The kernel changes
/// between such processes only at its clock ticks, 1 to 10 ms apart, and only then does a rank see
/// what the network brought: the lab would measure the tick. So a thread with precedence wakes up
/// on every processor each kBeat; when it sleeps again, the kernel goes on with the process whose
/// slice (lab/node.cpp makes them short) is due. Measured with MPICH, 16 ranks in 8 nodes on 2
/// cores, 500 us, 4-byte allreduce: 42 ms without, 4.8 ms with a beat of 0.1 ms.
///
/// A beat is not free: on a virtual machine setting a timer and taking its interrupt cost 26 us
/// together. So it is slow while the processor is idle a good part of the time, which it is when
/// ranks sleep instead of polling.
class Metronome {
 public:
  static constexpr long kBeatNs = 100'000;
  static constexpr long kSlowBeatNs = 1'000'000;
  static constexpr long kLookNs = 100'000'000;  // from one look at the idle time to the next

  Metronome();
  ~Metronome();
  Metronome(const Metronome&) = delete;
  Metronome& operator=(const Metronome&) = delete;

 private:
  std::atomic<bool> over_{false};  // written by the destructor
  std::vector<std::thread> threads_;
};

/// Runs the calling thread before all ordinary processes. False where the kernel does not grant it.
bool take_precedence();

/// While it lives, idle processors look for work instead of halting, where the kernel can do so: a
/// halted one, on a virtual machine, needs 100 us to take up a rank for which a frame has arrived,
/// which would be measured as the network's. Ends with the process however that ends.
class Wakefulness {
 public:
  Wakefulness();
  ~Wakefulness();
  Wakefulness(const Wakefulness&) = delete;
  Wakefulness& operator=(const Wakefulness&) = delete;

 private:
  int request_;  // of the kernel's quality of service
};

}  // namespace tutti::lab
