// Requests: who asks for what, and when a collective is complete.
#include <algorithm>
#include <cstring>
#include <new>

#include "base/log.hpp"
#include "offload/group.hpp"
#include "offload/server.hpp"

namespace tutti::offload {

Server::Server(Engine& engine, ArenaHeap& heap, std::vector<std::int32_t> map, Teams teams,
               bool timed) noexcept
    : engine_(engine),
      fabric_(engine.fabric()),
      heap_(heap),
      map_(std::move(map)),
      teams_(std::move(teams)),
      timed_(timed) {}

Server::~Server() = default;

Status Server::open(std::size_t* offset) noexcept {
  for (std::size_t rank = 0; rank < map_.size(); ++rank) {
    if (map_[rank] != fabric_.rank()) continue;
    auto app = std::make_unique<App>();
    app->rank = static_cast<std::int32_t>(rank);
    app->self = Membership{&app->rank, 1, {}, true};
    apps_.push_back(std::move(app));
  }
  const std::size_t bytes = kCountsBytes + apps_.size() * kRingBytes;
  std::size_t place = 0;
  TUTTI_TRY(heap_.allocate(bytes, &place));
  auto* const memory = static_cast<std::byte*>(fabric_.arena().base) + place;
  std::memset(memory, 0, bytes);
  counts_ = new (memory) Counts{};
  for (std::size_t i = 0; i < apps_.size(); ++i)
    apps_[i]->ring = memory + kCountsBytes + i * kRingBytes;
  *offset = place;
  return Status::success();
}

Status Server::start(const std::uint64_t* taken) noexcept {
  for (auto& app : apps_) {
    TUTTI_TRY(fabric_.arena_of(app->rank, &app->arena));
    app->taken_offset = static_cast<std::size_t>(taken[app->rank]);
  }
  connect();
  present_ = static_cast<int>(apps_.size());
  for (auto& app : apps_) {
    app->listener = listen(*app);
    app->listener.start();
  }
  return Status::success();
}

/// The first collective shall not wait for connections: to those at powers of two, to whom most
/// algorithms send.
void Server::connect() noexcept {
  if (fabric_.traits().virtual_time) return;
  std::vector<std::int32_t> processors = map_;
  std::sort(processors.begin(), processors.end());
  processors.erase(std::unique(processors.begin(), processors.end()), processors.end());
  const std::size_t count = processors.size();
  const auto mine = static_cast<std::size_t>(
      std::lower_bound(processors.begin(), processors.end(), fabric_.rank()) - processors.begin());
  for (std::size_t distance = 1; distance < count; distance *= 2) {
    for (const std::size_t other : {mine + distance, mine + count - distance}) {
      const std::int32_t peer = processors[other % count];
      if (!fabric_.maps(peer)) fabric_.wake(peer, Event::solicited);
    }
  }
}

Task Server::listen(App& app) noexcept {
  for (;;) {
    const auto& line = *reinterpret_cast<const RequestLine*>(app.ring + request_offset(app.next));
    const std::byte* data = app.ring + data_offset(app.next);
    if (!(co_await outcome(engine_.reached(line.flag, app.next + 1, app.self, app.rank))).ok()) {
      lost_ = true;
      break;
    }
    add(counts_->requests, 1);
    counts_->woken.store(engine_.times_woken(), std::memory_order_relaxed);
    fabric_.spend(Work::match, 0);
    // What another process writes is copied before it is looked at: it cannot change in between.
    const Request request = line.request;
    if (request.kind == kLeave) break;
    if (!makes_sense(app, request)) {
      static_cast<void>((co_await outcome(refuse(app, request))).ok());
    } else if (request.kind == kOpenGroup) {
      static_cast<void>((co_await outcome(open_group(app, request, data))).ok());
    } else if (request.kind == kCloseGroup) {
      close_group(app, request.group);
    } else {
      arrive(app, request, data);
    }
    ++app.next;
    report_taken(app);
  }
  --present_;
  co_return Status::success();
}

void Server::report_taken(App& app) noexcept {
  if (app.next - app.taken < kTakenEvery) return;
  app.taken = app.next;
  const Tail tail{app.taken_offset, app.taken};
  // An APP that is lost needs no counter.
  static_cast<void>(fabric_.put(app.arena, 0, nullptr, 0, &tail, nullptr).ok());
}

/// Numbers and sizes that this side would use as they are: an index, an amount of memory.
bool Server::makes_sense(const App& app, const Request& request) const noexcept {
  const std::size_t known = app.groups.size();
  if (request.kind == kOpenGroup) return opens_soundly(request, known, map_.size());
  if (request.group >= known || app.groups[request.group].group == nullptr) return false;
  return request.kind == kCloseGroup || is_sound(request, app.groups[request.group].group->size);
}

Task Server::refuse(App& app, Request request) noexcept {
  log(LogLevel::error, "a request of rank %d to its dedicated processor is damaged", app.rank);
  std::byte body[kReplyBody];
  Completion answered;
  co_await answer(app, request, Status::error(Code::corrupt, "a damaged request"), nullptr, 0, body,
                  &answered);
  co_await engine_.completed(answered, app.self, app.rank);
  co_return Status::success();
}

// ---- groups

Task Server::open_group(App& app, Request request, const std::byte* data) noexcept {
  const auto bytes = static_cast<std::size_t>(request.bytes);
  if (request.place == Place::cell) {
    make_group(app, request.group, data, bytes);
    co_return Status::success();
  }
  Buffers buffers;
  std::memcpy(&buffers, data, sizeof buffers);
  Remote remote;
  co_await fabric_.attach(app.rank, buffers.send, &remote);
  std::vector<std::byte> list(bytes);
  Completion done;
  co_await fabric_.get(remote, 0, list.data(), bytes, &done);
  co_await engine_.completed(done, app.self, app.rank);
  make_group(app, request.group, list.data(), bytes);
  std::byte body[kReplyBody];
  Completion answered;
  co_await answer(app, request, Status::success(), nullptr, 0, body, &answered);
  co_await engine_.completed(answered, app.self, app.rank);
  co_return Status::success();
}

void Server::make_group(App& app, std::uint32_t number, const std::byte* list, std::size_t bytes) {
  GroupHeader header;
  std::memcpy(&header, list, sizeof header);
  if (!is_sound(header, list + sizeof header, bytes - sizeof header, app.rank, map_.size())) {
    log(LogLevel::error, "a group of rank %d for its dedicated processor is damaged", app.rank);
    return;
  }
  auto& place = groups_[{header.id[0], header.id[1]}];
  if (!place) place.reset(new_group(header, list + sizeof header));
  const auto& locals = place->locals;
  const auto found = std::lower_bound(locals.begin(), locals.end(), header.rank);
  if (found == locals.end() || *found != header.rank) return;  // of another list of this name
  if (app.groups.size() <= number) app.groups.resize(number + 1);
  app.groups[number] = {place.get(), static_cast<int>(found - locals.begin())};
}

Server::Group* Server::new_group(const GroupHeader& header, const std::byte* members) {
  auto group = std::make_unique<Group>();
  group->id[0] = header.id[0];
  group->id[1] = header.id[1];
  group->size = header.size;
  std::vector<std::int32_t> served_by;
  for (int member = 0; member < header.size; ++member) {
    std::int32_t rank = 0;
    std::memcpy(&rank, members + static_cast<std::size_t>(member) * 4, 4);
    served_by.push_back(map_[static_cast<std::size_t>(rank)]);
  }
  auto& processors = group->processors = served_by;
  std::sort(processors.begin(), processors.end());
  processors.erase(std::unique(processors.begin(), processors.end()), processors.end());
  group->served.resize(processors.size());
  for (int member = 0; member < header.size; ++member) {
    const auto by = std::lower_bound(processors.begin(), processors.end(),
                                     served_by[static_cast<std::size_t>(member)]) -
                    processors.begin();
    group->processor_of.push_back(static_cast<int>(by));
    group->served[static_cast<std::size_t>(by)].push_back(member);
  }
  group->mine = static_cast<int>(
      std::lower_bound(processors.begin(), processors.end(), fabric_.rank()) - processors.begin());
  group->locals = group->served[static_cast<std::size_t>(group->mine)];
  for (const auto& served : group->served)
    group->most_served = std::max(group->most_served, served.size());
  group->epochs.assign(group->locals.size(), 0);
  group->open = static_cast<int>(group->locals.size());
  return group.release();
}

void Server::close_group(App& app, std::uint32_t number) noexcept {
  Group* const group = app.groups[number].group;
  app.groups[number] = {};
  if (group == nullptr || --group->open != 0) return;
  for (Team* team : group->teams) {
    if (team != nullptr) teams_.release(team);
  }
  groups_.erase({group->id[0], group->id[1]});
}

// ---- collectives

Server::Round& Server::round_of(Group& group, std::uint64_t epoch) {
  for (auto round = group.rounds.rbegin(); round != group.rounds.rend(); ++round) {
    if ((*round)->epoch == epoch) return **round;
  }
  std::unique_ptr<Round> round;
  if (group.spare.empty()) {
    round = std::make_unique<Round>();
    round->arrivals = std::vector<Arrival>(group.locals.size());
  } else {
    round = std::move(group.spare.back());
    group.spare.pop_back();
  }
  round->epoch = epoch;
  round->arrived = 0;
  round->first_ns = now();
  if (++under_way_ > counts_->longest_queue.load(std::memory_order_relaxed))
    counts_->longest_queue.store(under_way_, std::memory_order_relaxed);
  group.rounds.push_back(std::move(round));
  return *group.rounds.back();
}

void Server::arrive(App& app, const Request& request, const std::byte* data) noexcept {
  const auto [group, local] = app.groups[request.group];
  Round& round = round_of(*group, group->epochs[static_cast<std::size_t>(local)]++);
  Arrival& arrival = round.arrivals[static_cast<std::size_t>(local)];
  arrival.app = &app;
  arrival.request = request;
  round.small = request.place != Place::memory;
  if (request.place == Place::here) {
    std::memcpy(arrival.data, request.data, Request::kHere);
  } else if (request.place != Place::none) {
    Call call;
    call.coll = static_cast<Coll>(request.kind);
    call.root = request.root;
    call.bytes = static_cast<std::size_t>(request.bytes);
    const int member = group->locals[static_cast<std::size_t>(local)];
    const std::size_t bytes =
        request.place == Place::memory ? sizeof(Buffers) : sent_bytes(call, member, group->size);
    fabric_.spend(Work::copy, bytes);
    std::memcpy(arrival.data, data, std::min(bytes, kCellBytes));
  }
  if (static_cast<std::size_t>(++round.arrived) == group->locals.size()) begin(*group, round);
}

/// Small collectives are served at once, large ones of a group one after the other: so both are
/// started in the same order on all DCPs, and a small one need not wait for a large one.
void Server::begin(Group& group, Round& round) noexcept {
  round.last_ns = now();
  add(counts_->waited_ns, round.last_ns - round.first_ns);
  if (!round.small) {
    group.large.push_back(&round);
    if (group.large.size() > 1) return;
  }
  round.task = serve(group, round);
  round.task.start();
}

/// The last step of a collective's task.
void Server::finish(Group& group, Round& round) noexcept {
  add(counts_->served_ns, now() - round.last_ns);
  --under_way_;
  const auto place = std::find_if(group.rounds.begin(), group.rounds.end(),
                                  [&](const auto& one) { return one.get() == &round; });
  group.spare.push_back(std::move(*place));
  group.rounds.erase(place);
  if (round.small) return;
  group.large.pop_front();
  if (group.large.empty()) return;
  Round& next = *group.large.front();
  next.task = serve(group, next);
  next.task.start();
}

}  // namespace tutti::offload
