// The roll call: what the ranks of a job are doing, read from their records without their help, and
// what does not fit together in it. For the stall report (plugin/stall.cpp) and for `tutti where`.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/reduction.hpp"
#include "coll/call.hpp"
#include "mpi/record/record.h"

namespace tutti {
struct Algorithm;
}

namespace tutti::roll {

/// What a rank has passed to a collective.
struct Passed {
  std::uint64_t number = 0;  // on the communicator, from 1; 0: not known
  bool nonblocking = false;  // numbered by themselves
  std::uint64_t site = 0, bytes = TUTTI_NO_BYTES;
  std::int32_t root = TUTTI_NO_RANK;
  Coll coll = Coll::barrier;
  std::uint8_t op = Reduction::kNoName, type = Reduction::kNoName;
  std::uint8_t algorithm = 0;  // as place_of() gives it
  bool planned = true;         // false: its rank has just come to it, and will say more
};

/// A communicator of a rank's.
struct CommSeen {
  std::uint64_t id = 0, handle = 0;
  std::uint64_t number = 0, started = 0;  // of its last blocking and non-blocking collective
  std::int32_t size = 0;
  std::int32_t first = 0, stride = 0;  // members; stride 0: others
  std::string name;                    // never empty
  std::vector<Passed> past;            // in no order
};

/// A call that a thread is in, or the last that it was in.
struct CallSeen {
  bool inside = false;
  bool moved = false;       // it was another one when all had been read
  int lane = 0;             // of the thread
  std::uint64_t count = 0;  // of the thread's calls so far
  std::string name;         // "MPI_Allreduce"; of a wait: of what it waits for, where that is known
  std::string wait;         // "MPI_Wait" then, else empty
  std::uint64_t site = 0;   // address in the process
  std::uint64_t since_ns = 0;  // CLOCK_MONOTONIC; 0: it has just begun
  bool message = false;        // peer and tag mean something
  bool sends = false;          // it is sent
  std::int32_t peer = 0, tag = 0;
  std::int32_t peer_in_world = TUTTI_NO_RANK;  // where that is known
  std::string comm;                            // its name; empty: not known
  bool collective = false;                     // what follows means something
  std::uint64_t id = 0;                        // of its communicator
  Passed passed;
};

/// A rank as its record shows it.
struct RankSeen {
  std::int32_t rank = 0, size = 0, pid = 0;
  std::uint64_t job = 0;
  bool finalizing = false;
  bool foreign = false;  // its calls have other numbers here: a job of another version of tutti
  char process = '?';    // as in /proc/PID/stat; 'X': it has ended; '?': not to be seen
  std::string program;
  std::vector<CallSeen> calls;  // one for each thread that has made one; the first thread's first
  std::vector<CommSeen> comms;
  bool full = false;  // there may be communicators that it has no row for
};

/// Ranks that do the same.
struct Group {
  std::vector<std::int32_t> ranks;
  std::string state;  // "inside", "outside", "finalizing", "ended"
  CallSeen call;      // of the first of them; since_ns: the earliest
  std::string what;   // "are in MPI_Allreduce no. 12 on MPI_COMM_WORLD (8 bytes, sum of int32)"
  std::string site;   // "app+0x1234"; may be empty
};

struct Roll {
  std::vector<Group> groups;
  std::vector<std::string> findings;  // a line each
};

/// The number that a process has here which is `pid` in a pid namespace (an inode); 0: not known.
using ProcessHere = std::function<std::int32_t(std::uint64_t processes, std::int32_t pid)>;
/// Where all are in this process's own.
std::int32_t process_here(std::uint64_t processes, std::int32_t pid) noexcept;

/// Copies a record that is being written. False where there is none yet.
bool read_record(const tutti_record& record, RankSeen* out,
                 const ProcessHere& process = process_here);
/// Reads all of them, leaving out those that are none yet. A second look shows which calls were in
/// progress together: those that have not `moved`.
std::vector<RankSeen> read_records(const std::vector<const tutti_record*>& records,
                                   const ProcessHere& process = process_here);

/// A copy of a record that is being written, to be read elsewhere: what is in it belongs together,
/// but of a thread that calls all the time.
void copy_record(const tutti_record& record, tutti_record* out) noexcept;
/// What two copies of one record show, the second taken later: after all ranks' first ones. As
/// read_records(); the process is not looked at. False where there is no record yet.
bool read_copies(const tutti_record& first, const tutti_record& second, RankSeen* out);

/// When a process started, as its record has it; 0 where that is not to be seen.
std::uint64_t started_of(std::int32_t pid);

/// "MPI_Allreduce", of enum tutti_mpi_function; both forms of a function have one name.
std::string function_name(std::uint32_t function);
/// Only these have a peer; in a collective's lane that of an earlier call is left.
bool is_message(const std::string& name);
/// Of these: whether its peer is the receiver.
bool is_send(const std::string& name);

/// Number 0 while it is being written.
Passed read_past(const tutti_past& past, bool nonblocking) noexcept;
/// The same of its words, without its number and its place.
Passed passed_of(std::uint64_t bytes, std::uint64_t what, bool nonblocking) noexcept;

/// The place of `mpi`, which every collective has.
inline constexpr std::uint8_t kHost = 255;
/// An algorithm in a record: 1 + its place in the list of all of this version; 0: none that is
/// known. Fast: asked in calls.
std::uint8_t place_of(const Algorithm* algorithm) noexcept;
/// Its name; empty where none is known.
std::string algorithm_of(const Passed& passed);

/// "MPI_Iallreduce".
std::string name_of(const Passed& passed);
/// "sum of i32"; empty where there is none, or it is the program's own.
std::string operation_of(const Passed& passed);
/// "MPI_Allreduce no. 12 on MPI_COMM_WORLD (8 bytes, sum of i32)".
std::string described(const Passed& passed, const std::string& comm);
/// What should be equal of what two ranks have passed to one collective and is not, as words;
/// empty: nothing.
std::string difference(const Passed& a, const Passed& b);

/// Where a call of that process comes from, as text; equal for equal places of a program.
using SiteText = std::function<std::string(const RankSeen& rank, std::uint64_t site)>;
/// Module and offset, from /proc/PID/maps; "" where those cannot be read. `pid`: 0: not known here.
std::string module_site(std::int32_t pid, std::uint64_t site);
/// The same of a rank; "" where its process has ended or is not to be seen.
std::string site_in_rank(const RankSeen& rank, std::uint64_t site);

/// Groups the ranks of one job by what they do. `ranks` in any order; not all need be there.
Roll call_roll(const std::vector<RankSeen>& ranks, const SiteText& site_text);

/// "ranks 0-2, 5 (4 of 8)" / "rank 3".
std::string rank_list(const std::vector<std::int32_t>& ranks, std::int32_t size);
/// The table as indented lines, the findings behind it. `now_ns`: CLOCK_MONOTONIC.
std::string text_of(const Roll& roll, std::int32_t size, std::uint64_t now_ns);

/// "MPI_Allreduce no. 12 on MPI_COMM_WORLD (8 bytes, sum of int32)".
std::string described(const CallSeen& call);
/// "4,711".
std::string grouped(std::uint64_t number);

}  // namespace tutti::roll
