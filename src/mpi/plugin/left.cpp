// Calls that the core leaves to the MPI although it could serve them.
#include "mpi/plugin/plan.hpp"
#include "mpi/plugin/state.hpp"

namespace tutti::mpi {

Reason left(const Team& team, const Call& call) noexcept {
  switch (state.job->left(team, call)) {
    case Left::no:
      return Reason::none;
    case Left::forced:
      return Reason::forced;
    case Left::site:
      return Reason::site;
    case Left::built_in:
      return Reason::built_in;
    case Left::measured:
      return Reason::measured;
    case Left::on_trial:
      return Reason::on_trial;
  }
  return Reason::none;
}

}  // namespace tutti::mpi
