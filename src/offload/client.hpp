// The application processor's side: one put to hand a collective over, one poll to see its result.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "coll/algorithm.hpp"
#include "engine/engine.hpp"
#include "offload/wire.hpp"
#include "team/arena_heap.hpp"
#include "team/team.hpp"

namespace tutti::offload {

class Client;

/// How dedicated processors serve a team (Team::port). Owned by the Client.
struct Port {
  Client* client = nullptr;
  std::uint32_t number = 0;
  int rank = 0, size = 0;              // in the team
  std::vector<std::int32_t> involved;  // the team's members and the DCPs that serve them
  Membership members;                  // the same, for waits
};

/// One per APP. All functions under the engine's lock.
class Client {
 public:
  /// `apps`: job ranks below it are APPs; `map`: the DCP of each of them.
  Client(Engine& engine, ArenaHeap& heap, std::vector<std::int32_t> map) noexcept
      : engine_(engine), fabric_(engine.fabric()), heap_(heap), map_(std::move(map)) {}

  /// Takes memory in the own arena. `*offset`: where the counter of requests taken is, which the
  /// DCP must know.
  Status open(std::size_t* offset) noexcept;
  /// `counts`: where its Counts lie in the DCP's arena; `index`: of this APP among those of its
  /// DCP.
  Status connect(std::size_t counts, std::size_t index) noexcept;
  /// What the DCP has done so far; nullptr where it is on another node.
  const Counts* counts() const noexcept {
    return ring_.mapped == nullptr ? nullptr
                                   : reinterpret_cast<const Counts*>(
                                         static_cast<const std::byte*>(ring_.mapped) + counts_);
  }
  std::size_t index() const noexcept { return index_; }
  /// Tells the DCP that nothing more will come. The last call.
  void leave() noexcept;

  /// Makes the team known to its DCP. Local: the DCP reads the members when it comes to it.
  /// no_memory: not served (nor may the others be).
  Status add(Team& team) noexcept;
  void remove(Team& team) noexcept;

  /// The whole of an offloaded collective, as seen from here.
  Task run(Port& port, const Call& call) noexcept;

  /// A request that has been handed over. Its result is there when `flag` has reached `generation`.
  struct Handed {
    const Word* flag = nullptr;
    std::uint32_t generation = 0;
    std::uint32_t cell = 0;

    bool answered() const noexcept { return flag->load(std::memory_order_acquire) >= generation; }
  };
  /// Hands a small collective over with one put, where there is nothing to wait for: room in the
  /// ring, and its turn. False: nothing was done, and run() is the way.
  bool hand_over(Port& port, const Call& call, Handed* out) noexcept;
  /// Takes the result of one that is answered.
  Status take(Port& port, const Call& call, const Handed& handed) noexcept;
  /// Awaits the answer and takes it. `call` must live until then.
  Task await(Port& port, const Call& call, Handed handed) noexcept;

  FramePool& frames() noexcept { return engine_.frames(); }
  std::int32_t processor() const noexcept { return processor_; }
  /// APPs of this one's DCP.
  int served_with() const noexcept {
    return static_cast<int>(std::count(map_.begin(), map_.end(), processor_));
  }

 private:
  struct ReplyCell {
    std::size_t offset = 0;
    std::uint32_t generation = 0;
  };
  /// Memory that the DCP reads and writes by itself, until the reply has come: the caller's,
  /// exposed, or a piece of the arena that stands in for it.
  struct Lent {
    Region send, recv;
    std::size_t offset = 0, bytes = 0;  // of the piece
  };
  /// What is to be sent.
  struct Message {
    Request request;
    const void* data = nullptr;  // for the data cell
    std::size_t bytes = 0;
    Buffers buffers;
  };
  /// A message about a group, which waits for its turn.
  struct Notice {
    Request request;
    std::vector<std::byte> data;
  };

  bool has_room() noexcept;
  Task run_in_turn(Port& port, const Call& call) noexcept;
  Task wait_for_turn(Port& port, std::uint64_t turn) noexcept;
  bool send_notices() noexcept;
  Status take_cell(std::uint32_t* index) noexcept;
  Status send(const Request& request, const void* data, std::size_t bytes) noexcept;
  Status describe(const Port& port, const Call& call, Message* message, Lent* lent) noexcept;
  Status lend(const Port& port, const Call& call, Buffers* buffers, Lent* lent) noexcept;
  Status list_members(const Port& port, const Team& team, Notice* notice) noexcept;
  Status collect(Port& port, const Call& call, const Reply& reply, const Lent& lent) noexcept;
  void collect_lists() noexcept;
  std::byte* arena() noexcept { return static_cast<std::byte*>(fabric_.arena().base); }
  ReplyLine& reply(std::uint32_t cell) noexcept {
    return *reinterpret_cast<ReplyLine*>(arena() + cells_[cell].offset);
  }
  void take_back(Lent& lent) noexcept;

  Engine& engine_;
  Fabric& fabric_;
  ArenaHeap& heap_;
  std::vector<std::int32_t> map_;
  std::int32_t processor_ = -1;
  bool near_ = false;    // the DCP maps this memory and may reach all of it
  Remote ring_;          // the DCP's arena
  bool stored_ = false;  // requests are written by plain stores
  std::size_t counts_ = 0, index_ = 0;
  std::size_t ring_offset_ = 0;
  std::size_t taken_offset_ = 0;
  std::uint64_t sent_ = 0, room_until_ = kSlots;  // requests below may be written
  std::vector<Request> shadow_;  // what is on its way, by slot; networks read it from here
  std::vector<std::byte> shadow_data_;
  std::vector<ReplyCell> cells_;
  std::vector<std::uint32_t> free_cells_;
  struct List {  // the members of a group, until the DCP has read them
    std::uint32_t cell;
    std::size_t offset, bytes;
  };
  std::vector<List> lists_;
  std::vector<Notice> notices_;
  std::uint64_t turns_ = 0;  // requests that have asked for their turn
  Word turn_{0};             // whose turn it is; local
  Membership nobody_;
  std::vector<std::unique_ptr<Port>> ports_;
  std::vector<std::uint32_t> free_ports_;
};

/// The algorithm "dcp" of every collective that can be offloaded.
Task offloaded(Collective& c);

}  // namespace tutti::offload
