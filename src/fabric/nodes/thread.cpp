// The thread that looks after the network while the application does not, and the rank's end.
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <system_error>

#include "base/cores.hpp"
#include "base/log.hpp"
#include "fabric/nodes/nodes.hpp"

namespace tutti::nodes {
namespace {

constexpr int kParked = 2;         // ms that the thread keeps away while the application polls
constexpr int kParkedLongest = 8;  // and if it does so for long
constexpr int kIdle = 200;         // ms between looks when nothing happens
constexpr int kBlocked = 1;        // ms while operations wait for the network to take them
constexpr std::uint64_t kParting =
    1'000'000'000;  // ns for what is still under way when a rank leaves

/// False: the time is over.
bool sleep_on_any(pollfd* all, nfds_t count, std::uint64_t timeout_ns) noexcept {
  const timespec timeout{static_cast<time_t>(timeout_ns / 1'000'000'000),
                         static_cast<long>(timeout_ns % 1'000'000'000)};
  return ppoll(all, count, &timeout, nullptr) != 0;
}

}  // namespace

NodesFabric::~NodesFabric() {
  stop_thread();
  if (!dead_ && rank_ == 0) {
    const NetworkUse use = network_->use();
    log(LogLevel::info, "network %s: connections to %zu of %d ranks, %zu bytes registered",
        network_->name(), use.connections, size_, use.registered);
  }
  if (!dead_) say_goodbye();
  if (event_ >= 0) close(event_);
  for (const int doorbell : doorbells_) {
    if (doorbell >= 0) close(doorbell);
  }
  if (arena_memory_.handle != 0) network_->withdraw(arena_memory_);
}

void NodesFabric::die() noexcept {
  dead_ = true;
  stop_thread();
  network_->abort();
  shm_->die();
}

/// What was put is on its way before this rank goes, and who knows of it is told.
void NodesFabric::say_goodbye() noexcept {
  const std::uint64_t until = now_ns() + kParting;
  take_notices();
  for (std::int32_t peer = 0; peer < size_; ++peer) {
    if (!is_remote(peer) || !peer_at(peer).introduced.load(std::memory_order_relaxed)) continue;
    if (peer_at(peer).state.load(std::memory_order_relaxed) != kPresent) continue;
    repeat_breakages(peer);
    say_last(peer, kGoodbye);
  }
  while (network_->pending() != 0 && now_ns() < until) {
    if (network_->progress(true) == Moved::nothing) usleep(50);
    take_notices();
    NetworkFinished over[16];
    static_cast<void>(network_->finished(over, 16));
  }
}

void NodesFabric::adopt_datagrams(std::unique_ptr<NetworkDatagrams> datagrams,
                                  std::size_t bytes) noexcept {
  stop_thread();
  datagrams_ = std::move(datagrams);
  traits_.datagram_bytes = bytes;
  stop_.store(false, std::memory_order_release);
  start_thread();
}

void NodesFabric::start_thread() noexcept {
  if (event_ < 0) event_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  // Signals belong to the application's threads.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    thread_ = std::thread([this] { run(); });
    pthread_setname_np(thread_.native_handle(), "tutti-network");
    if (thread_cpu_ >= 0 && !bind_thread(thread_.native_handle(), thread_cpu_))
      log(LogLevel::warn, "cannot bind the network's thread to CPU %d", thread_cpu_);
  } catch (const std::system_error&) {
    log(LogLevel::warn,
        "cannot start a thread for the network: other nodes wait while this rank computes");
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void NodesFabric::stop_thread() noexcept {
  if (!thread_.joinable()) return;
  stop_.store(true, std::memory_order_release);
  wake_thread();
  thread_.join();
}

void NodesFabric::wake_thread() noexcept {
  const std::uint64_t one = 1;
  static_cast<void>(!write(event_, &one, sizeof one));
}

void NodesFabric::run() noexcept {
  std::uint64_t seen = calls_.load(std::memory_order_relaxed);
  int pause = kParked;
  while (!stop_.load(std::memory_order_acquire)) {
    const std::uint64_t calls = calls_.load(std::memory_order_relaxed);
    const bool expected = expects_reads_.exchange(false, std::memory_order_seq_cst);
    if (watched_enough() ||
        (calls != seen && armed_.load(std::memory_order_acquire) == 0 && !expected)) {
      seen = calls;
      wait_for_call(pause);
      pause = std::min(2 * pause, kParkedLongest);
      continue;
    }
    seen = calls;
    pause = kParked;
    wait_for_network();
  }
}

void NodesFabric::expect_reads() noexcept {
  expects_reads_.store(true, std::memory_order_seq_cst);
  if (parked_.load(std::memory_order_seq_cst)) wake_thread();
}

/// A thread of this rank sleeps on the network itself, for all that others of this rank sleep for.
bool NodesFabric::watched_enough() const noexcept {
  const Watch watch = watch_.load(std::memory_order_seq_cst);
  return watch == Watch::all ||
         (watch == Watch::solicited && attentive_.load(std::memory_order_seq_cst) == 0);
}

/// The application polls: keep away until it has not for a while, or is about to sleep.
void NodesFabric::wait_for_call(int milliseconds) noexcept {
  parked_.store(true, std::memory_order_seq_cst);
  if ((armed_.load(std::memory_order_seq_cst) == 0 &&
       !expects_reads_.load(std::memory_order_seq_cst)) ||
      watched_enough()) {
    pollfd event{event_, POLLIN, 0};
    poll(&event, 1, milliseconds);
  }
  parked_.store(false, std::memory_order_seq_cst);
  std::uint64_t count;
  static_cast<void>(!read(event_, &count, sizeof count));
}

void NodesFabric::wait_for_network() noexcept {
  // While the application computes, only what is worth an interrupt wakes this thread.
  bool all = !network_->selective() || attentive_.load(std::memory_order_seq_cst) != 0 ||
             network_->must_hear_all();
  listening_.store(all ? Watch::all : Watch::solicited, std::memory_order_seq_cst);
  all = all || attentive_.load(std::memory_order_seq_cst) != 0;
  const int network = network_->sleep_on(all ? Attention::all : Attention::solicited);
  if (network >= 0) {
    pollfd ready_for[] = {{network, POLLIN, 0},
                          {event_, POLLIN, 0},
                          {datagrams_ ? datagrams_->descriptor() : -1, POLLIN, 0}};
    const std::uint64_t calls = calls_.load(std::memory_order_relaxed);
    const int ready = poll(ready_for, 3, network_->blocked() ? kBlocked : kIdle);
    listening_.store(Watch::none, std::memory_order_relaxed);
    if (ready_for[1].revents != 0) {
      std::uint64_t count;
      static_cast<void>(!read(event_, &count, sizeof count));
    }
    if ((ready_for[0].revents | ready_for[2].revents) != 0)
      interrupts_.store(interrupts_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    // The application has come back, and looks after it.
    if (ready > 0 && armed_.load(std::memory_order_acquire) == 0 &&
        calls != calls_.load(std::memory_order_relaxed))
      return;
  }
  listening_.store(Watch::none, std::memory_order_relaxed);
  const bool came = datagrams_ && datagrams_->progress();
  const Moved moved = network_->progress(true);
  if (came || moved != Moved::nothing) parts_.moved();
  take_notices();
  ring_sleepers(came || moved != Moved::unsolicited ? Moved::something : moved);
}

/// After memory has been written: pairs with arm(), which counts before its caller looks. What is
/// unsolicited is written for this rank alone.
void NodesFabric::ring_sleepers(Moved moved) noexcept {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (moved == Moved::unsolicited) return shm_->wake(rank_, Event::unsolicited);
  shm_->wake(rank_, Event::solicited);
  for (const std::int32_t neighbour : shm_->neighbours()) {
    if (neighbour != rank_) shm_->wake_for_arrival(neighbour);
  }
}

/// A rank of another node that sleeps for unsolicited events is woken by them.
void NodesFabric::wake(std::int32_t peer, Event event) noexcept {
  if (!is_remote(peer)) return shm_->wake(peer, event);
  if (event == Event::solicited &&
      peer_at(peer).state.load(std::memory_order_acquire) == kPresent && introduce(peer).ok())
    network_->ring(arena_target(peer));
}

/// It keeps away, or sleeps for less than a sleeper with this attention needs.
bool NodesFabric::must_call_thread(Attention attention) const noexcept {
  return parked_.load(std::memory_order_seq_cst) ||
         (listening_.load(std::memory_order_seq_cst) == Watch::solicited &&
          (attention == Attention::all || network_->must_hear_all()));
}

void NodesFabric::sleep(std::uint32_t ticket, std::uint64_t timeout_ns,
                        Attention attention) noexcept {
  if (watches_ && watch_network(ticket, timeout_ns, attention)) return;
  // Another thread of this rank watches, or the network's own thread has to.
  const std::uint32_t attentive = attention == Attention::all ? 1 : 0;
  attentive_.fetch_add(attentive, std::memory_order_seq_cst);
  armed_.fetch_add(1, std::memory_order_seq_cst);
  if (!watched_enough() && must_call_thread(attention)) wake_thread();
  shm_->sleep(ticket, timeout_ns, attention);
  armed_.fetch_sub(1, std::memory_order_release);
  attentive_.fetch_sub(attentive, std::memory_order_release);
}

void NodesFabric::sleep_on_network(std::uint64_t timeout_ns, Attention attention) noexcept {
  const int network = network_->sleep_on(attention);
  if (network < 0) return;
  pollfd all[] = {{network, POLLIN, 0},
                  {doorbell_, POLLIN, 0},
                  {datagrams_ ? datagrams_->descriptor() : -1, POLLIN, 0}};
  if (network_->blocked()) timeout_ns = std::min(timeout_ns, kBlocked * std::uint64_t{1'000'000});
  if (sleep_on_any(all, 3, timeout_ns) && all[0].revents != 0) parts_.woken(now_ns());
}

/// True when something else has ended the pause.
bool NodesFabric::pause_for_parts() noexcept {
  const std::uint64_t pause = parts_.pause(now_ns());
  if (pause == 0) return false;
  pollfd others[] = {{doorbell_, POLLIN, 0},
                     {datagrams_ ? datagrams_->descriptor() : -1, POLLIN, 0}};
  return sleep_on_any(others, 2, pause);
}

/// Sleeps on the network and on the doorbell. False when another thread of this rank does. What has
/// arrived since arm() either is in the network's queue, or has rung.
bool NodesFabric::watch_network(std::uint32_t ticket, std::uint64_t timeout_ns,
                                Attention attention) noexcept {
  Watch none = Watch::none;
  const Watch watch = attention == Attention::all ? Watch::all : Watch::solicited;
  if (!watch_.compare_exchange_strong(none, watch, std::memory_order_seq_cst)) return false;
  if (shm_->watch_doorbell(ticket)) {
    if (attention == Attention::all || traits_.bypass || !pause_for_parts())
      sleep_on_network(timeout_ns, attention);
    shm_->unwatch_doorbell();
    std::uint64_t count;
    static_cast<void>(!read(doorbell_, &count, sizeof count));
  }
  watch_.store(Watch::none, std::memory_order_seq_cst);
  // Others of this rank that sleep have relied on this one.
  if (armed_.load(std::memory_order_seq_cst) != 0) wake_thread();
  return true;
}

}  // namespace tutti::nodes
