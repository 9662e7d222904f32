#include "team/layers.hpp"

#include <new>
#include <vector>

#include "team/team.hpp"

namespace tutti {
namespace {

constexpr int kEverybody = -1;

/// The job ranks of those that have one place on their nodes, in node order.
std::vector<std::int32_t> across_nodes(const NodeMap& map, const std::int32_t* ranks, int place) {
  std::vector<std::int32_t> members;
  for (int node = 0; node < map.nodes; ++node) members.push_back(ranks[map.member(node, place)]);
  return members;
}

bool reclaimed(std::unique_ptr<Team>& team) noexcept {
  if (team && team->try_reclaim()) team.reset();
  return !team;
}

}  // namespace

Layers::Layers(Team& whole) noexcept : whole_(whole) {}
Layers::~Layers() = default;

/// The id of the team of a layer: 0 is that of the leaders, then come the nodes, then the lanes;
/// kEverybody is that of all members.
void Layers::id_of(int layer, std::uint64_t out[2]) const noexcept {
  const auto number = static_cast<std::uint64_t>(layer);
  out[0] = (whole_.id_[0] + number) * 0x9e3779b97f4a7c15 ^ 0x6c61796572;
  out[1] = whole_.id_[1] ^ (out[0] >> 7 | number << 60);
}

Status Layers::create() {
  const Team::Use use =
      whole_.cell_counts_.small == kFewCells.small ? Team::Use::one_at_a_time : Team::Use::any;
  std::vector<std::int32_t> here;
  for (int i = 0; i < count(my_node); ++i) here.push_back(whole_.job_rank(member(my_node, i)));
  const int local = local_of[static_cast<std::size_t>(whole_.rank())];
  std::uint64_t id[2];
  // In virtual time first of all, while all members have allocated the same.
  if (whole_.symmetric() && Inbox::has_mail(whole_.size(), whole_.elided())) {
    TUTTI_TRY(open_everybody());
    settle_everybody(true);
  }
  if (here.size() > 1) {
    id_of(my_node + 1, id);
    TUTTI_TRY(Team::create(whole_.resources_, id, local, static_cast<int>(here.size()), here.data(),
                           false, use, &whole_.membership_, &node));
    if (node->declined()) return Status::error(Code::no_memory, "the arena is full");
  }
  if (local == 0) {
    const std::vector<std::int32_t> firsts = across_nodes(*this, whole_.ranks_, 0);
    id_of(0, id);
    TUTTI_TRY(Team::create(whole_.resources_, id, my_node, nodes, firsts.data(), whole_.symmetric(),
                           use, &whole_.membership_, &leaders));
  }
  return whole_.symmetric() && each() != 0 ? create_lane() : Status::success();
}

Status Layers::create_lane() noexcept {
  const int place = local_of[static_cast<std::size_t>(whole_.rank())];
  if (place == 0) return Status::success();  // that of the leaders
  const std::vector<std::int32_t> others = across_nodes(*this, whole_.ranks_, place);
  std::uint64_t id[2];
  id_of(nodes + place, id);
  TUTTI_TRY(Team::create(whole_.resources_, id, my_node, nodes, others.data(), whole_.symmetric(),
                         Team::Use::any, &whole_.membership_, &lane));
  return lane->announce();
}

Status Layers::open_lane(Team** out) noexcept {
  if (!leaders && !lane) TUTTI_TRY(create_lane());
  *out = leaders ? leaders.get() : lane.get();
  return Status::success();
}

Status Layers::open_everybody() noexcept try {
  std::uint64_t id[2];
  id_of(kEverybody, id);
  TUTTI_TRY(Team::create(whole_.resources_, id, whole_.rank(), whole_.size(), whole_.ranks_,
                         whole_.symmetric(), Team::Use::letters, &whole_.membership_, &everybody));
  const Status announced = everybody->announce();
  if (!announced.ok()) everybody.reset();
  return announced;
} catch (const std::bad_alloc&) {
  return Status::error(Code::no_memory, "out of memory");
}

void Layers::settle_everybody(bool all) noexcept {
  settled_ = true;
  if (!all) static_cast<void>(reclaimed(everybody));  // at once: nobody has looked for it
}

Status Layers::announce() noexcept {
  if (node) TUTTI_TRY(node->announce());
  return leaders ? leaders->announce() : Status::success();
}

bool Layers::try_reclaim() noexcept {
  const bool nodes_gone = reclaimed(node), leaders_gone = reclaimed(leaders);
  const bool lane_gone = reclaimed(lane);
  return reclaimed(everybody) && nodes_gone && leaders_gone && lane_gone;
}

}  // namespace tutti
