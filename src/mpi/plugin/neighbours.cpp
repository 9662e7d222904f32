#include "mpi/plugin/neighbours.hpp"

#include <algorithm>

#include "mpi/plugin/comm.hpp"

namespace tutti::mpi {
namespace {

/// Never null, for MPIs that look.
std::vector<int> room_for(int count) {
  return std::vector<int>(static_cast<std::size_t>(std::max(count, 1)));
}

bool read_grid(MPI_Comm comm, Neighbours* out) {
  int dimensions = 0;
  if (native.Cartdim_get(comm, &dimensions) != MPI_SUCCESS) return false;
  out->grid = true;
  for (int d = 0; d < dimensions; ++d) {
    int before = MPI_PROC_NULL, after = MPI_PROC_NULL;
    if (native.Cart_shift(comm, d, 1, &before, &after) != MPI_SUCCESS) return false;
    out->sources.insert(out->sources.end(), {before, after});
  }
  out->destinations = out->sources;
  return true;
}

bool read_graph(MPI_Comm comm, int rank, Neighbours* out) {
  int count = 0;
  if (native.Graph_neighbors_count(comm, rank, &count) != MPI_SUCCESS) return false;
  out->sources = room_for(count);
  if (native.Graph_neighbors(comm, rank, count, out->sources.data()) != MPI_SUCCESS) return false;
  out->sources.resize(static_cast<std::size_t>(count));
  out->destinations = out->sources;
  return true;
}

bool read_distributed(MPI_Comm comm, Neighbours* out) {
  int in = 0, from_here = 0, weighted = 0;
  if (native.Dist_graph_neighbors_count(comm, &in, &from_here, &weighted) != MPI_SUCCESS)
    return false;
  std::vector<int> weights_in = room_for(in), weights_out = room_for(from_here);
  out->sources = room_for(in);
  out->destinations = room_for(from_here);
  if (native.Dist_graph_neighbors(comm, in, out->sources.data(), weights_in.data(), from_here,
                                  out->destinations.data(), weights_out.data()) != MPI_SUCCESS)
    return false;
  out->sources.resize(static_cast<std::size_t>(in));
  out->destinations.resize(static_cast<std::size_t>(from_here));
  return true;
}

std::size_t most_alike(std::vector<int> members) {
  std::sort(members.begin(), members.end());
  std::size_t most = 0, run = 0;
  for (std::size_t i = 0; i < members.size(); ++i) {
    run = i != 0 && members[i] == members[i - 1] ? run + 1 : 1;
    most = std::max(most, run);
  }
  return most;
}

bool read(const Comm& comm, Neighbours* out) {
  int topology = MPI_UNDEFINED;
  if (native.Topo_test(comm.handle, &topology) != MPI_SUCCESS) return false;
  if (topology == MPI_CART) return read_grid(comm.handle, out);
  if (topology == MPI_GRAPH) return read_graph(comm.handle, comm.rank, out);
  return topology == MPI_DIST_GRAPH && read_distributed(comm.handle, out);
}

}  // namespace

const Neighbours* neighbours_of(const Comm& comm) {
  if (comm.neighbours == nullptr) {
    auto found = std::make_unique<Neighbours>();
    if (!read(comm, found.get())) return nullptr;
    for (std::vector<int>* side : {&found->sources, &found->destinations})
      std::replace(side->begin(), side->end(), MPI_PROC_NULL, -1);
    found->most_alike = std::max(most_alike(found->sources), most_alike(found->destinations));
    comm.neighbours = std::move(found);
  }
  return comm.neighbours.get();
}

}  // namespace tutti::mpi
