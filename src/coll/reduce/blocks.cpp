// Reduce through shared blocks: the root folds every block as it comes, in rank order.
#include "coll/algorithms.hpp"
#include "coll/pattern/fold.hpp"
#include "coll/pattern/published.hpp"

namespace tutti {
namespace {

/// Folds what arrives into the receive buffer. The root's own operand may lie there as well (in place);
/// before something else is folded over it, it is set aside.
class BlockFold {
 public:
  BlockFold(Team& team, const Call& call, std::byte* aside) noexcept
      : team_(team), call_(call), aside_(aside) {}

  void operator()(int member, std::size_t offset, const std::byte* data, std::size_t bytes) noexcept {
    std::byte* const out = at(call_.recv, offset);
    if (member == 0) {
      first_ = data;
      if (team_.rank() != 0 && call_.send == call_.recv) place(team_, aside_, out, bytes);
      if (team_.size() == 1) place(team_, out, data, bytes);
      return;
    }
    if (member == team_.rank() && call_.send == call_.recv) data = aside_;
    fold_bytes(team_, *call_.reduction, member == 1 ? first_ : out, data, out, bytes);
  }

 private:
  Team& team_;
  const Call& call_;
  std::byte* aside_;
  const std::byte* first_ = nullptr;
};

}  // namespace

Task reduce_blocks(Team& t, const Call& call, const Ticket& k, const Parameters& p) {
  Scratch aside(t);
  TUTTI_CO_TRY(aside.take());
  const std::size_t chunk = whole_elements(block_parameter(t, p), call.reduction->element_bytes);
  TUTTI_CO_TRY(co_await through_blocks(
      t, k, Publishers::all(t), call.send, [&call](int) { return call.bytes; }, chunk,
      t.rank() == call.root, BlockFold(t, call, aside.memory())));
  co_return Status::success();
}

}  // namespace tutti
