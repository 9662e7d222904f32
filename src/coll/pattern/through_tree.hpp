// Small messages through a tree of cells: up, folded on the way, and down again.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/task.hpp"
#include "coll/algorithm.hpp"
#include "coll/collective.hpp"
#include "team/cell_tree.hpp"

namespace tutti {

/// Parameters of the algorithms.
struct TreeOfCells {
  std::int64_t degree = 3;
  std::int64_t places = 1;  // 0: by rank, wherever the members run
};
inline constexpr auto kTreeOfCells = parameters_of<TreeOfCells>(
    {{&TreeOfCells::degree, "degree", "children a step", 1, 63, "degree: 1 to 63"},
     {&TreeOfCells::places, "places", "switch", 0, 1, "places: 0 or 1"}});

/// An operator that does not commute needs the ranks' order.
inline const CellTree& cell_tree(const Collective& c, TreeOfCells p) {
  const bool ordered = c.call.reduction != nullptr && !c.call.reduction->commutative;
  return c.team.cell_tree(static_cast<int>(p.degree), p.places != 0, ordered);
}

/// Folds the vectors of the own subtree in rank order: at rank 0 into `result`, elsewhere into the
/// own cell, for the parent.
Task fold_up_cells(Collective& c, const CellTree& tree, void* result) noexcept;
/// Everybody gets the result that rank 0 has in `result`, there. After fold_up_cells.
Task pass_down_cells(Collective& c, const CellTree& tree, void* result) noexcept;

}  // namespace tutti
