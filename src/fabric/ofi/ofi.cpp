#include "fabric/ofi/ofi.hpp"

#include <algorithm>
#include <cstring>

#include "base/log.hpp"

namespace tutti::ofi {
namespace {

constexpr std::uint64_t kDoubt = 200'000'000;  // ns after which a peer that takes nothing is asked
constexpr std::uint64_t kReconnect =
    1'000'000'000;  // ns that a peer that was reached before may refuse

}  // namespace

Status OfiNetwork::prepare_for_peers() noexcept {
  notice_key_ = prove(secret_, "notices", nullptr, 0);
  first_.places.assign(addresses_.size(), FI_ADDR_UNSPEC);
  if (!second_.is_open()) return Status::success();
  for (Reads& reads : reads_) reads.places.assign(addresses_.size(), FI_ADDR_UNSPEC);
  second_.places.assign(addresses_.size(), FI_ADDR_UNSPEC);
  bells_.assign(addresses_.size(), 0);
  return Status::success();
}

Status OfiNetwork::register_for_peers(void* base, std::size_t bytes, Registration* region,
                                      NetworkMemory* out) noexcept {
  const int error = registrar_.add_for_peers(base, bytes, region);
  if (error == -FI_ENOMEM) return Status::error(Code::no_memory, "memory cannot be registered");
  if (error != 0)
    return Status::error(Code::not_permitted, "the network refuses to register memory");
  out->address = virtual_addresses_ ? reinterpret_cast<std::uint64_t>(base) : 0;
  out->key = fi_mr_key(static_cast<fid_mr*>(region->region));
  return Status::success();
}

Status OfiNetwork::reach(std::int32_t peer) noexcept {
  const auto at = static_cast<std::size_t>(peer);
  if (first_.places[at] != FI_ADDR_UNSPEC) return Status::success();
  const NetworkAddress& address = addresses_[at];
  std::size_t offset = 0;
  bool good = true;
  const auto insert = [&](fid_av* vector, fi_addr_t* place) {
    good = good && fi_av_insert(vector, address.data + offset, 1, place, 0, nullptr) == 1;
    offset += address_bytes_;
  };
  insert(first_.vector, &first_.places[at]);
  if (parted(peer)) insert(second_.vector, &second_.places[at]);
  if (reads_apart_ && endpoints_of(peer) == kEndpoints) {
    for (Reads& reads : reads_) insert(first_.vector, &reads.places[at]);
  }
  if (!good) {
    first_.places[at] = FI_ADDR_UNSPEC;
    return Status::peer_lost(peer, "the network does not accept its address");
  }
  ++use_.connections;
  return Status::success();
}

// ---- posting

/// Parts that the provider has taken are not posted again.
QueuedNetwork::Posted OfiNetwork::post(Operation& operation) noexcept {
  if (const Posted found = find_memory(operation); found != Posted::all) return found;
  const int error = post_kind(operation);
  if (error == 0) return Posted::all;
  if (error == -FI_EAGAIN) return Posted::blocked;
  if (error == -FI_EBUSY) return Posted::no_room;
  operation.status = error == -FI_ENOMEM ? no_registration()
                                         : Status::peer_lost(operation.target.peer,
                                                             "the network refuses the operation");
  return Posted::failed;
}

/// A long one goes by itself as soon as there is a connection for it: to try makes one. Until then,
/// and where there can be none, it goes with everything else, and nothing waits for it.
int OfiNetwork::post_read(Operation& operation) noexcept {
  const auto at = static_cast<std::size_t>(operation.target.peer);
  const auto read = [&](fid_ep* endpoint, fi_addr_t place) {
    return static_cast<int>(fi_read(endpoint, operation.memory.address, operation.bytes,
                                    reinterpret_cast<void*>(operation.memory.token), place,
                                    operation.target.address, operation.target.key,
                                    &operation.context));
  };
  int error = -FI_EAGAIN;
  if (reads_apart_ && operation.bytes >= kLongRead) {
    const Reads& apart = reads_[rank_ > operation.target.peer ? 1 : 0];
    if (apart.places[at] != FI_ADDR_UNSPEC) error = read(apart.endpoint, apart.places[at]);
  }
  if (error != 0) error = read(first_.endpoint, first_.places[at]);
  if (error == 0) ++operation.parts;
  return error;
}

/// 0, or libfabric's error.
int OfiNetwork::post_kind(Operation& operation) noexcept {
  static_assert(sizeof(fi_context2) <= sizeof operation.context);
  const Lane& lane = lane_of(operation);
  const fi_addr_t to = lane.places[static_cast<std::size_t>(operation.target.peer)];
  ssize_t error = 0;
  switch (operation.kind) {
    case Kind::put:
      return post_write(operation);
    case Kind::get:
      return post_read(operation);
    case Kind::notice:
      error =
          fi_writedata(lane.endpoint, &operation.value, 0, reinterpret_cast<void*>(operation.token),
                       sealed_notice(operation.target.peer, operation.value), to,
                       operation.target.address, operation.target.key, &operation.context);
      break;
  }
  if (error == 0) ++operation.parts;
  return static_cast<int>(error);
}

int OfiNetwork::post_write(Operation& operation) noexcept {
  const bool data = operation.bytes != 0 && operation.posted == 0;
  if (data && operation.counts && !one_write_) {
    if (const int error = post_message(operation, true, false); error != 0) return error;
    operation.posted = operation.bytes;
    return post_message(operation, false, true);
  }
  return post_message(operation, data, operation.counts);
}

int OfiNetwork::post_message(Operation& operation, bool data, bool counter) noexcept {
  const Lane& lane = lane_of(operation);
  iovec local[2];
  void* descriptors[2];
  fi_rma_iov remote[2];
  std::size_t parts = 0;
  if (data) {
    local[parts] = {operation.memory.address, operation.bytes};
    descriptors[parts] = reinterpret_cast<void*>(operation.memory.token);
    remote[parts++] = {operation.target.address, operation.bytes, operation.target.key};
  }
  if (counter) {
    local[parts] = {&operation.value, sizeof operation.value};
    descriptors[parts] = reinterpret_cast<void*>(operation.token);
    remote[parts++] = {operation.counter.address, sizeof operation.value, operation.counter.key};
  }
  fi_msg_rma message{};
  message.msg_iov = local;
  message.desc = registers_sources_ ? descriptors : nullptr;
  message.iov_count = parts;
  message.addr = lane.places[static_cast<std::size_t>(operation.target.peer)];
  message.rma_iov = remote;
  message.rma_iov_count = parts;
  message.context = &operation.context;
  message.data = arrival_of(operation.event);
  const auto error = static_cast<int>(
      fi_writemsg(lane.endpoint, &message, FI_COMPLETION | (counter ? FI_REMOTE_CQ_DATA : 0)));
  if (error == 0) ++operation.parts;
  return error;
}

// ---- progress

bool OfiNetwork::read_errors(Lane& lane) noexcept {
  fi_cq_err_entry entry{};
  if (fi_cq_readerr(lane.queue, &entry, 0) < 0 || entry.op_context == nullptr) return false;
  auto& operation = *static_cast<Operation*>(entry.op_context);
  part_over(operation, Status::peer_lost(operation.target.peer, "the connection is broken"));
  return true;
}

/// A notice needs no key of any memory, and whoever reaches the port can send one: it carries a tag
/// that only ranks of the job can make, where the provider has room for it.
std::uint64_t OfiNetwork::sealed_notice(std::int32_t to, std::uint64_t notice) const noexcept {
  if (!tags_notices_) return notice;
  const std::uint64_t message[2] = {static_cast<std::uint64_t>(to), notice};
  return static_cast<std::uint64_t>(tag_of(notice_key_, message, sizeof message)) << 32 | notice;
}

/// Whether it has come on the other lane, too. Of those that never do only so many are kept.
bool OfiNetwork::complete(std::uint32_t last, Event way) noexcept {
  const auto is_other = [&](const Half& half) { return half.notice == last && half.way != way; };
  if (std::erase_if(halves_, is_other) != 0) return true;
  if (halves_.size() < addresses_.size()) halves_.push_back({last, way});
  return false;
}

void OfiNetwork::take_notice(std::uint64_t data, Event way) noexcept {
  const auto notice = static_cast<std::uint32_t>(data);
  if (!tags_notices_ || data == sealed_notice(rank_, notice)) {
    if ((notice & kBell) != 0) return take_bell(notice & ~kBell, way);
    if ((notice & kLast) != 0 && !complete(notice, way)) return;
    notices_.push_back(notice & ~kLast);
  } else if (forged_++ == 0) {
    log(LogLevel::debug, "a stranger has sent a notice over %s: it is dropped, and so are others",
        name_.c_str());
  }
}

/// What comes on the second lane may come before or after the bell on the first that speaks of it.
void OfiNetwork::take_bell(std::uint32_t sender, Event way) noexcept {
  if (sender >= bells_.size() || !parted(static_cast<std::int32_t>(sender))) return;
  std::int32_t& bells = bells_[sender];
  if (way == Event::solicited) {
    if (++bells == 1) ++expected_;
  } else {
    if (bells-- == 1) --expected_;
  }
}

Moved OfiNetwork::poll(bool) noexcept {
  Moved moved = poll_lane(first_, Event::solicited);
  if (second_.is_open()) add(poll_lane(second_, Event::unsolicited), &moved);
  return moved;
}

Moved OfiNetwork::poll_lane(Lane& lane, Event way) noexcept {
  constexpr std::size_t kBatch = 16;
  Moved moved = Moved::nothing;
  for (;;) {
    fi_cq_data_entry entries[kBatch];
    const ssize_t count = fi_cq_read(lane.queue, entries, kBatch);
    if (count == -FI_EAVAIL) {
      if (!read_errors(lane)) return moved;
      moved = Moved::something;
      continue;
    }
    if (count <= 0) return moved;
    for (ssize_t i = 0; i < count; ++i) {
      const fi_cq_data_entry& entry = entries[i];
      const bool arrival = (entry.flags & FI_REMOTE_CQ_DATA) != 0;
      const bool unsolicited = arrival && entry.data == arrival_of(Event::unsolicited);
      add(unsolicited ? Moved::unsolicited : Moved::something, &moved);
      if (arrival) {
        if ((entry.data & kArrival) == 0) take_notice(entry.data, way);
      } else if (entry.op_context != nullptr) {
        part_over(*static_cast<Operation*>(entry.op_context), Status::success());
      }
    }
  }
}

/// Nor does anything come from it.
void OfiNetwork::give_up(std::int32_t peer, const char* why) noexcept {
  if (!bells_.empty()) {
    std::int32_t& bells = bells_[static_cast<std::size_t>(peer)];
    if (bells > 0) --expected_;
    bells = 0;
  }
  fail_queues(peer, why);
}

/// One that is stopped takes nothing either.
bool OfiNetwork::patient(std::int32_t peer, const Queue& queue, std::uint64_t now) noexcept {
  const std::uint64_t blocked = now - queue.blocked_since_ns;
  if (health_ != nullptr && blocked > kDoubt) {
    const PeerHealth::Verdict verdict = health_->ask(peer, now);
    if (verdict == PeerHealth::Verdict::stands) return true;
    if (verdict == PeerHealth::Verdict::gone) return false;
  }
  return blocked < (queue.reached ? std::min(kReconnect, timeout_ns_) : timeout_ns_);
}

bool OfiNetwork::listens_at(const NetworkAddress& address, sockaddr_storage* out) const noexcept {
  if (bypasses_kernel() || address.bytes < sizeof(sa_family_t)) return false;
  sockaddr_storage found{};
  std::memcpy(&found, address.data, std::min(sizeof found, NetworkAddress::kBytes));
  if (found.ss_family != AF_INET && found.ss_family != AF_INET6) return false;
  *out = found;
  return true;
}

int OfiNetwork::arm(Attention attention) noexcept {
  const bool both = second_.is_open() && (attention == Attention::all || needs_all());
  fid* objects[] = {&first_.queue->fid, both ? &second_.queue->fid : nullptr};
  if (fi_trywait(fabric_, objects, both ? 2 : 1) != 0) return -1;
  return both ? both_ : first_.descriptor;
}

}  // namespace tutti::ofi
