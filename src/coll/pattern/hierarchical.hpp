// Collectives of teams with layers: shared memory within the nodes, the network between their
// leaders.
#pragma once

#include "coll/call.hpp"
#include "coll/pattern/move.hpp"
#include "team/team.hpp"

namespace tutti {

/// Runs `call` in a layer; where this rank is the only one in it (nullptr), its own block goes
/// where it belongs.
inline Task in_layer(Collective&, const std::unique_ptr<Team>& layer, const Call& call) noexcept {
  if (layer == nullptr) {
    if (!moves_nothing(call)) run_on_one_rank(call);
    return Task::completed(Status::success());
  }
  return layer->run(call);
}

/// A call of another collective, with the same reduction if it has one.
inline Call like(const Call& call, Coll coll, int root, const void* send, void* recv,
                 std::size_t bytes) noexcept {
  Call other;
  other.coll = coll;
  other.root = root;
  other.send = send;
  other.recv = recv;
  other.bytes = bytes;
  if (reduces(coll)) other.reduction = call.reduction;
  return other;
}

/// On the node, between the leaders, and on the node: within a collective that has its turn.
Task allreduce_in_layers(Collective& c, const Call& call) noexcept;
Task bcast_in_layers(Collective& c, const Call& call) noexcept;

/// Of whoever is on the node of `root`: the bytes that its leader has (or, with `to_leader`, that
/// the root has) at `memory` get to the other one. Ranks that have no part in it receive into
/// memory of their own.
Task pass_on_node(Collective& c, int root, bool to_leader, void* memory,
                  std::size_t bytes) noexcept;

/// Allgather of `bytes` of every member into `vector`, in the order of Layers::members (node by
/// node).
Task collect_by_node(Collective& c, const void* mine, void* vector, std::size_t bytes) noexcept;

/// Everybody's vectors, collected piece by piece, of which those of the first `count` members are
/// folded into `out` in the strict order of the ranks. `count` may differ between members; with 0
/// nothing is folded.
Task fold_collected(Collective& c, int count, void* out) noexcept;

}  // namespace tutti
