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

}  // namespace tutti
