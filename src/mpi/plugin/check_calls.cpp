#include "mpi/plugin/check_calls.hpp"

#include "base/log.hpp"
#include "mpi/plugin/check_nodes.hpp"
#include "mpi/plugin/record.hpp"

namespace tutti::mpi {
namespace {

Caller caller_of(const tutti_record& record, const roll::Passed& passed) {
  // Where this process has the other's, which is not this one.
  const std::int32_t process = roll::process_here(record.processes, record.pid);
  return {record.rank, passed, roll::module_site(process, passed.site)};
}

tutti_comm_row* row_of(tutti_record& record, std::uint64_t id) noexcept {
  for (tutti_comm_row& row : record.comms) {
    if (__atomic_load_n(&row.id, __ATOMIC_ACQUIRE) == id) return &row;
  }
  return nullptr;
}

std::string text_of(const Caller& caller, const std::string& comm) {
  return roll::described(caller.passed, comm) + (caller.site.empty() ? "" : " at " + caller.site);
}

/// With what the others of the node have passed so far. Only who is ahead by more collectives than
/// a record remembers is not compared with.
void compare_on_node(const Comm& comm, bool nonblocking, std::uint64_t number) noexcept {
  const Records& node = node_records();
  const std::uint64_t id = comm.row->id;
  if (id == 0 || node.base == nullptr) return;
  const tutti_record& own = record_of(node, node.own);
  // What one of two ranks stores last the other sees: before either reads.
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  const roll::Passed mine = roll::read_past(*past_of(comm.row, nonblocking, number), nonblocking);
  for (std::int32_t local = 0; local < node.ranks; ++local) {
    tutti_record& record = record_of(node, local);
    tutti_comm_row* const row = local != node.own ? row_of(record, id) : nullptr;
    if (row == nullptr) continue;
    const roll::Passed theirs = roll::read_past(*past_of(row, nonblocking, number), nonblocking);
    // Of this communicator still, and not of the next that has the row.
    if (theirs.number != number || __atomic_load_n(&row->id, __ATOMIC_RELAXED) != id) continue;
    if (!theirs.planned) continue;  // it comes later, and compares by itself then
    try {
      const std::string what = roll::difference(mine, theirs);
      if (what.empty()) continue;
      if (is_first_to_tell(comm))
        tell_difference(comm, what, caller_of(own, mine), caller_of(record, theirs));
    } catch (const std::bad_alloc&) {  // the program goes on
    }
    return;
  }
}

}  // namespace

bool is_first_to_tell(const Comm& comm) noexcept {
  const Records& node = node_records();
  const std::uint64_t id = comm.row->id;
  if (node.base == nullptr || id == 0) return false;
  for (std::uint64_t& place : record_of(node, 0).told) {
    std::uint64_t told = 0;
    if (__atomic_compare_exchange_n(&place, &told, id, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
      return true;
    if (told == id) return false;
  }
  return false;
}

void tell_difference(const Comm& comm, const std::string& what, const Caller& one,
                     const Caller& other) {
  const std::string name = comm.row->name[0] != '\0' ? comm.row->name : "a communicator";
  log(LogLevel::error, "%s: rank %d has called %s; rank %d %s", what.c_str(), one.rank,
      text_of(one, name).c_str(), other.rank, text_of(other, name).c_str());
}

void check_call(Comm& comm, bool nonblocking, std::uint64_t number) noexcept {
  const Team* const team = nonblocking ? comm.nonblocking : comm.team;
  if (!comm.spans || team == nullptr) return compare_on_node(comm, nonblocking, number);
  const tutti_past& mine = *past_of(comm.row, nonblocking, number);
  nonblocking ? begin_comparison(comm, mine) : compare_blocking(comm, mine);
}

}  // namespace tutti::mpi
