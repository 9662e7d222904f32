#include "coll/cells.hpp"

namespace tutti {

Task Cells::wait_free(Team& team, std::uint64_t epoch, std::size_t bytes) noexcept {
  // For half of the cells at once: who waits for every single one keeps taking the counter's line
  // away from the member that is to increase it.
  const std::uint64_t cells = team.cells_for(bytes);
  const std::uint64_t needed = epoch - cells + 1;
  co_await team.wait_done(needed + cells / 2);
  co_await team.reached(team.own_board_->done, needed, team.rank());
  co_return Status::success();
}

Task Cells::wait_free(Team& team, std::uint64_t epoch, const CellTree& tree,
                      std::size_t bytes) noexcept {
  const std::uint64_t cells = team.cells_for(bytes);
  const std::uint64_t needed = epoch - cells + 1;
  // Before its own part of that epoch is over, this rank does not know for whom it will publish.
  co_await team.reached(team.own_board_->done, needed, team.rank());
  if (team.read_by_all_until_ >= needed) {
    co_await team.wait_done(needed + cells / 2);
  } else {
    for (int i = 0; tree.neighbour(i) >= 0; ++i) {
      co_await team.wait_done_of(tree.neighbour(i), needed + cells / 2);
    }
    if (team.tree_ == &tree)
      team.neighbours_floor_ = std::max(team.neighbours_floor_, needed + cells / 2);
  }
  co_return Status::success();
}

}  // namespace tutti
