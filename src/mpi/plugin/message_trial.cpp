#include "mpi/plugin/message_trial.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "base/log.hpp"
#include "mpi/plugin/report.hpp"
#include "mpi/plugin/split.hpp"
#include "mpi/plugin/state.hpp"

namespace tutti::mpi {
namespace {

// The fastest of so many round trips counts: the first ones connect the two, and may take long. Of
// the others fewer are made where the system is so busy that they do, too.
constexpr int kFirstTrips = 4, kRoundTrips = 40;
constexpr std::uint64_t kMostNs = 2'000'000;
// Where the MPI takes so many times as long for 8 bytes, it was behind at every size and rate.
constexpr double kClearly = 3;
// Half a round trip that nothing of ours is three times as fast as: a line alone takes 50 ns to
// cross, there and then back, and another 70 are spent on the message.
constexpr double kFastNs = 300;
constexpr int kTag = 0;

/// Nanoseconds of half a round trip between ranks 0 and 1, on rank 0: `send(number)` and
/// `receive()` of 8 bytes. What rank 0 sends says whether another one follows.
template <class Send, class Receive>
double half_round_trip_ns(Send&& send, Receive&& receive) {
  if (state.rank == 1) {
    while (true) {
      const std::uint64_t more = receive();
      send(more);
      if (more == 0) return 0;
    }
  }
  double fastest = std::numeric_limits<double>::max();
  std::uint64_t all = 0;  // of the trips after the first ones
  std::uint64_t more = 1;
  for (int i = 1; more != 0; ++i) {
    more = i < kRoundTrips && all < kMostNs ? 1 : 0;
    const double begin = now();
    send(more);
    receive();
    const std::uint64_t took = ns_since(begin);
    fastest = std::min(fastest, static_cast<double>(took) / 2);
    if (i > kFirstTrips) all += took;
  }
  return fastest;
}

double time_native() {
  const int other = 1 - state.rank;
  return half_round_trip_ns(
      [&](std::uint64_t out) {
        native.Send(&out, sizeof out, MPI_BYTE, other, kTag, state.pump_comm);
      },
      [&] {
        std::uint64_t in = 0;
        native.Recv(&in, sizeof in, MPI_BYTE, other, kTag, state.pump_comm, MPI_STATUS_IGNORE);
        return in;
      });
}

/// A huge time where there is no room for messages.
double time_own() {
  constexpr std::int32_t kBoth[] = {0, 1};
  constexpr std::uint64_t kId[2] = {0x747269616cu, 0};  // "trial"
  Group both(kId, state.rank, 2, kBoth);
  p2p::Messages& messages = state.job->messages();
  const int other = 1 - state.rank;
  bool good = true;
  const double ns = half_round_trip_ns(
      [&](std::uint64_t out) {
        good = messages.send(both, &out, sizeof out, other, kTag).ok() && good;
      },
      [&] {
        std::uint64_t in = 0;  // also where the other one is lost: then this was the last
        good = messages.receive(both, &in, sizeof in, other, kTag).status.ok() && good;
        return in;
      });
  messages.give_up(both);
  return good ? ns : std::numeric_limits<double>::max();
}

/// What rank 0 says.
bool agreed(bool mine) {
  int value = mine ? 1 : 0;
  native.Bcast(&value, 1, MPI_INT, 0, state.pump_comm);
  return value != 0;
}

/// Ranks 0 and 1 measure, and rank 0 says what has come of it.
bool are_faster() {
  const bool measures = state.rank < 2;
  const double native_ns = measures ? time_native() : 0;
  if (!agreed(native_ns > kFastNs)) {
    if (state.rank == 0)
      log(LogLevel::info, "8 bytes take the MPI %.0f ns: messages are the MPI's", native_ns);
    return false;
  }
  const double own_ns = measures ? time_own() : 0;
  const bool faster = agreed(native_ns > kClearly * own_ns);
  if (state.rank == 0)
    log(LogLevel::info, "8 bytes take the MPI %.0f ns and tutti %.0f ns: messages are %s",
        native_ns, own_ns, faster ? "tutti's" : "the MPI's");
  return faster;
}

}  // namespace

bool takes_messages() {
  if (state.settings.p2p != Switch::automatic) return state.settings.p2p == Switch::on;
  return state.size > 1 && !split_off() && state.settings.choice != "static" &&
         state.job->suits_messages() && are_faster();
}

}  // namespace tutti::mpi
