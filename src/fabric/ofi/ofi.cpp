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
  places_.assign(addresses_.size(), FI_ADDR_UNSPEC);
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
  fi_addr_t& place = places_[static_cast<std::size_t>(peer)];
  if (place != FI_ADDR_UNSPEC) return Status::success();
  const NetworkAddress& address = addresses_[static_cast<std::size_t>(peer)];
  fi_addr_t found = FI_ADDR_UNSPEC;
  if (fi_av_insert(vector_, address.data, 1, &found, 0, nullptr) != 1) {
    return Status::peer_lost(peer, "the network does not accept its address");
  }
  place = found;
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

/// 0, or libfabric's error.
int OfiNetwork::post_kind(Operation& operation) noexcept {
  static_assert(sizeof(fi_context2) <= sizeof operation.context);
  const fi_addr_t to = places_[static_cast<std::size_t>(operation.target.peer)];
  ssize_t error = 0;
  switch (operation.kind) {
    case Kind::put:
      return post_write(operation, to);
    case Kind::get:
      error = fi_read(endpoint_, operation.memory.address, operation.bytes,
                      reinterpret_cast<void*>(operation.memory.token), to, operation.target.address,
                      operation.target.key, &operation.context);
      break;
    case Kind::notice:
      error = fi_writedata(endpoint_, &operation.value, 0, reinterpret_cast<void*>(operation.token),
                           sealed_notice(operation.target.peer, operation.value), to,
                           operation.target.address, operation.target.key, &operation.context);
      break;
  }
  if (error == 0) ++operation.parts;
  return static_cast<int>(error);
}

int OfiNetwork::post_write(Operation& operation, fi_addr_t to) noexcept {
  const bool data = operation.bytes != 0 && operation.posted == 0;
  if (data && operation.counts && !one_write_) {
    if (const int error = post_message(operation, to, true, false); error != 0) return error;
    operation.posted = operation.bytes;
    return post_message(operation, to, false, true);
  }
  return post_message(operation, to, data, operation.counts);
}

int OfiNetwork::post_message(Operation& operation, fi_addr_t to, bool data, bool counter) noexcept {
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
  message.addr = to;
  message.rma_iov = remote;
  message.rma_iov_count = parts;
  message.context = &operation.context;
  message.data = kArrival;
  const auto error = static_cast<int>(
      fi_writemsg(endpoint_, &message, FI_COMPLETION | (counter ? FI_REMOTE_CQ_DATA : 0)));
  if (error == 0) ++operation.parts;
  return error;
}

// ---- progress

bool OfiNetwork::read_errors() noexcept {
  fi_cq_err_entry entry{};
  if (fi_cq_readerr(queue_, &entry, 0) < 0 || entry.op_context == nullptr) return false;
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

void OfiNetwork::take_notice(std::uint64_t data) noexcept {
  const auto notice = static_cast<std::uint32_t>(data);
  if (!tags_notices_ || data == sealed_notice(rank_, notice)) {
    notices_.push_back(notice);
  } else if (forged_++ == 0) {
    log(LogLevel::debug, "a stranger has sent a notice over %s: it is dropped, and so are others",
        name_.c_str());
  }
}

bool OfiNetwork::poll(bool) noexcept {
  constexpr std::size_t kBatch = 16;
  bool any = false;
  for (;;) {
    fi_cq_data_entry entries[kBatch];
    const ssize_t count = fi_cq_read(queue_, entries, kBatch);
    if (count == -FI_EAVAIL) {
      if (!read_errors()) return any;
      any = true;
      continue;
    }
    if (count <= 0) return any;
    any = true;
    for (ssize_t i = 0; i < count; ++i) {
      const fi_cq_data_entry& entry = entries[i];
      if ((entry.flags & FI_REMOTE_CQ_DATA) != 0) {
        if ((entry.data & kArrival) == 0) take_notice(entry.data);
      } else if (entry.op_context != nullptr) {
        part_over(*static_cast<Operation*>(entry.op_context), Status::success());
      }
    }
  }
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

bool OfiNetwork::arm() noexcept {
  fid* objects[] = {&queue_->fid};
  return fi_trywait(fabric_, objects, 1) == 0;
}

}  // namespace tutti::ofi
