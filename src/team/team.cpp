#include "team/team.hpp"

#include <algorithm>
#include <new>
#include <unordered_map>

namespace tutti {
Status Team::create(TeamResources& resources, const std::uint64_t id[2], int rank, int size,
                    const std::int32_t* members, bool symmetric, Use use, const Membership* watched,
                    std::unique_ptr<Team>* out) {
  std::unique_ptr<Team> team(new (resources.engine.frames())
                                 Team(resources, Group(id, rank, size, members)));
  if (!team) return Status::error(Code::no_memory, "out of memory");
  team->symmetric_ = symmetric;
  if (use == Use::one_at_a_time) team->cell_counts_ = kFewCells;
  team->letters_only_ = use == Use::letters;
  team->elided_ = team->fabric().traits().elided_payload;
  team->most_carried_ = team->fabric().traits().most_carried;
  if (!symmetric || watched != nullptr) {
    team->members_.assign(members, members + size);
    team->ranks_ = members = team->members_.data();
  }
  team->membership_ = watched != nullptr ? Membership{watched->ranks, watched->size, {}}
                                         : Membership{members, size, {}};
  team->membership_.team = watched != nullptr ? watched->team : team->id_;
  Fabric& fabric = team->fabric();
  team->mapped_ =
      std::all_of(members, members + size, [&](std::int32_t peer) { return fabric.maps(peer); });
  Status status;
  if (team->mapped_) {
    status = team->create_mapped();
  } else if (symmetric) {
    status = team->create_symmetric(watched != nullptr);
  } else if (!std::all_of(members, members + size,
                          [&](std::int32_t peer) { return fabric.reaches(peer); })) {
    status = Status::error(Code::unsupported, "a member is on another node");
  } else {
    status = team->letters_only_ ? Status::success() : team->create_layers();
    if (status.ok() && !team->layers_) status = team->create_network();
  }
  TUTTI_TRY(status);
  *out = std::move(team);
  return Status::success();
}

Status Team::create_mapped() noexcept {
  const auto count = static_cast<std::size_t>(size_);
  boards_.assign(count, nullptr);
  arenas_.assign(count, nullptr);
  entries_.assign(count, nullptr);
  const std::size_t bytes = Board::bytes(cell_counts_);
  bool fresh = false;
  declined_ = !resources_.heap.allocate(bytes, &own_offset_, &fresh).ok();
  if (declined_) return Status::success();
  auto* const memory = static_cast<std::byte*>(fabric().arena().base) + own_offset_;
  if (!fresh) std::memset(memory, 0, bytes);  // never used memory is zero, and stays untouched
  own_board_ = new (memory) Board;
  return Status::success();
}

Status Team::announce() noexcept {
  if (mapped_) return announce_mapped();
  if (declined_) return Status::error(Code::no_memory, "no memory for the team");
  if (layers_) return layers_->announce();
  if (symmetric_) return Status::success();
  const Status entered = resources_.directory.enter(id_, inbox_.offset(), &entry_);
  if (!entered.ok()) resources_.heap.free(inbox_.offset(), inbox_.total_bytes());
  return entered;
}

Status Team::announce_mapped() noexcept {
  bool exists = false;  // one of this id: the other's entry is not this one's affair
  if (!declined_) {
    const Status entered = resources_.directory.enter(id_, own_offset_, &entry_);
    declined_ = !entered.ok();
    exists = entered.code == Code::invalid_argument;
  }
  if (declined_ && own_board_ != nullptr) {  // nobody will ever see it
    resources_.heap.free(own_offset_, Board::bytes(cell_counts_));
    own_board_ = nullptr;
  }
  if (exists) return Status::error(Code::invalid_argument, "the team exists");
  if (declined_) resources_.directory.decline(id_, &entry_);
  wake_members();
  if (!declined_) return Status::success();
  decliner_ = fabric().rank();
  return Status::error(Code::no_memory,
                       "no room for one more communicator: TUTTI_ARENA is too small, or there are "
                       "too many");
}

void Team::next_child_id(std::uint64_t out[2]) noexcept {
  const std::uint64_t number = ++children_;
  out[0] = (id_[0] ^ number * 0xd6e8feb86659fd93) * 0x9e3779b97f4a7c15 + 0x6368696c64;
  out[1] = (id_[1] + number) * 0xbf58476d1ce4e5b9 ^ out[0] >> 17;
}

/// Nothing to look up: offsets are the same everywhere. So what the team will need is allocated
/// now, while all of them have allocated the same: from the first collective on they go different
/// ways, as a root does that takes memory, or a node that gives it back later than another.
Status Team::create_symmetric(bool leaders) noexcept {
  connected_ = true;
  if (resources_.symmetric_segments && !letters_only_)
    TUTTI_TRY(resources_.heap.allocate(NodeSegment::bytes_for_most(size_), &segment_place_));
  if (resources_.symmetric_layers && !leaders) TUTTI_TRY(create_layers());
  return layers_ ? Status::success() : inbox_.open();
}

/// All members on nodes of their own: they meet through the directory too, but read it over the
/// network.
Status Team::create_network() noexcept { return inbox_.open(); }

void Team::map_nodes(NodeMap& map) const {
  std::unordered_map<std::int32_t, int> numbers;
  std::vector<std::vector<int>> on_node;
  for (int member = 0; member < size_; ++member) {
    const auto [place, added] =
        numbers.try_emplace(fabric_.node_of(job_rank(member)), static_cast<int>(on_node.size()));
    if (added) on_node.emplace_back();
    auto& node = on_node[static_cast<std::size_t>(place->second)];
    map.node_of.push_back(place->second);
    map.local_of.push_back(static_cast<int>(node.size()));
    node.push_back(member);
  }
  map.nodes = static_cast<int>(on_node.size());
  map.my_node = map.node_of[static_cast<std::size_t>(rank_)];
  for (const auto& node : on_node) {
    map.first.push_back(static_cast<int>(map.members.size()));
    map.members.insert(map.members.end(), node.begin(), node.end());
  }
  map.first.push_back(size_);
  map.consecutive = std::is_sorted(map.members.begin(), map.members.end());
}

const NodeMap& Team::node_map() {
  if (layers_) return *layers_;
  if (!own_node_map_) {
    own_node_map_ = std::make_unique<NodeMap>();
    map_nodes(*own_node_map_);
  }
  return *own_node_map_;
}

const CellTree& Team::cell_tree(int degree, bool placed, bool ordered) {
  const CellTree& tree = known_tree(degree, !placed);
  return ordered && !tree.in_rank_order() ? known_tree(degree, true) : tree;
}

const CellTree& Team::known_tree(int degree, bool by_rank) {
  for (const KnownTree& known : cell_trees_) {
    if (known.degree == degree && known.by_rank == by_rank) return *known.tree;
  }
  const PlacedMembers all = by_rank ? PlacedMembers::by_rank(size_) : placed_members();
  cell_trees_.push_back({degree, by_rank, std::make_unique<CellTree>(rank_, degree, all)});
  return *cell_trees_.back().tree;
}

PlacedMembers Team::placed_members() const {
  std::vector<Locality> places;
  for (int member = 0; member < size_; ++member)
    places.push_back(fabric_.locality_of(job_rank(member)));
  const bool one_place =
      std::ranges::all_of(places, [&](Locality one) { return one == places[0]; });
  return one_place ? PlacedMembers::by_rank(size_) : PlacedMembers::by_locality(std::move(places));
}

const MachineLevels& Team::machine_levels() {
  if (!machine_levels_) machine_levels_ = std::make_unique<MachineLevels>(rank_, placed_members());
  return *machine_levels_;
}

NodeSegment& Team::segment() {
  if (!segment_) segment_ = std::make_unique<NodeSegment>(*this);
  return *segment_;
}

/// Nothing to do (`layers_` stays empty) where every member is on a node of its own.
Status Team::create_layers() {
  std::unique_ptr<Layers> layers(new Layers(*this));
  map_nodes(*layers);
  if (layers->nodes == size_) return Status::success();
  TUTTI_TRY(layers->create());
  connected_ = true;  // its layers look after themselves
  layers_ = std::move(layers);
  return Status::success();
}

Team::~Team() = default;

Status Team::open_multicast() noexcept {
  if (multicast_) return Status::success();
  multicast_.reset(new (std::nothrow)
                       Multicast(*this, resources_.multicast_receives, resources_.casts));
  return multicast_ ? Status::success() : Status::error(Code::no_memory, "out of memory");
}

Team::Found Team::find_board(int member) noexcept {
  const auto index = static_cast<std::size_t>(member);
  Remote arena;
  if (!fabric().arena_of(job_rank(member), &arena).ok()) return Found::not_yet;
  auto* base = static_cast<std::byte*>(arena.mapped);
  const std::size_t bytes = Board::bytes(cell_counts_);
  std::uint64_t offset = 0;
  switch (Directory::look_up(*reinterpret_cast<DirectoryTable*>(base), id_, &entries_[index],
                             &offset)) {
    case Directory::Answer::none:
      return Found::not_yet;
    case Directory::Answer::declined:
      decliner_ = job_rank(member);
      return Found::declined;
    default:
      if (offset % alignof(Board) != 0 || offset > arena.bytes || bytes > arena.bytes - offset)
        return Found::damaged;
      arenas_[index] = base;
      boards_[index] = reinterpret_cast<Board*>(base + offset);
      return Found::board;
  }
}

Task Team::connect() noexcept {
  if (!mapped_) {
    co_await inbox_.meet();
    connected_ = true;
    co_return Status::success();
  }
  // Whether somebody declines is seen by every member: each looks at all of them.
  while (found_ < size_ && decliner_ < 0) {
    const int member = found_;
    Remote arena;
    co_await fabric().arena_of(job_rank(member), &arena);
    // The version is read before the look-up: what is entered afterwards changes it.
    const Word& version = static_cast<DirectoryTable*>(arena.mapped)->version;
    const std::uint64_t seen = version.load(std::memory_order_acquire);
    const Found found = find_board(member);
    if (found == Found::damaged)
      co_return Status{Code::corrupt, job_rank(member), "the place of a team is damaged"};
    if (found != Found::not_yet) {
      found_ = std::max(found_, member + 1);
      continue;
    }
    co_await engine().reached(version, seen + 1, membership_, job_rank(member));
  }
  if (decliner_ >= 0)
    co_return Status{Code::no_memory, decliner_, "a member has no room for the communicator"};
  outstanding_.reserve(kStreamLines);
  connected_ = true;
  co_return Status::success();
}

bool Team::scan_done(std::uint64_t epoch) noexcept {
  std::uint64_t floor = ~std::uint64_t{0};
  for (int member = 0; member < size_; ++member) {
    if (member == rank_) continue;
    const Word& done = board(member)->done;
    fabric().look(&done, sizeof done);
    floor = std::min(floor, done.load(std::memory_order_acquire));
    if (floor < epoch) return false;
  }
  done_floor_ = std::max(done_floor_, floor);
  return true;
}

bool Team::scan_drained(std::uint64_t item) noexcept {
  std::uint64_t floor = ~std::uint64_t{0};
  const auto has_drained = [&](int member) {
    const Word& drained = board(member)->drained;
    fabric().look(&drained, sizeof drained);
    floor = std::min(floor, drained.load(std::memory_order_acquire));
    return floor >= item;
  };
  if (only_peers_read()) {
    if (!machine_levels().all_peers(has_drained)) return false;
  } else {
    for (int member = 0; member < size_; ++member) {
      if (member != rank_ && !has_drained(member)) return false;
    }
  }
  drained_floor_ = std::max(drained_floor_, floor);
  return true;
}

Team::DoneWatch::DoneWatch(Board& own, Board& watched, std::uint64_t epoch) noexcept
    : own_(own), watched_(watched) {
  own.wanted.store(own.watches++ == 0 ? epoch : 0, std::memory_order_relaxed);
  watched.watchers.fetch_add(1, std::memory_order_acq_rel);
}

Team::DoneWatch::~DoneWatch() {
  watched_.watchers.fetch_sub(1, std::memory_order_acq_rel);
  --own_.watches;
}

Task Team::wait_done_of(int member, std::uint64_t epoch) noexcept {
  const DoneWatch watch(*own_board_, *board(member), epoch);
  co_await reached(board(member)->done, epoch, member);
  co_return Status::success();
}

Task Team::wait_done(std::uint64_t epoch) noexcept {
  for (int member = 0; member < size_; ++member) {
    if (member != rank_) co_await wait_done_of(member, epoch);
  }
  done_floor_ = std::max(done_floor_, epoch);
  co_return Status::success();
}

Task Team::wait_drained(std::uint64_t item) noexcept {
  const bool peers = only_peers_read();
  for (int member = 0; member < size_; ++member) {
    if (member == rank_ || (peers && !machine_levels().is_peer(member))) continue;
    co_await reached(board(member)->drained, item, member);
  }
  drained_floor_ = std::max(drained_floor_, item);
  co_return Status::success();
}

void Team::recycle_blocks() noexcept {
  while (outstanding_head_ < outstanding_.size() &&
         outstanding_[outstanding_head_].item < drained_floor_) {
    resources_.blocks.give(outstanding_[outstanding_head_].piece);
    ++outstanding_head_;
  }
  if (outstanding_head_ == outstanding_.size()) {
    outstanding_.clear();
    outstanding_head_ = 0;
  }
}

Status Team::take_scratch(std::byte** memory, Piece* piece) noexcept {
  auto* arena = static_cast<std::byte*>(fabric().arena().base);
  if (!elided_) TUTTI_TRY(resources_.blocks.take(block_bytes(), piece, BlockPool::Part::all));
  *memory = arena + piece->offset;
  return Status::success();
}

void Team::give_scratch(const Piece& piece) noexcept {
  if (!elided_) resources_.blocks.give(piece);
}

bool Team::collect_blocks() noexcept {
  if (!mapped_ || !connected_ || outstanding_head_ == outstanding_.size()) return false;
  if (!membership_.broken.ok()) return false;  // the others will not look again
  std::uint64_t floor = ~std::uint64_t{0};
  bool starved = false;
  for (int member = 0; member < size_; ++member) {
    if (member == rank_) continue;
    floor = std::min(floor, board(member)->drained.load(std::memory_order_acquire));
    starved = starved || board(member)->starved.load(std::memory_order_acquire) != 0;
  }
  drained_floor_ = std::max(drained_floor_, floor);
  recycle_blocks();
  return !starved && outstanding_head_ != outstanding_.size();
}

bool Team::collect_all_blocks() noexcept {
  return resources_.collector != nullptr ? resources_.collector->collect_blocks()
                                         : collect_blocks();
}

void Team::end_stream(std::uint64_t next) noexcept {
  if (!mapped_) {  // items of a large message by multicast: nobody else looks
    stream_turn_.store(next, std::memory_order_release);
    return;
  }
  fabric().signal(job_rank(rank_), own_board_->drained, next);
  stream_turn_.store(next, std::memory_order_release);
  wake_members();
}

void Team::note_finished(std::uint64_t epoch) noexcept {
  finished_early_.push_back(epoch);
  for (bool again = true; again;) {
    again = false;
    for (std::size_t i = 0; i < finished_early_.size(); ++i) {
      if (finished_early_[i] != next_done_) continue;
      ++next_done_;
      finished_early_[i] = finished_early_.back();
      finished_early_.pop_back();
      again = true;
      break;
    }
  }
}

void Team::ring_all() noexcept {
  for (int member = 0; member < size_; ++member) {
    if (member != rank_ && fabric().maps(job_rank(member))) fabric().wake_reader(job_rank(member));
  }
}

void Team::ring_watchers(std::uint64_t before) noexcept {
  for (int member = 0; member < size_; ++member) {
    if (member == rank_ || !fabric().maps(job_rank(member))) continue;
    // Whoever waits for more has nothing to see yet, and whoever waited for less has been rung.
    const std::uint64_t wanted = board(member)->wanted.load(std::memory_order_relaxed);
    const bool seen_now = before < wanted && wanted <= next_done_;
    if (wanted == 0 || seen_now) fabric().wake_reader(job_rank(member));
  }
}

bool Team::try_reclaim() noexcept {
  if (layers_) {
    if (!layers_->try_reclaim()) return false;
    if (segment_) segment_->release();  // all members of the team have released it
    return true;
  }
  if (mapped_) return reclaim_mapped();
  if (entry_ == nullptr) return true;  // symmetric
  // Where a collective has failed, somebody may not have awaited what was put to it. The memory is
  // kept for good.
  if (!unused_ && engine_.broken(membership_)) {
    // What is still under way here ends first: it waits for words of the group.
    if (multicast_) static_cast<void>(engine_.fail(membership_, membership_.broken));
    multicast_.reset();
    return false;
  }
  if (!inbox_.say_farewell()) return false;
  if (segment_) segment_->release();
  inbox_.letters().close();
  resources_.directory.remove(*entry_);
  resources_.heap.free(inbox_.offset(), inbox_.total_bytes());
  return true;
}

bool Team::reclaim_mapped() noexcept {
  // Tell every member once that this end will not touch its memory again...
  for (; released_to_ < size_; ++released_to_) {
    const auto index = static_cast<std::size_t>(released_to_);
    if (released_to_ == rank_) continue;
    if (entries_[index] == nullptr && find_board(released_to_) == Found::not_yet) return false;
    if (entries_[index] != nullptr)
      entries_[index]->releases.fetch_add(1, std::memory_order_acq_rel);
  }
  // ... and keep the own memory until all of them have said so.
  if (entry_ == nullptr) return true;  // declined without an entry
  if (entry_->releases.load(std::memory_order_acquire) != static_cast<std::uint32_t>(size_ - 1))
    return false;
  for (; outstanding_head_ < outstanding_.size(); ++outstanding_head_) {
    resources_.blocks.give(outstanding_[outstanding_head_].piece);
  }
  resources_.directory.remove(*entry_);
  if (own_board_ != nullptr) resources_.heap.free(own_offset_, Board::bytes(cell_counts_));
  if (inbox_in_use_) resources_.heap.free(inbox_.offset(), inbox_.total_bytes());
  return true;
}

}  // namespace tutti
