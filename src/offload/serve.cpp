// Collectives: the part of the APPs, the DCPs among themselves, and back.
#include <algorithm>
#include <cstring>

#include "offload/group.hpp"
#include "offload/server.hpp"

namespace tutti::offload {
namespace {

constexpr std::size_t kPiece = std::size_t{64} << 10;    // of a vector, between two of which others
constexpr std::size_t kPieces = std::size_t{256} << 10;  // of all blocks together     come first
constexpr std::size_t kLeastPiece = 64;

std::size_t whole_elements(std::size_t bytes, std::size_t element) noexcept {
  return bytes < element ? element : bytes / element * element;
}

}  // namespace

Status Server::team_of(Group& group, bool small, Team** out) noexcept {
  Team*& team = group.teams[small];
  if (team == nullptr) {
    // Different from the ids of communicators, which are mixed too.
    const std::uint64_t id[2] = {group.id[0] * 0x9e3779b97f4a7c15 ^ (small ? 0x646370 : 0x444350),
                                 group.id[1] ^ 0x6f66666c6f6164};
    TUTTI_TRY(teams_.create(id, group.mine, static_cast<int>(group.processors.size()),
                            group.processors.data(), &team));
  }
  *out = team;
  return Status::success();
}

Status Server::attach_memory(Round& round) noexcept {
  for (Arrival& arrival : round.arrivals) {
    Buffers buffers;
    std::memcpy(&buffers, arrival.data, sizeof buffers);
    arrival.send = arrival.recv = Remote{};
    if (buffers.send.words[0] != 0)
      TUTTI_TRY(fabric_.attach(arrival.app->rank, buffers.send, &arrival.send));
    if (buffers.recv.words[0] != 0)
      TUTTI_TRY(fabric_.attach(arrival.app->rank, buffers.recv, &arrival.recv));
  }
  return Status::success();
}

Task Server::serve(Group& group, Round& round) noexcept {
  const Request& request = round.arrivals.front().request;
  Job job{group, round, {}, {}};
  job.call.coll = static_cast<Coll>(request.kind);
  job.call.root = request.root;
  job.call.bytes = static_cast<std::size_t>(request.bytes);
  Status status;
  if (job.call.coll == Coll::allreduce || job.call.coll == Coll::reduce) {
    if (!find_reduction(static_cast<Op>(request.op), static_cast<Type>(request.type),
                        &job.reduction))
      status = Status::error(Code::corrupt, "a request names no reduction");
    job.call.reduction = &job.reduction;
  }
  if (status.ok() && group.processors.size() > 1) status = team_of(group, round.small, &job.team);
  if (status.ok() && !round.small) status = attach_memory(round);
  if (status.ok()) status = co_await outcome(run(job));
  add(counts_->collectives, 1);  // whoever has the answer finds it counted
  status = co_await outcome(answer_all(job, status));
  finish(group, round);
  co_return status;
}

Task Server::run(Job& job) noexcept {
  switch (job.call.coll) {
    case Coll::allreduce:
    case Coll::reduce:
      return fold(job);
    case Coll::bcast:
      return spread(job);
    case Coll::allgather:
      return collect(job);
    case Coll::alltoall:
      return exchange(job);
    default:
      return combine(job, job.call);
  }
}

/// A collective of the DCPs, by whatever algorithm is best among them. `call` must outlive the
/// task.
Task Server::combine(Job& job, const Call& call) noexcept {
  if (job.team == nullptr) return Task::completed(Status::success());
  return job.team->run(call);
}

// ---- moving data

Task Server::read(Job& job, std::size_t local, std::size_t offset, void* to,
                  std::size_t bytes) noexcept {
  Arrival& arrival = job.arrival(local);
  fabric_.spend(Work::copy, bytes);
  if (job.round.small) {
    std::memcpy(to, arrival.data + offset, bytes);
    co_return Status::success();
  }
  Completion done;
  co_await fabric_.get(arrival.send, offset, to, bytes, &done);
  co_await engine_.completed(done, arrival.app->self, arrival.app->rank);
  co_return Status::success();
}

Task Server::write(Job& job, std::size_t local, std::size_t offset, const void* from,
                   std::size_t bytes) noexcept {
  Arrival& arrival = job.arrival(local);
  fabric_.spend(Work::copy, bytes);
  Completion done;
  co_await fabric_.put(arrival.recv, offset, from, bytes, nullptr, &done);
  co_await engine_.completed(done, arrival.app->self, arrival.app->rank);
  co_return Status::success();
}

/// Bytes [offset, offset + length) of each of the blocks, one after the other in `to`.
Task Server::read_blocks(Job& job, std::size_t local, std::size_t offset, std::byte* to,
                         std::size_t length) noexcept {
  if (length == job.call.bytes) {
    co_await read(job, local, 0, to, length * job.size());
    co_return Status::success();
  }
  for (std::size_t block = 0; block < job.size(); ++block) {
    co_await read(job, local, block * job.call.bytes + offset, to + block * length, length);
  }
  co_return Status::success();
}

Task Server::write_blocks(Job& job, std::size_t local, std::size_t offset, const std::byte* from,
                          std::size_t length) noexcept {
  if (length == job.call.bytes) {
    co_await write(job, local, 0, from, length * job.size());
    co_return Status::success();
  }
  for (std::size_t block = 0; block < job.size(); ++block) {
    co_await write(job, local, block * job.call.bytes + offset, from + block * length, length);
  }
  co_return Status::success();
}

// ---- the collectives

/// Allreduce and reduce: folds the parts of the APPs in rank order, then those of the DCPs.
Task Server::fold(Job& job) noexcept {
  Round& round = job.round;
  const std::size_t element = job.reduction.element_bytes;
  const std::size_t piece =
      round.small ? job.call.bytes : std::min(job.call.bytes, whole_elements(kPiece, element));
  const bool all = job.call.coll == Coll::allreduce;
  const int root = job.group.processor_of[static_cast<std::size_t>(job.call.root)];
  round.in.resize(piece);
  round.out.resize(piece);
  for (std::size_t offset = 0; offset < job.call.bytes; offset += piece) {
    const std::size_t bytes = std::min(piece, job.call.bytes - offset);
    const std::byte* left = job.arrival(0).data;
    if (!round.small || job.locals() == 1) {
      co_await read(job, 0, offset, round.out.data(), bytes);
      left = round.out.data();
    }
    for (std::size_t local = 1; local < job.locals(); ++local) {
      const std::byte* part = job.arrival(local).data;
      if (!round.small) {
        co_await read(job, local, offset, round.in.data(), bytes);
        part = round.in.data();
      }
      fabric_.spend(Work::reduce, bytes);
      job.reduction.fold(left, part, round.out.data(), bytes / element, job.reduction);
      left = round.out.data();
    }
    Call call = job.call;
    call.root = root;
    call.bytes = bytes;
    call.send = round.out.data();
    call.recv = all || job.group.mine == root ? round.out.data() : nullptr;
    co_await combine(job, call);
    for (std::size_t local = 0; local < job.locals(); ++local) {
      job.arrival(local).result = round.out.data();
      if (round.small || (!all && job.member(local) != job.call.root)) continue;
      co_await write(job, local, offset, round.out.data(), bytes);
    }
    if (!round.small) co_await engine_.later();
  }
  co_return Status::success();
}

/// Broadcast.
Task Server::spread(Job& job) noexcept {
  Round& round = job.round;
  const std::size_t piece = std::min(job.call.bytes, round.small ? job.call.bytes : kPiece);
  const auto& locals = job.group.locals;
  const auto root = static_cast<std::size_t>(
      std::lower_bound(locals.begin(), locals.end(), job.call.root) - locals.begin());
  const bool here = root < locals.size() && locals[root] == job.call.root;
  round.out.resize(piece);
  for (std::size_t offset = 0; offset < job.call.bytes; offset += piece) {
    const std::size_t bytes = std::min(piece, job.call.bytes - offset);
    if (here) co_await read(job, root, offset, round.out.data(), bytes);
    Call call = job.call;
    call.root = job.group.processor_of[static_cast<std::size_t>(job.call.root)];
    call.bytes = bytes;
    call.recv = round.out.data();
    co_await combine(job, call);
    for (std::size_t local = 0; local < job.locals(); ++local) {
      job.arrival(local).result = round.out.data();
      if (round.small || job.member(local) == job.call.root) continue;
      co_await write(job, local, offset, round.out.data(), bytes);
    }
    if (!round.small) co_await engine_.later();
  }
  co_return Status::success();
}

/// Allgather: the DCPs gather what their APPs have, and put it into the order of the members.
Task Server::collect(Job& job) noexcept {
  Round& round = job.round;
  const std::size_t piece =
      round.small ? job.call.bytes
                  : std::min(job.call.bytes, std::max(kLeastPiece, kPieces / job.size()));
  std::vector<std::size_t> counts, displs;
  for (std::size_t offset = 0; offset < job.call.bytes; offset += piece) {
    const std::size_t bytes = std::min(piece, job.call.bytes - offset);
    round.in.resize(job.locals() * bytes);
    round.received.resize(job.size() * bytes);
    round.out.resize(job.size() * bytes);
    for (std::size_t local = 0; local < job.locals(); ++local)
      co_await read(job, local, offset, round.in.data() + local * bytes, bytes);
    counts.clear();
    displs.clear();
    for (const auto& served : job.group.served) {
      displs.push_back(displs.empty() ? 0 : displs.back() + counts.back());
      counts.push_back(served.size() * bytes);
    }
    Call call;
    call.coll = Coll::allgatherv;
    call.bytes = job.size() * bytes;
    call.send = round.in.data();
    call.recv = round.received.data();
    call.counts = counts.data();
    call.displs = displs.data();
    co_await combine(job, call);
    const std::byte* from = job.team == nullptr ? round.in.data() : round.received.data();
    fabric_.spend(Work::copy, round.out.size());
    for (const auto& served : job.group.served) {
      for (const int member : served) {
        std::memcpy(round.out.data() + static_cast<std::size_t>(member) * bytes, from, bytes);
        from += bytes;
      }
    }
    for (std::size_t local = 0; local < job.locals(); ++local) {
      job.arrival(local).result = round.out.data();
      if (round.small) continue;
      co_await write_blocks(job, local, offset, round.out.data(), bytes);
    }
    if (!round.small) co_await engine_.later();
  }
  co_return Status::success();
}

/// Alltoall: each DCP sends each other all that its APPs have for the other's, in one block; blocks
/// are as long as the longest must be.
Task Server::exchange(Job& job) noexcept {
  Round& round = job.round;
  const auto& served = job.group.served;
  const std::size_t size = job.size(), locals = job.locals(), most = job.group.most_served;
  const std::size_t piece =
      round.small ? job.call.bytes
                  : std::min(job.call.bytes, std::max(kLeastPiece, kPieces / (size * most)));
  for (std::size_t offset = 0; offset < job.call.bytes; offset += piece) {
    const std::size_t bytes = std::min(piece, job.call.bytes - offset);
    const std::size_t block = most * most * bytes;
    round.in.resize(locals * size * bytes);
    round.out.resize(locals * size * bytes);
    round.packed.resize(served.size() * block);
    round.received.resize(served.size() * block);
    for (std::size_t local = 0; local < locals; ++local) {
      co_await read_blocks(job, local, offset, round.in.data() + local * size * bytes, bytes);
    }
    fabric_.spend(Work::copy, 2 * round.in.size());
    // By DCP, then by its member that receives, then by the one here that sends.
    for (std::size_t to = 0; to < served.size(); ++to) {
      for (std::size_t receiver = 0; receiver < served[to].size(); ++receiver) {
        const auto member = static_cast<std::size_t>(served[to][receiver]);
        for (std::size_t local = 0; local < locals; ++local) {
          std::memcpy(round.packed.data() + to * block + (receiver * most + local) * bytes,
                      round.in.data() + (local * size + member) * bytes, bytes);
        }
      }
    }
    Call call;
    call.coll = Coll::alltoall;
    call.bytes = block;
    call.send = round.packed.data();
    call.recv = round.received.data();
    co_await combine(job, call);
    const std::byte* from = job.team == nullptr ? round.packed.data() : round.received.data();
    for (std::size_t local = 0; local < locals; ++local) {
      std::byte* const result = round.out.data() + local * size * bytes;
      for (std::size_t by = 0; by < served.size(); ++by) {
        for (std::size_t sender = 0; sender < served[by].size(); ++sender) {
          std::memcpy(result + static_cast<std::size_t>(served[by][sender]) * bytes,
                      from + by * block + (local * most + sender) * bytes, bytes);
        }
      }
      job.arrival(local).result = result;
      if (!round.small) co_await write_blocks(job, local, offset, result, bytes);
    }
    if (!round.small) co_await engine_.later();
  }
  co_return Status::success();
}

// ---- answers

/// Everybody's result, or the news that there is none. An APP that is lost does not keep the others
/// from theirs.
Task Server::answer_all(Job& job, Status status) noexcept {
  Round& round = job.round;
  Completion done;
  for (std::size_t local = 0; local < job.locals(); ++local) {
    Arrival& arrival = job.arrival(local);
    const std::size_t bytes = round.small && status.ok()
                                  ? received_bytes(job.call, job.member(local), job.group.size)
                                  : 0;
    static_cast<void>(
        answer(*arrival.app, arrival.request, status, arrival.result, bytes, arrival.body, &done)
            .ok());
  }
  if (done.over()) co_return status;
  // Networks read the answers from here.
  for (std::size_t local = 0; local < job.locals(); ++local) {
    App& app = *job.arrival(local).app;
    static_cast<void>((co_await outcome(engine_.completed(done, app.self, app.rank))).ok());
  }
  co_return status;
}

Status Server::answer(App& app, const Request& request, Status status, const std::byte* data,
                      std::size_t bytes, std::byte* body, Completion* done) noexcept {
  Reply reply;
  reply.code = static_cast<std::uint8_t>(status.code);
  reply.peer = status.peer;
  const std::size_t at = std::size_t{request.reply} * kCacheLine;
  fabric_.spend(Work::copy, bytes);
  if (bytes > Reply::kHere) {
    TUTTI_TRY(fabric_.put(app.arena, at + kCacheLine, data, bytes, nullptr, done));
  } else if (bytes != 0) {
    std::memcpy(reply.data, data, bytes);
  }
  std::memcpy(body, &reply, kReplyBody);
  const Tail tail{at + kReplyBody, request.generation};
  return fabric_.put(app.arena, at, body, kReplyBody, &tail, done);
}

}  // namespace tutti::offload
