// What the functions on requests share: Wait and Test (completion.cpp), queries that complete
// nothing (status_queries.cpp), and Start, Cancel and Request_free (starts.cpp). Their arrays mix
// tutti's requests and the MPI's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "mpi/plugin/abi.hpp"
#include "mpi/plugin/request.hpp"

namespace tutti::mpi {

// Null pointers are errors, which the MPI reports.
inline bool points_to_own(const MPI_Request* request) {
  return request != nullptr && is_own(*request);
}

inline bool any_own(int count, const MPI_Request* requests) {
  if (requests == nullptr) return false;
  for (int i = 0; i < count; ++i) {
    if (is_own(requests[i])) return true;
  }
  return false;
}

inline MPI_Status* at(MPI_Status* statuses, int index) {
  return statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : statuses + index;
}

// What MPI says of a request without anything to report. MPI_ERROR stays as it is: only calls that
// return MPI_ERR_IN_STATUS set it.
void set_empty(MPI_Status* status);
// Puts the result of a collective that is over into the user's memory, once.
Status settle_collective(Request& request);
// Whether an own request is over. Progresses both engines when it is not: programs poll.
bool look(MPI_Request handle);

// The MPI's requests of a mixed array, by themselves, and the way back.
class NativePart {
 public:
  NativePart(int count, MPI_Request* requests) : all_(requests) {
    for (int i = 0; i < count; ++i) {
      if (is_own(requests[i])) continue;
      where_.push_back(i);
      requests_.push_back(requests[i]);
    }
    statuses_.resize(requests_.size());
  }

  int count() const { return static_cast<int>(requests_.size()); }
  MPI_Request* requests() { return requests_.data(); }
  MPI_Status* statuses() { return statuses_.data(); }
  int index(int mine) const { return where_[static_cast<std::size_t>(mine)]; }

  void write_back() {
    for (std::size_t i = 0; i < where_.size(); ++i) all_[where_[i]] = requests_[i];
  }
  // Status `mine` of the MPI's to `to`.
  void copy_status(int mine, MPI_Status* to) const {
    if (to != MPI_STATUS_IGNORE) *to = statuses_[static_cast<std::size_t>(mine)];
  }

 private:
  MPI_Request* all_;
  std::vector<int> where_;
  std::vector<MPI_Request> requests_;
  std::vector<MPI_Status> statuses_;
};

}  // namespace tutti::mpi
