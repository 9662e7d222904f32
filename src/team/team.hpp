// A team: the ranks of a communicator, and what each of them needs to run collectives with the
// others.
//
// Every collective of a team has an epoch (its number in starting order, the same on all members)
// and, if it moves data through blocks, a range of stream items (likewise). All flags are derived
// from these and only ever grow, so nothing is reset between collectives (VIA-2003 resets its
// counter bytes).
//
// Two ways to move data:
//  - cells and streams, where the members map each other's memory: a rank publishes once, the
//  others read;
//  - inbox blocks, on any fabric: a rank puts into its peer's block, the counter behind the data
//    (VIA-2003, sections 3.1 to 3.3).
//
// A team whose members are several on some nodes has layers instead: a team of those on each node,
// and a team of one leader per node, in which its collectives are run one after the other.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "base/status.hpp"
#include "base/task.hpp"
#include "engine/engine.hpp"
#include "fabric/fabric.hpp"
#include "team/block_pool.hpp"
#include "team/board.hpp"
#include "team/cast_watch.hpp"
#include "team/cell_tree.hpp"
#include "team/directory.hpp"
#include "team/group.hpp"
#include "team/inbox.hpp"
#include "team/layers.hpp"
#include "team/machine_levels.hpp"
#include "team/multicast.hpp"
#include "team/node_map.hpp"
#include "team/node_segment.hpp"
#include "team/reliable_ring.hpp"

namespace tutti {

/// The place of one collective in its team's order. Taken when it is started, before it runs.
struct Ticket {
  std::uint64_t epoch = 0;
  std::uint64_t first_item = 0;  // stream items [first_item, first_item + items)
  std::uint64_t items = 0;
  std::uint64_t cast = 0;  // of broadcasts that CastWatch watches: its number among them
};

struct Call;
class Choices;
class Online;  // src/select
class Team;
namespace offload {
struct Port;  // src/offload
}

/// Runs collectives of teams within others: those of layers, and those of dedicated processors.
/// Implemented above the algorithms (src/dispatch).
class CollectiveRunner {
 public:
  /// By whatever algorithm is best there. `call` must outlive the task.
  virtual Task run(Team& team, const Call& call) noexcept = 0;

 protected:
  ~CollectiveRunner() = default;
};

/// Looks after the shared blocks of all teams of a process when memory is short: Team's of each of
/// them. Implemented by whoever has the teams.
class BlockCollector {
 public:
  virtual bool collect_blocks() noexcept = 0;

 protected:
  ~BlockCollector() = default;
};

/// What all teams of a process share.
struct TeamResources {
  Engine& engine;
  ArenaHeap& heap;
  Directory& directory;
  BlockPool& blocks;
  CollectiveRunner* runner = nullptr;   // nullptr: no team has layers
  BlockCollector* collector = nullptr;  // nullptr: each team looks after its own
  int multicast_receives = 5;           // to pre-post for each team that casts (MCAST-2007)
  CastTotals casts{};                   // what became of broadcasts by multicast
  /// Symmetric teams have layers too, where some nodes have several members.
  bool symmetric_layers = false;
  /// Symmetric teams set the place of their segment aside when they are made.
  bool symmetric_segments = false;
};

/// Of a million simulated ranks they lie side by side.
class Team : public InFramePool, public Group {
 public:
  /// What a team is for: any collectives in its order; one at a time, which needs less memory; or
  /// those alone that move their data by letters and invitations, without layers and blocks.
  enum class Use : std::uint8_t { any, one_at_a_time, letters };

  /// Local. `members` are job ranks in team order. They are copied, unless the team is symmetric:
  /// then they stay the caller's and must outlive it (a million simulated ranks share one list).
  /// `symmetric`: all members allocate the same offsets, so that none has to be looked up
  /// (simulations; networks after agreement).
  static Status create(TeamResources& resources, const std::uint64_t id[2], int rank, int size,
                       const std::int32_t* members, bool symmetric, std::unique_ptr<Team>* out) {
    TUTTI_TRY(create(resources, id, rank, size, members, symmetric, Use::any, nullptr, out));
    return (*out)->announce();
  }
  /// The same, not symmetric, and the others do not see it before announce(). Where members share
  /// memory and this one has none for its end, the team is declined() and not a failure.
  static Status create(TeamResources& resources, const std::uint64_t id[2], int rank, int size,
                       const std::int32_t* members, Use use, std::unique_ptr<Team>* out) {
    return create(resources, id, rank, size, members, false, use, nullptr, out);
  }
  /// Lets the other members find this end, or learn that it declines. Local. Once, with the same
  /// outcome for whoever asks later: ok, or why this rank takes no part.
  Status announce() noexcept;
  /// This rank cannot take part. Before announce().
  void decline() noexcept { declined_ = true; }
  bool declined() const noexcept { return declined_; }
  /// Whether some member takes no part, as far as this one has seen: all of them see it.
  bool lacks_a_member() const noexcept { return decliner_ >= 0; }
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  Engine& engine() noexcept { return engine_; }
  Fabric& fabric() const noexcept { return fabric_; }
  FramePool& frames() noexcept { return resources_.engine.frames(); }
  Membership& membership() noexcept { return membership_; }
  /// All members map each other's memory.
  bool mapped() const noexcept { return mapped_; }
  /// Not nullptr where some nodes have several members and there are several nodes.
  Layers* layers() const noexcept { return layers_.get(); }
  /// Runs a collective of this team within another task, which has its turn.
  Task run(const Call& call) noexcept { return resources_.runner->run(*this, call); }

  std::size_t block_bytes() const noexcept { return resources_.blocks.block_bytes(); }
  /// Made for letters alone.
  bool letters_only() const noexcept { return letters_only_; }
  /// The payload is not carried: no buffer is read or written (simulation at scale).
  bool elided() const noexcept { return elided_; }
  /// Data of this size is carried: buffers are read and written. Always, but in simulations.
  bool carries(std::size_t bytes) const noexcept { return bytes <= most_carried_; }

  /// The boards of all members are known. Until then collectives begin with connect().
  bool connected() const noexcept { return connected_; }
  /// Finds the other members' boards (or inboxes), waiting for members that have not created their
  /// end yet.
  Task connect() noexcept;

  static constexpr std::size_t kCellCapacity = kCellBytes - sizeof(Word);

  /// The tree of cells of that degree: along the parts of the machine that the members run on if
  /// `placed`, unless it is to be `ordered`, every subtree a range of ranks, and would not be. Made
  /// when it is first asked for, by each member for itself; lives as long as the team.
  const CellTree& cell_tree(int degree, bool placed, bool ordered);
  /// How the members are divided along the machine. Likewise.
  const MachineLevels& machine_levels();
  /// The members, of whom each maps the others' memory, where each of them runs.
  PlacedMembers placed_members() const;

  // ---- inbox: puts into a peer's block, the counter behind the data

  Inbox& inbox() noexcept { return inbox_; }

  // ---- multicast: a group of the team, and the ring that makes it reliable
  // -----------------------

  /// Joins the team's group with the first broadcast that wants it. Teams whose members are all on
  /// nodes of their own.
  Status open_multicast() noexcept;
  /// After open_multicast().
  Multicast& multicast() noexcept { return *multicast_; }

  // ---- the node's shared buffer: for members of several nodes
  // ---------------------------------------

  /// Which members share nodes. Made when it is first asked for where the team has no layers.
  const NodeMap& node_map();
  NodeSegment& segment();
  /// All members allocate the same offsets.
  bool symmetric() const noexcept { return symmetric_; }
  /// A symmetric team has set memory aside for its segment.
  bool has_segment_place() const noexcept { return segment_place_ != NodeSegment::kNone; }

  // ---- end
  // -----------------------------------------------------------------------------------------

  /// Gives back the blocks that all members have drained since somebody looked last. True when the
  /// others are sure to come: some are out, and no member waits for memory before it reads them.
  bool collect_blocks() noexcept;

  /// True once this end has been given up by everybody.
  bool try_reclaim() noexcept;
  /// No member has used it, nor will: nothing may still come to its memory.
  void set_unused() noexcept { unused_ = true; }

  /// The id of the next team that is made of this one's members. All members ask in one order.
  void next_child_id(std::uint64_t out[2]) noexcept;

  // What others keep for the team; each is set by its owner alone.
  Choices* choices = nullptr;  // Dispatcher's, of all teams of its shape; once they are asked for
  offload::Port* port = nullptr;    // offload::Client's; nullptr: no dedicated processors serve it
  Online* online = nullptr;         // JobImpl's; nullptr: nothing is tried
  bool hosted = false, waits = false;  // JobImpl's, of TeamSpec; before its choices are asked for

 private:
  /// `watched`: the membership whose health the waits of this team depend on, where that is a
  /// larger one's.
  static Status create(TeamResources& resources, const std::uint64_t id[2], int rank, int size,
                       const std::int32_t* members, bool symmetric, Use use,
                       const Membership* watched, std::unique_ptr<Team>* out);
  Status create_mapped() noexcept;
  Status announce_mapped() noexcept;
  Status create_network() noexcept;
  Status create_symmetric(bool leaders) noexcept;
  Status create_layers();
  void map_nodes(NodeMap& map) const;
  bool reclaim_mapped() noexcept;

  Team(TeamResources& resources, const Group& group) noexcept
      : Group(group.id(), group.rank(), group.size(), group.job_ranks()),
        engine_(resources.engine),
        fabric_(resources.engine.fabric()),
        resources_(resources) {}

  /// Takes the next place in the team's order. `items`: stream items that the collective will use;
  /// `watched`: Algorithm::watched.
  Ticket take_ticket(std::uint64_t items, bool watched) noexcept {
    Ticket ticket{next_epoch_++, next_item_, items, watched ? next_cast_++ : 0};
    next_item_ += items;
    return ticket;
  }
  /// A block of the pool for private use.
  Status take_scratch(std::byte** memory, Piece* piece) noexcept;
  void give_scratch(const Piece& piece) noexcept;
  /// Wakes members that sleep. Costs one load when none does.
  void wake_members() noexcept {
    if (fabric().sleepers()) ring_all();
  }

  static constexpr std::uint64_t kCellsAhead = 4;

  struct CellView {
    Word& flag;
    std::byte* data;
  };
  static constexpr bool is_small(std::size_t bytes) noexcept {
    return bytes <= kSmallCellBytes - sizeof(Word);
  }
  std::uint64_t cells_for(std::size_t bytes) const noexcept {
    return is_small(bytes) ? cell_counts_.small : cell_counts_.large;
  }
  CellView cell_of(Board& board, std::uint64_t epoch, std::size_t bytes) const noexcept {
    if (is_small(bytes)) {
      SmallCell& cell = board.small_cell(cell_counts_, epoch);
      return {cell.flag, cell.data};
    }
    Cell& cell = board.cell(cell_counts_, epoch);
    return {cell.flag, cell.data};
  }
  Board* board(int member) const noexcept { return boards_[static_cast<std::size_t>(member)]; }
  std::byte* arena(int member) const noexcept { return arenas_[static_cast<std::size_t>(member)]; }
  enum class Found : std::uint8_t { not_yet, board, declined, damaged };
  Found find_board(int member) noexcept;
  bool scan_done(std::uint64_t epoch) noexcept;
  bool scan_drained(std::uint64_t item) noexcept;
  /// Of the own items that are not known to be drained, none was posted for all members.
  bool only_peers_read() const noexcept { return read_by_all_items_ <= drained_floor_; }
  /// An own item may be read by any member, and not by peers along the machine alone.
  void may_be_read_by_all(std::uint64_t item) noexcept {
    read_by_all_items_ = std::max(read_by_all_items_, item + 1);
    // Who had nothing to read of it may have drained it already.
    drained_floor_ = std::min(drained_floor_, item);
  }
  /// Awaits a word of `member`.
  Engine::Reached reached(const Word& word, std::uint64_t value, int member) noexcept {
    return engine_.reached(word, value, membership_, ranks_[member]);
  }
  const CellTree& known_tree(int degree, bool by_rank);
  /// While it lives, a member rings the owner of `own` when it has finished all epochs below
  /// `epoch`.
  class DoneWatch {
   public:
    DoneWatch(Board& own, Board& watched, std::uint64_t epoch) noexcept;
    ~DoneWatch();
    DoneWatch(const DoneWatch&) = delete;
    DoneWatch& operator=(const DoneWatch&) = delete;

   private:
    Board& own_;
    Board& watched_;
  };
  /// Awaits that a member has finished all epochs below `epoch`.
  Task wait_done_of(int member, std::uint64_t epoch) noexcept;
  /// Awaits that all members have finished all epochs below `epoch`.
  Task wait_done(std::uint64_t epoch) noexcept;
  bool all_done(std::uint64_t epoch) noexcept { return done_floor_ >= epoch || scan_done(epoch); }

  /// Awaits that all who read own items have drained those below `item`.
  Task wait_drained(std::uint64_t item) noexcept;
  bool line_free(std::uint64_t n) noexcept {
    return n < kStreamLines || drained_floor_ + kStreamLines > n ||
           scan_drained(n - kStreamLines + 1);
  }
  bool collect_all_blocks() noexcept;
  /// This rank has read all items below `next`, and the streams are whose they are from there on.
  void end_stream(std::uint64_t next) noexcept;
  /// This rank is through with the collective of that number.
  void finished(std::uint64_t epoch) noexcept {
    const std::uint64_t before = next_done_;
    if (epoch == next_done_ && finished_early_.empty()) {
      ++next_done_;
    } else {
      note_finished(epoch);
    }
    if (mapped_) {
      fabric().signal(job_rank(rank_), own_board_->done, next_done_);
      // Hardly ever does anybody wait for that.
      if (fabric().sleepers() && own_board_->watchers.load(std::memory_order_acquire) != 0)
        ring_watchers(before);
    }
    if (inbox_in_use_) inbox_.finished(next_done_);
    if (layers_) layers_turn_.store(next_done_, std::memory_order_release);
  }
  void note_finished(std::uint64_t epoch) noexcept;
  void ring_all() noexcept;
  /// Those that wait for what `done` of this rank has become; it was `before`.
  void ring_watchers(std::uint64_t before) noexcept;
  void recycle_blocks() noexcept;

  struct Outstanding {
    std::uint64_t item;
    Piece piece;
  };

  // First what every collective touches: on networks, in this order, five cache lines.
  Engine& engine_;
  Fabric& fabric_;
  TeamResources& resources_;
  bool mapped_ = false;
  bool elided_ = false;
  bool unused_ = false;
  bool symmetric_ = false;
  bool connected_ = false;
  bool declined_ = false;
  bool letters_only_ = false;  // Use::letters
  CellCounts cell_counts_ = kManyCells;
  friend class Cells;  // what depends on a collective's place in the order
  friend class Collective;
  friend class Stream;
  friend class Inbox;
  friend class Layers;
  friend class NodeSegment;
  friend class Scratch;  // blocks of the pool
  bool inbox_in_use_ = false;
  std::size_t most_carried_ = ~std::size_t{0};
  std::uint64_t next_epoch_ = 0;
  std::uint64_t next_item_ = 0;
  std::uint64_t next_done_ = 0;
  std::unique_ptr<Layers> layers_;
  Word layers_turn_{0};  // epochs below are over on this rank; local
  Membership membership_;
  std::vector<std::uint64_t> finished_early_;  // epochs that finished before an earlier one
  Inbox inbox_{*this};

  std::uint64_t children_ = 0;         // next_child_id()
  std::uint64_t next_cast_ = 0;        // take_ticket()
  std::int32_t decliner_ = -1;         // the job rank of a member that takes no part
  std::vector<std::int32_t> members_;  // the copy, if one was made
  Board* own_board_ = nullptr;
  std::size_t own_offset_ = 0;
  DirectoryEntry* entry_ = nullptr;
  std::vector<Board*> boards_;            // by member; nullptr until found
  std::vector<std::byte*> arenas_;        // by member
  std::vector<DirectoryEntry*> entries_;  // by member; nullptr until found, or where it has none
  int found_ = 0;                         // members [0, found_) have been found
  int released_to_ = 0;                  // members [0, released_to_) know that this end is released
  std::uint64_t done_floor_ = 0;         // all members are known to have finished epochs below
  std::uint64_t neighbours_floor_ = 0;   // the same of the neighbours in the tree of cells
  std::uint64_t read_by_all_until_ = 0;  // own cells of epochs below may be read by any member
  const CellTree* tree_ = nullptr;       // that tree, the last one that was used
  std::uint64_t drained_floor_ = 0;  // own items below are known to be drained by who reads them
  std::uint64_t read_by_all_items_ = 0;   // own items below may be read by any member
  Word stream_turn_{0};                   // first item whose collective may use the streams; local
  std::vector<Outstanding> outstanding_;  // own blocks that readers may still need, oldest first
  std::size_t outstanding_head_ = 0;
  struct KnownTree {
    int degree;
    bool by_rank;
    std::unique_ptr<CellTree> tree;
  };
  std::vector<KnownTree> cell_trees_;  // those that were asked for, mostly one
  std::unique_ptr<MachineLevels> machine_levels_;
  std::unique_ptr<NodeMap> own_node_map_;
  std::unique_ptr<NodeSegment> segment_;
  std::size_t segment_place_ = NodeSegment::kNone;  // of a symmetric team's, in every arena
  std::unique_ptr<Multicast> multicast_;
};

}  // namespace tutti
