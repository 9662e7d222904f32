// The dedicated collective processor's side (CDCP-2008, section IV-A): receives from all its APPs,
// reduces, combines with the other DCPs by the same algorithms as everybody, distributes.
//
// One task listens to each APP, and each collective is a task of its own, so that many of many
// communicators are under way at once. Large data moves in pieces, between which others come first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "coll/call.hpp"
#include "engine/engine.hpp"
#include "offload/wire.hpp"
#include "team/arena_heap.hpp"
#include "team/team.hpp"

namespace tutti::offload {

/// One per DCP. Under the engine's lock.
class Server {
 public:
  /// How the server gets teams of DCPs.
  struct Teams {
    std::function<Status(const std::uint64_t* id, int rank, int size, const std::int32_t* members,
                         Team** out)>
        create;
    std::function<void(Team*)> release;
  };
  /// `map`: the DCP of each APP, by job rank.
  /// `timed`: keep the times of Counts.
  Server(Engine& engine, ArenaHeap& heap, std::vector<std::int32_t> map, Teams teams,
         bool timed) noexcept;
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// Takes memory for the rings of its APPs; `*offset` of the first, the others follow in rank
  /// order every kRingBytes.
  Status open(std::size_t* offset) noexcept;
  /// `taken`: by job rank, where each APP counts the requests that were taken from it.
  Status start(const std::uint64_t* taken) noexcept;
  /// True when every APP has left, in good order or not.
  bool over() const noexcept { return present_ == 0; }
  /// True when an APP has left without a word.
  bool lost() const noexcept { return lost_; }

  FramePool& frames() noexcept { return engine_.frames(); }

 private:
  struct App;
  struct Group;
  struct Arrival;
  struct Round;
  struct Job;

  // listen.cpp: requests
  void connect() noexcept;
  Task listen(App& app) noexcept;
  bool makes_sense(const App& app, const Request& request) const noexcept;
  Task refuse(App& app, Request request) noexcept;
  Task open_group(App& app, Request request, const std::byte* data) noexcept;
  void make_group(App& app, std::uint32_t number, const std::byte* list, std::size_t bytes);
  Group* new_group(const GroupHeader& header, const std::byte* members);
  void close_group(App& app, std::uint32_t number) noexcept;
  void arrive(App& app, const Request& request, const std::byte* data) noexcept;
  Round& round_of(Group& group, std::uint64_t epoch);
  void begin(Group& group, Round& round) noexcept;
  void finish(Group& group, Round& round) noexcept;
  void report_taken(App& app) noexcept;
  std::uint64_t now() const noexcept { return timed_ ? fabric_.now_ns() : 0; }

  // serve.cpp: collectives
  Task serve(Group& group, Round& round) noexcept;
  Task run(Job& job) noexcept;
  Task fold(Job& job) noexcept;
  Task spread(Job& job) noexcept;
  Task collect(Job& job) noexcept;
  Task exchange(Job& job) noexcept;
  Task combine(Job& job, const Call& call) noexcept;
  Task read(Job& job, std::size_t local, std::size_t offset, void* to, std::size_t bytes) noexcept;
  Task write(Job& job, std::size_t local, std::size_t offset, const void* from,
             std::size_t bytes) noexcept;
  Task read_blocks(Job& job, std::size_t local, std::size_t offset, std::byte* to,
                   std::size_t length) noexcept;
  Task write_blocks(Job& job, std::size_t local, std::size_t offset, const std::byte* from,
                    std::size_t length) noexcept;
  Status attach_memory(Round& round) noexcept;
  Status team_of(Group& group, bool small, Team** out) noexcept;
  Task answer_all(Job& job, Status status) noexcept;
  Status answer(App& app, const Request& request, Status status, const std::byte* data,
                std::size_t bytes, std::byte* body, Completion* done) noexcept;

  Engine& engine_;
  Fabric& fabric_;
  ArenaHeap& heap_;
  std::vector<std::int32_t> map_;
  Teams teams_;
  std::vector<std::unique_ptr<App>> apps_;
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::unique_ptr<Group>> groups_;
  const bool timed_;
  int present_ = 0;
  bool lost_ = false;
  std::uint32_t under_way_ = 0;
  Counts* counts_ = nullptr;  // in the arena
};

}  // namespace tutti::offload
