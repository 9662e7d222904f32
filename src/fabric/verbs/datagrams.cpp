// Datagrams on their way: casting, receiving, and waking who waits.
#include "fabric/verbs/datagrams.hpp"

#include <sched.h>

#include <algorithm>
#include <cstring>

#include "fabric/verbs/limits.hpp"

namespace tutti::verbs {
namespace {

constexpr std::uint64_t kFullWait = 20'000'000;  // ns for a datagram to leave

// The number of a receive's work request: the group's place, its serial number, the receive.
constexpr int kReceiveBits = 16, kSerialBits = 32;
std::uint64_t receive_id(int slot, std::uint32_t serial, int receive) noexcept {
  return static_cast<std::uint64_t>(slot) << (kReceiveBits + kSerialBits) |
         static_cast<std::uint64_t>(serial) << kReceiveBits | static_cast<std::uint64_t>(receive);
}

}  // namespace

VerbsDatagrams::Group* VerbsDatagrams::at(int group) const noexcept {
  const auto index = static_cast<std::size_t>(group);
  return group >= 0 && index < groups_.size() ? groups_[index].get() : nullptr;
}

// ---- casting
// --------------------------------------------------------------------------------------

void VerbsDatagrams::collect_sends() noexcept {
  ibv_wc entries[16];
  for (int count = 16; count == 16;) {
    count = ibv_poll_cq(sent_, 16, entries);
    for (int i = 0; i < count; ++i) {
      // One of a group that is gone may have its place in use again.
      Send& send = sends_[entries[i].wr_id & 0xff];
      if (send.uses == static_cast<std::uint32_t>(entries[i].wr_id >> 8)) send.serial = 0;
    }
  }
}

/// Waits, if need be, for the device to send what it has: this paces the caller.
int VerbsDatagrams::free_send() noexcept {
  const auto is_free = [](const Send& send) { return send.serial == 0; };
  const std::uint64_t until = now_ns() + kFullWait;
  for (;;) {
    auto place = std::find_if(sends_.begin(), sends_.end(), is_free);
    if (place != sends_.end()) return static_cast<int>(place - sends_.begin());
    collect_sends();
    place = std::find_if(sends_.begin(), sends_.end(), is_free);
    if (place != sends_.end()) return static_cast<int>(place - sends_.begin());
    if (now_ns() >= until) return kNone;
    sched_yield();
  }
}

/// What was cast is on its way before its queue pair goes.
void VerbsDatagrams::await_sends(std::uint32_t serial) noexcept {
  const auto is_its = [serial](const Send& send) { return send.serial == serial; };
  const std::uint64_t until = now_ns() + kFullWait;
  for (;;) {
    collect_sends();
    if (std::none_of(sends_.begin(), sends_.end(), is_its) || now_ns() >= until) return;
    sched_yield();
  }
}

Status VerbsDatagrams::cast(int group, const void* data, std::size_t bytes) noexcept {
  const std::lock_guard lock(mutex_);
  Group* const its = at(group);
  if (its == nullptr) return Status::error(Code::invalid_argument, "no such group");
  if (bytes > datagram_bytes()) return Status::error(Code::truncated, "larger than a datagram");
  const int place = free_send();
  if (place == kNone) return Status::success();  // lost
  Send& send = sends_[static_cast<std::size_t>(place)];
  std::byte* const packet = outgoing_.memory.get() + static_cast<std::size_t>(place) * mtu_;
  if (bytes != 0) std::memcpy(packet, data, bytes);
  groups::write_trailer(its->name, {rank_, its->number}, packet, bytes);
  ibv_sge part{reinterpret_cast<std::uint64_t>(packet),
               static_cast<std::uint32_t>(bytes + groups::kTrailerBytes), outgoing_.region->lkey};
  ibv_send_wr request{};
  request.wr_id = static_cast<std::uint64_t>(++send.uses) << 8 | static_cast<unsigned>(place);
  request.sg_list = &part;
  request.num_sge = 1;
  request.opcode = IBV_WR_SEND;
  request.send_flags = IBV_SEND_SIGNALED;
  request.wr.ud.ah = its->way;
  request.wr.ud.remote_qpn = its->remote_queue;
  request.wr.ud.remote_qkey = its->name.queue_key;
  ibv_send_wr* bad = nullptr;
  if (ibv_post_send(its->id_of_device->qp, &request, &bad) != 0) return Status::success();  // lost
  send.serial = its->serial;
  ++its->number;
  ++its->counts.sent;
  return Status::success();
}

// ---- receiving
// ------------------------------------------------------------------------------------

bool VerbsDatagrams::post(Group& group, int slot, int receive) noexcept {
  Receive& its = group.receives[static_cast<std::size_t>(receive)];
  ibv_sge part{reinterpret_cast<std::uint64_t>(its.at),
               static_cast<std::uint32_t>(kRouteHeader + mtu_), its.key};
  ibv_recv_wr request{};
  request.wr_id = receive_id(slot, group.serial, receive);
  request.sg_list = &part;
  request.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  return ibv_post_recv(group.id_of_device->qp, &request, &bad) == 0;
}

/// Puts what has come into its group's queue; the own datagrams, which some devices bring too, are
/// received again at once.
void VerbsDatagrams::fill(const ibv_wc& entry) noexcept {
  const auto slot = static_cast<int>(entry.wr_id >> (kReceiveBits + kSerialBits));
  const auto receive = static_cast<int>(entry.wr_id & ((1U << kReceiveBits) - 1));
  Group* const group = at(slot);
  if (group == nullptr || group->serial != static_cast<std::uint32_t>(entry.wr_id >> kReceiveBits))
    return;  // of one that is gone
  if (entry.status != IBV_WC_SUCCESS) return;
  Receive& its = group->receives[static_cast<std::size_t>(receive)];
  its.bytes = entry.byte_len < kRouteHeader ? 0 : entry.byte_len - kRouteHeader;
  groups::Origin origin;
  if (groups::read_origin(its.at + kRouteHeader, its.bytes, &origin) && origin.sender == rank_) {
    post(*group, slot, receive);
    return;
  }
  its.next = kNone;
  if (group->first == kNone) {
    group->first = receive;
  } else {
    group->receives[static_cast<std::size_t>(group->last)].next = receive;
  }
  group->last = receive;
  group->arrivals.fetch_add(1, std::memory_order_release);
}

bool VerbsDatagrams::drain() noexcept {
  ibv_wc entries[16];
  bool any = false;
  for (int count = 16; count == 16;) {
    count = ibv_poll_cq(arrived_, 16, entries);
    for (int i = 0; i < count; ++i) fill(entries[i]);
    if (count > 0) any = true;
  }
  if (any && armed_) event_due_ = true;
  return any;
}

/// The event of an arrival that has been seen comes a little later than that; until it has been
/// taken the descriptor becomes readable, or is.
void VerbsDatagrams::take_event() noexcept {
  ibv_cq* queue = nullptr;
  void* context = nullptr;
  if (ibv_get_cq_event(channel_, &queue, &context) != 0) return;
  ibv_ack_cq_events(queue, 1);
  armed_ = event_due_ = false;
}

bool VerbsDatagrams::progress() noexcept {
  if (joined_.load(std::memory_order_relaxed) == 0) return false;
  const std::lock_guard lock(mutex_);
  bool any = drain();
  if (event_due_) take_event();
  if (!armed_ && ibv_req_notify_cq(arrived_, 0) == 0) {
    armed_ = true;
    any |= drain();  // what came before it was asked for makes no event
  }
  return any;
}

/// Takes the next datagram that is one of the group's.
const std::byte* VerbsDatagrams::next(Group& group, int slot, std::size_t* bytes) noexcept {
  if (group.viewed != kNone) post(group, slot, group.viewed);
  group.viewed = kNone;
  for (;;) {
    if (group.first == kNone) drain();
    if (group.first == kNone) return nullptr;
    const int receive = group.first;
    Receive& its = group.receives[static_cast<std::size_t>(receive)];
    group.first = its.next;
    const std::byte* const data = its.at + kRouteHeader;
    groups::Origin origin;
    if (!groups::read_origin(data, its.bytes, &origin) ||
        !groups::is_sealed(group.name, data, its.bytes)) {
      ++group.counts.foreign;
      post(group, slot, receive);
      continue;
    }
    group.losses.note(origin);
    ++group.counts.received;
    group.viewed = receive;
    *bytes = its.bytes - groups::kTrailerBytes;
    return data;
  }
}

const std::byte* VerbsDatagrams::view(int group, std::size_t* bytes) noexcept {
  const std::lock_guard lock(mutex_);
  Group* const its = at(group);
  return its != nullptr ? next(*its, group, bytes) : nullptr;
}

std::size_t VerbsDatagrams::receive(int group, void* out, std::size_t capacity) noexcept {
  const std::lock_guard lock(mutex_);
  Group* const its = at(group);
  std::size_t bytes = 0;
  while (its != nullptr) {
    const std::byte* const data = next(*its, group, &bytes);
    if (data == nullptr) return 0;
    if (bytes <= capacity) {
      std::memcpy(out, data, bytes);
      return bytes;
    }
    ++its->counts.dropped;
    --its->counts.received;
  }
  return 0;
}

std::size_t VerbsDatagrams::room(int group) const noexcept {
  const std::lock_guard lock(mutex_);
  const Group* const its = at(group);
  return its != nullptr ? its->receives.size() : 0;
}

const Word& VerbsDatagrams::arrivals(int group) const noexcept { return at(group)->arrivals; }

Datagrams::Counts VerbsDatagrams::counts(int group) const noexcept {
  const std::lock_guard lock(mutex_);
  const Group* const its = at(group);
  if (its == nullptr) return Counts{};
  Counts counts = its->counts;
  counts.dropped += its->losses.count();
  return counts;
}

}  // namespace tutti::verbs
