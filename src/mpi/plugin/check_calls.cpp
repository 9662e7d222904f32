// TUTTI_CHECK=calls: each collective is compared with what the other ranks of the node have passed
// to it, in their records. Nobody waits for anybody, so the program takes its course: whoever comes
// later compares. Only who is ahead by more collectives than a record remembers is not compared
// with.
#include <cstdint>
#include <string>

#include "base/log.hpp"
#include "mpi/plugin/record.hpp"
#include "mpi/record/roll.hpp"

namespace tutti::mpi {
namespace {

/// Whether this is the first on the node to say that calls on a communicator do not match: what
/// comes after the first of them is off by one, or garbage. False, too, when so many communicators
/// had such calls that there is no place left.
bool is_first_to_tell(const Records& node, std::uint64_t id) noexcept {
  for (std::uint64_t& place : record_of(node, 0).told) {
    std::uint64_t told = 0;
    if (__atomic_compare_exchange_n(&place, &told, id, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
      return true;
    if (told == id) return false;
  }
  return false;
}

/// Where the other's process has it, which is not this one.
std::string site_of(const tutti_record& record, std::uint64_t site) {
  const std::string text =
      roll::module_site(roll::process_here(record.processes, record.pid), site);
  return text.empty() ? text : " at " + text;
}

void tell(const Comm& comm, const tutti_record& other, const roll::Passed& mine,
          const roll::Passed& theirs, const std::string& what) {
  const std::string name = comm.row->name[0] != '\0' ? comm.row->name : "a communicator";
  const tutti_record& own = record_of(node_records(), node_records().own);
  log(LogLevel::error, "%s: rank %d has called %s%s; rank %d %s%s", what.c_str(), own.rank,
      roll::described(mine, name).c_str(), site_of(own, mine.site).c_str(), other.rank,
      roll::described(theirs, name).c_str(), site_of(other, theirs.site).c_str());
}

tutti_comm_row* row_of(tutti_record& record, std::uint64_t id) noexcept {
  for (tutti_comm_row& row : record.comms) {
    if (__atomic_load_n(&row.id, __ATOMIC_ACQUIRE) == id) return &row;
  }
  return nullptr;
}

}  // namespace

void check_call(const Comm& comm, bool nonblocking, std::uint64_t number) noexcept {
  const Records& node = node_records();
  const std::uint64_t id = comm.row->id;
  if (id == 0 || node.base == nullptr) return;
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
      if (is_first_to_tell(node, id)) tell(comm, record, mine, theirs, what);
    } catch (const std::bad_alloc&) {  // the program goes on
    }
    return;
  }
}

}  // namespace tutti::mpi
