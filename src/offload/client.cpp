#include "offload/client.hpp"

#include <algorithm>
#include <cstring>
#include <new>

#include "base/copy.hpp"
#include "coll/algorithms.hpp"

namespace tutti::offload {
namespace {

constexpr std::uint64_t kFarewellNs = 100'000'000;  // that leave() waits for room

const void* send_buffer(const Call& call) noexcept {
  return call.coll == Coll::bcast ? call.recv : call.send;
}

}  // namespace

// ---- set-up

Status Client::open(std::size_t* offset) noexcept {
  TUTTI_TRY(heap_.allocate(kCacheLine, &taken_offset_));
  new (arena() + taken_offset_) Word{0};
  shadow_.resize(kSlots);
  *offset = taken_offset_;
  return Status::success();
}

Status Client::connect(std::size_t counts, std::size_t index) noexcept {
  processor_ = map_[static_cast<std::size_t>(fabric_.rank())];
  TUTTI_TRY(fabric_.arena_of(processor_, &ring_));
  counts_ = counts;
  index_ = index;
  ring_offset_ = counts + kCountsBytes + index * kRingBytes;
  near_ = fabric_.maps(processor_) && fabric_.traits().user_memory;
  stored_ = ring_.mapped != nullptr && !fabric_.traits().virtual_time;
  if (ring_.mapped == nullptr) shadow_data_.resize(kSlots * kCellBytes);
  return Status::success();
}

void Client::leave() noexcept {
  Request request;
  request.kind = kLeave;
  const std::uint64_t until = fabric_.now_ns() + kFarewellNs;
  while (!has_room() || !send_notices()) {
    if (fabric_.now_ns() > until) return;  // the DCP sees the end of this process all the same
    fabric_.progress();
  }
  if (has_room()) static_cast<void>(send(request, nullptr, 0).ok());
  fabric_.progress();
}

// ---- teams

Status Client::list_members(const Port& port, const Team& team, Notice* notice) noexcept {
  const GroupHeader header{{team.id()[0], team.id()[1]}, port.rank, port.size};
  std::vector<std::byte> list(sizeof header + static_cast<std::size_t>(port.size) * 4);
  std::memcpy(list.data(), &header, sizeof header);
  for (int member = 0; member < port.size; ++member) {
    const std::int32_t rank = team.job_rank(member);
    std::memcpy(list.data() + sizeof header + static_cast<std::size_t>(member) * 4, &rank, 4);
  }
  notice->request.bytes = list.size();
  notice->request.place = Place::cell;
  if (list.size() <= kCellBytes) {
    notice->data = std::move(list);
    return Status::success();
  }
  // Too long for a cell: the DCP fetches it, and says when it has.
  List entry{0, 0, list.size()};
  TUTTI_TRY(heap_.allocate(list.size(), &entry.offset));
  std::memcpy(arena() + entry.offset, list.data(), list.size());
  Buffers buffers;
  Region region;
  TUTTI_TRY(fabric_.expose(arena() + entry.offset, list.size(), &region));
  buffers.send = region.key;
  TUTTI_TRY(take_cell(&entry.cell));
  notice->request.place = Place::memory;
  notice->request.reply = static_cast<std::uint32_t>(cells_[entry.cell].offset / kCacheLine);
  notice->request.generation = cells_[entry.cell].generation;
  notice->data.resize(sizeof buffers);
  std::memcpy(notice->data.data(), &buffers, sizeof buffers);
  lists_.push_back(entry);
  return Status::success();
}

Status Client::add(Team& team) noexcept {
  collect_lists();
  auto port = std::make_unique<Port>();
  port->client = this;
  port->rank = team.rank();
  port->size = team.size();
  port->number = static_cast<std::uint32_t>(ports_.size());
  for (int member = 0; member < team.size(); ++member) {
    port->involved.push_back(team.job_rank(member));
    port->involved.push_back(map_[static_cast<std::size_t>(team.job_rank(member))]);
  }
  std::sort(port->involved.begin(), port->involved.end());
  port->involved.erase(std::unique(port->involved.begin(), port->involved.end()),
                       port->involved.end());
  port->members = Membership{port->involved.data(), static_cast<int>(port->involved.size()), {}};
  port->members.team = team.id();
  if (!free_ports_.empty()) port->number = free_ports_.back();
  Notice notice;
  notice.request.kind = kOpenGroup;
  notice.request.group = port->number;
  TUTTI_TRY(list_members(*port, team, &notice));
  notices_.push_back(std::move(notice));
  send_notices();
  team.port = port.get();
  if (free_ports_.empty()) {
    ports_.push_back(std::move(port));
  } else {
    free_ports_.pop_back();
    ports_[port->number] = std::move(port);
  }
  return Status::success();
}

void Client::remove(Team& team) noexcept {
  Port* const port = team.port;
  if (port == nullptr) return;
  collect_lists();
  Notice notice;
  notice.request.kind = kCloseGroup;
  notice.request.group = port->number;
  notices_.push_back(std::move(notice));
  send_notices();
  team.port = nullptr;
  free_ports_.push_back(port->number);
  ports_[port->number].reset();
}

void Client::collect_lists() noexcept {
  std::erase_if(lists_, [this](const List& list) {
    if (reply(list.cell).flag.load(std::memory_order_acquire) < cells_[list.cell].generation)
      return false;
    heap_.free(list.offset, list.bytes);
    free_cells_.push_back(list.cell);
    return true;
  });
}

// ---- requests

bool Client::has_room() noexcept {
  if (sent_ < room_until_) return true;
  const auto& taken = *reinterpret_cast<const Word*>(arena() + taken_offset_);
  room_until_ = taken.load(std::memory_order_acquire) + kSlots;
  return sent_ < room_until_;
}

/// False when there is no room for all of them.
bool Client::send_notices() noexcept {
  std::size_t sent = 0;
  for (; sent < notices_.size() && has_room(); ++sent) {
    const Notice& notice = notices_[sent];
    static_cast<void>(send(notice.request, notice.data.data(), notice.data.size()).ok());
  }
  notices_.erase(notices_.begin(), notices_.begin() + static_cast<std::ptrdiff_t>(sent));
  return notices_.empty();
}

Status Client::take_cell(std::uint32_t* index) noexcept {
  if (free_cells_.empty()) {
    const std::size_t count = std::max<std::size_t>(kFirstReplies, cells_.size());
    std::size_t offset = 0;
    TUTTI_TRY(heap_.allocate(count * kReplyStride, &offset));
    for (std::size_t i = 0; i < count; ++i) {
      new (arena() + offset + i * kReplyStride) ReplyLine{};
      free_cells_.push_back(static_cast<std::uint32_t>(cells_.size()));
      cells_.push_back({offset + i * kReplyStride, 0});
    }
  }
  *index = free_cells_.back();
  free_cells_.pop_back();
  ++cells_[*index].generation;
  return Status::success();
}

Status Client::send(const Request& request, const void* data, std::size_t bytes) noexcept {
  const std::uint64_t number = sent_;
  const std::size_t at = ring_offset_ + request_offset(number);
  const void* body = &request;
  if (stored_) {
    auto* const memory = static_cast<std::byte*>(ring_.mapped);
    if (bytes != 0) copy_bytes(memory + ring_offset_ + data_offset(number), data, bytes);
    auto* const line = reinterpret_cast<RequestLine*>(memory + at);
    line->request = request;
    fabric_.signal(processor_, line->flag, number + 1);
    if (fabric_.sleepers()) fabric_.wake(processor_);
    ++sent_;
    return Status::success();
  }
  if (ring_.mapped == nullptr) {  // the network reads it later
    const std::size_t slot = static_cast<std::size_t>(number % kSlots);
    shadow_[slot] = request;
    body = &shadow_[slot];
    if (bytes != 0) {
      std::memcpy(shadow_data_.data() + slot * kCellBytes, data, bytes);
      data = shadow_data_.data() + slot * kCellBytes;
    }
  }
  fabric_.spend(Work::copy, bytes);
  if (bytes != 0) {
    TUTTI_TRY(
        fabric_.put(ring_, ring_offset_ + data_offset(number), data, bytes, nullptr, nullptr));
  }
  const Tail tail{at + kRequestBody, number + 1};
  TUTTI_TRY(fabric_.put(ring_, at, body, kRequestBody, &tail, nullptr));
  ++sent_;
  return Status::success();
}

/// Large data: the DCP moves it by itself.
Status Client::lend(const Port& port, const Call& call, Buffers* buffers, Lent* lent) noexcept {
  const std::size_t sent = sent_bytes(call, port.rank, port.size);
  const std::size_t received = received_bytes(call, port.rank, port.size);
  const void* send = send_buffer(call);
  void* recv = call.recv;
  if (!near_ && sent + received != 0) {
    const std::size_t first = ArenaHeap::rounded(sent);
    lent->bytes = first + ArenaHeap::rounded(received);
    TUTTI_TRY(heap_.allocate(lent->bytes, &lent->offset));
    std::byte* const piece = arena() + lent->offset;
    fabric_.spend(Work::copy, sent);
    if (sent != 0) std::memcpy(piece, send, sent);
    send = piece;
    recv = piece + first;
  }
  if (sent != 0) TUTTI_TRY(fabric_.expose(const_cast<void*>(send), sent, &lent->send));
  if (received != 0) TUTTI_TRY(fabric_.expose(recv, received, &lent->recv));
  *buffers = {lent->send.key, lent->recv.key};
  return Status::success();
}

void Client::take_back(Lent& lent) noexcept {
  if (lent.send.base != nullptr) fabric_.withdraw(lent.send);
  if (lent.recv.base != nullptr) fabric_.withdraw(lent.recv);
  if (lent.bytes != 0) heap_.free(lent.offset, lent.bytes);
}

Status Client::describe(const Port& port, const Call& call, Message* message, Lent* lent) noexcept {
  Request& request = message->request;
  request.group = port.number;
  request.kind = static_cast<std::uint8_t>(call.coll);
  request.root = call.root;
  request.bytes = call.bytes;
  if (call.reduction != nullptr) {
    if (call.reduction->op == Reduction::kNoName)
      return Status::error(Code::unsupported, "an operator that dedicated processors do not know");
    request.op = call.reduction->op;
    request.type = call.reduction->type;
  }
  if (!fits_cells(call.coll, call.bytes, port.size)) {
    request.place = Place::memory;
    message->data = &message->buffers;
    message->bytes = sizeof message->buffers;
    return lend(port, call, &message->buffers, lent);
  }
  const std::size_t bytes = sent_bytes(call, port.rank, port.size);
  if (bytes == 0) return Status::success();
  if (bytes <= Request::kHere) {
    request.place = Place::here;
    std::memcpy(request.data, send_buffer(call), bytes);
  } else {
    request.place = Place::cell;
    message->data = send_buffer(call);
    message->bytes = bytes;
  }
  return Status::success();
}

/// Requests go out in the order in which they were started.
Task Client::wait_for_turn(Port& port, std::uint64_t turn) noexcept {
  co_await engine_.reached(turn_, turn, nobody_);
  const auto& taken = *reinterpret_cast<const Word*>(arena() + taken_offset_);
  while (!send_notices() || !has_room()) {
    co_await engine_.reached(taken, sent_ - kSlots + 1, port.members, processor_);
  }
  co_return Status::success();
}

Status Client::collect(Port& port, const Call& call, const Reply& reply,
                       const Lent& lent) noexcept {
  if (reply.code != 0) {
    const Status status{static_cast<Code>(reply.code), reply.peer,
                        "the dedicated processors could not do it"};
    if (status.code == Code::peer_lost) port.members.broken = status;
    return status;
  }
  const std::size_t bytes = received_bytes(call, port.rank, port.size);
  const std::byte* from =
      bytes <= Reply::kHere ? reply.data : reinterpret_cast<const std::byte*>(&reply) + kCacheLine;
  if (!fits_cells(call.coll, call.bytes, port.size)) {
    if (lent.bytes == 0) return Status::success();  // it lies in the caller's memory already
    from = static_cast<const std::byte*>(lent.recv.base);
  }
  fabric_.spend(Work::copy, bytes);
  if (bytes != 0) std::memcpy(call.recv, from, bytes);
  return Status::success();
}

bool Client::hand_over(Port& port, const Call& call, Handed* out) noexcept {
  if (turn_.load(std::memory_order_relaxed) != turns_ || !notices_.empty() || !has_room() ||
      !fits_cells(call.coll, call.bytes, port.size) || !port.members.broken.ok()) {
    return false;
  }
  Message message;
  std::uint32_t cell = 0;
  if (!describe(port, call, &message, nullptr).ok() || !take_cell(&cell).ok()) return false;
  message.request.reply = static_cast<std::uint32_t>(cells_[cell].offset / kCacheLine);
  message.request.generation = cells_[cell].generation;
  if (!send(message.request, message.data, message.bytes).ok()) {
    free_cells_.push_back(cell);
    return false;
  }
  turn_.store(++turns_, std::memory_order_release);
  *out = {&reply(cell).flag, message.request.generation, cell};
  return true;
}

Status Client::take(Port& port, const Call& call, const Handed& handed) noexcept {
  const Status status = collect(port, call, reply(handed.cell).reply, Lent{});
  free_cells_.push_back(handed.cell);
  return status;
}

Task Client::await(Port& port, const Call& call, Handed handed) noexcept {
  // Where this fails the DCP may still write: the cell is not used again.
  co_await engine_.reached(*handed.flag, handed.generation, port.members, processor_);
  co_return take(port, call, handed);
}

Task Client::run(Port& port, const Call& call) noexcept {
  Handed handed;
  if (!hand_over(port, call, &handed)) return run_in_turn(port, call);
  if (engine_.soon(*handed.flag, handed.generation))
    return Task::completed(take(port, call, handed));
  return await(port, call, handed);
}

Task Client::run_in_turn(Port& port, const Call& call) noexcept {
  const std::uint64_t turn = turns_++;
  Status status;
  if (turn_.load(std::memory_order_relaxed) != turn || !notices_.empty() || !has_room()) {
    // Somebody must look after it until it is on its way; a blocking caller does by itself.
    const bool guarded = engine_.guarded();
    if (guarded) engine_.background().started();
    status = co_await outcome(wait_for_turn(port, turn));
    if (guarded) engine_.background().finished();
  }
  Message message;
  Lent lent;
  std::uint32_t cell = 0;
  if (status.ok()) status = describe(port, call, &message, &lent);
  if (status.ok()) status = take_cell(&cell);
  if (status.ok()) {
    message.request.reply = static_cast<std::uint32_t>(cells_[cell].offset / kCacheLine);
    message.request.generation = cells_[cell].generation;
    status = send(message.request, message.data, message.bytes);
  }
  turn_.store(turn + 1, std::memory_order_release);
  if (!status.ok()) {
    take_back(lent);
    co_return status;
  }
  const ReplyLine& answer = reply(cell);
  // Where this fails the DCP may still write: neither cell nor memory is used again.
  co_await engine_.reached(answer.flag, message.request.generation, port.members, processor_);
  status = collect(port, call, answer.reply, lent);
  free_cells_.push_back(cell);
  take_back(lent);
  co_return status;
}

Task offloaded(Collective& c) { return c.team.port->client->run(*c.team.port, c.call); }

}  // namespace tutti::offload

namespace tutti {
namespace {

const char* by_processors(const Shape& s) {
  if (!s.dedicated) return "no dedicated processors serve it (TUTTI_DCP)";
  if (s.at_once || s.fixed_order) return "the parts of a processor are folded first";
  if (!s.divisible) return "the operator is known to the program only";
  return s.commutative ? nullptr : "the operator does not commute";
}

}  // namespace

namespace algorithm {

const Algorithm barrier_dcp = {
    .coll = Coll::barrier,
    .name = "dcp",
    .run = with_parameters<tutti::offload::offloaded>,
    .restriction_of = with_parameters<by_processors>,
    .source = "CDCP-2008, section IV",
    .offloaded = true,
};

const Algorithm bcast_dcp = {
    .coll = Coll::bcast,
    .name = "dcp",
    .run = with_parameters<tutti::offload::offloaded>,
    .restriction_of = with_parameters<by_processors>,
    .source = "CDCP-2008, section IV",
    .offloaded = true,
};

const Algorithm reduce_dcp = {
    .coll = Coll::reduce,
    .name = "dcp",
    .run = with_parameters<tutti::offload::offloaded>,
    .restriction_of = with_parameters<by_processors>,
    .source = "CDCP-2008, section IV",
    .offloaded = true,
};

const Algorithm allreduce_dcp = {
    .coll = Coll::allreduce,
    .name = "dcp",
    .run = with_parameters<tutti::offload::offloaded>,
    .restriction_of = with_parameters<by_processors>,
    .source = "CDCP-2008, section IV",
    .offloaded = true,
};

const Algorithm allgather_dcp = {
    .coll = Coll::allgather,
    .name = "dcp",
    .run = with_parameters<tutti::offload::offloaded>,
    .restriction_of = with_parameters<by_processors>,
    .source = "CDCP-2008, section IV",
    .offloaded = true,
};

const Algorithm alltoall_dcp = {
    .coll = Coll::alltoall,
    .name = "dcp",
    .run = with_parameters<tutti::offload::offloaded>,
    .restriction_of = with_parameters<by_processors>,
    .source = "CDCP-2008, section IV",
    .offloaded = true,
};

}  // namespace algorithm
}  // namespace tutti
