// Dedicated collective processors: who serves whom, and where each writes to the other.
#include <algorithm>

#include "core/job.hpp"
#include "offload/mapping.hpp"

namespace tutti {
namespace {

/// What every rank tells the others.
struct Meeting {
  std::uint64_t offset;  // of an APP's counter, or of a DCP's rings
  std::uint64_t code;    // Code
};

}  // namespace

/// Nodes are named by the lowest rank that a rank shares memory with.
Status JobImpl::map_apps(int apps, Bootstrap& bootstrap, std::vector<std::int32_t>* map) {
  std::int32_t node = 0;
  while (node < fabric_->rank() && !fabric_->maps(node)) ++node;
  std::vector<std::int32_t> node_of(static_cast<std::size_t>(bootstrap.size()));
  TUTTI_TRY(bootstrap.allgather(&node, node_of.data(), sizeof node));
  *map = offload::map_apps(node_of, apps);
  return Status::success();
}

Status JobImpl::dedicate(int apps, Bootstrap& bootstrap) noexcept {
  std::vector<std::int32_t> map;
  TUTTI_TRY(map_apps(apps, bootstrap, &map));
  const auto rank = static_cast<std::size_t>(fabric_->rank());
  const bool app = fabric_->rank() < apps;
  std::size_t offset = 0;
  Status status;
  if (app) {
    client_ = std::make_unique<offload::Client>(engine_, heap_, map);
    status = fabric_->reaches(map[rank])
                 ? client_->open(&offset)
                 : Status::error(Code::unsupported, "no dedicated processor can be reached");
  } else {
    const offload::Server::Teams teams{
        [this](const std::uint64_t* id, int its_rank, int size, const std::int32_t* members,
               Team** out) {
          return create_team(TeamSpec{{id[0], id[1]}, its_rank, size, members}, out);
        },
        [this](Team* team) { release_team(team); }};
    const bool timed = !settings_.report.empty() || !settings_.report_json.empty();
    server_ = std::make_unique<offload::Server>(engine_, heap_, map, teams, timed);
    status = server_->open(&offset);
  }
  const Meeting mine{offset, static_cast<std::uint64_t>(status.code)};
  std::vector<Meeting> all(static_cast<std::size_t>(bootstrap.size()));
  TUTTI_TRY(bootstrap.allgather(&mine, all.data(), sizeof mine));
  TUTTI_TRY(status);
  for (std::size_t peer = 0; peer < all.size(); ++peer) {
    if (all[peer].code != 0) {
      return {static_cast<Code>(all[peer].code), static_cast<std::int32_t>(peer),
              "another rank failed"};
    }
  }
  if (app) {
    const auto before =
        std::count(map.begin(), map.begin() + static_cast<std::ptrdiff_t>(rank), map[rank]);
    return client_->connect(all[static_cast<std::size_t>(map[rank])].offset,
                            static_cast<std::size_t>(before));
  }
  std::vector<std::uint64_t> taken;
  taken.reserve(static_cast<std::size_t>(apps));
  for (int i = 0; i < apps; ++i) taken.push_back(all[static_cast<std::size_t>(i)].offset);
  return server_->start(taken.data());
}

bool JobImpl::processor_counts(ProcessorCounts* out) const noexcept {
  const offload::Counts* counts = client_ && client_->index() == 0 ? client_->counts() : nullptr;
  if (counts == nullptr) return false;
  const auto value = [](const Word& word) { return word.load(std::memory_order_relaxed); };
  *out = {client_->processor(),         client_->served_with(),   value(counts->requests),
          value(counts->collectives),   value(counts->waited_ns), value(counts->served_ns),
          value(counts->longest_queue), value(counts->woken)};
  return true;
}

bool JobImpl::serve() noexcept {
  if (!server_) return true;
  Engine::Guard guard(engine_);
  engine_.wait_until([this] { return server_->over(); }, guard);
  return !server_->lost();
}

}  // namespace tutti
