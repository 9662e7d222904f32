// The core as seen by its hosts: the MPI interposer (src/mpi), the C API (include/tutti/tutti.h)
// and the dedicated processors (src/offload). A host gives the core a way to exchange a few bytes
// at start-up and asks it for teams; collectives are then described by a Call and run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/reduction.hpp"
#include "base/status.hpp"
#include "coll/call.hpp"

namespace tutti {

namespace p2p {
class Messages;  // point-to-point messages of a job (src/p2p/messages.hpp)
}
class Team;         // a group of ranks with its own state (src/team/team.hpp)
struct Choice;      // an algorithm with its parameters (src/select/select.hpp)
struct TrialCell;   // what trials know of a kind of call (src/select/online.hpp)
struct Learnt;      // what a trial has shown (src/select/kept.hpp)
struct CastTotals;  // of broadcasts by multicast (src/team/cast_watch.hpp)
class Operation;    // a collective in flight, or a persistent one between two starts

/// What the host runtime supplies. All functions are called on the thread that created the job,
/// except `pump`, which is called by whichever application thread waits inside tutti. None is
/// called by tutti's own threads. `self` is passed back unchanged.
struct Host {
  int rank = 0;  // of this process in the job
  int size = 1;  // of the job
  void* self = nullptr;
  /// Gathers `bytes` from every rank of the job into `out` (size * bytes). Blocking, collective
  /// over the job. Used only while the job is created.
  Status (*allgather)(void* self, const void* in, void* out, std::size_t bytes) = nullptr;
  /// Progresses the host MPI once, without blocking. May be null.
  void (*pump)(void* self) = nullptr;
  /// A thread of the program's begins to wait in run(), for some ten nanoseconds or for long: the
  /// time for what the host has to do anyhow and can do as fast. May be null.
  void (*waits)(void* self) = nullptr;
  /// Of the job's ranks, the first `apps` are the program's; the rest are dedicated processors,
  /// which serve() them. 0: all are the program's. The same on all ranks.
  int apps = 0;
  /// True while the host may have unfinished requests of this process; waits then keep pumping
  /// instead of sleeping for long. May be null (never).
  bool (*host_pending)(void* self) = nullptr;
  /// True while others may need this process to progress the host (its windows are open to them):
  /// waits then go on as the host's own do. May be null (never).
  bool (*host_serves)(void* self) = nullptr;
  /// The program's host can run collectives itself, so some may be left to it (TeamSpec::hosted).
  /// Without, a job in which TUTTI_ALG demands that is not created. The same on all ranks.
  bool has_collectives = false;
  /// Buffers may lie in the memory of a GPU, which is copied for tutti, but not for the host: so
  /// none is tried there, on any rank.
  bool may_have_gpus = false;
  /// Its name and version ("MPICH 5.0.2"), for what is kept from run to run. May be empty.
  std::string version;
};

/// What a team is made of. `id` must be the same on all members and different for every team of
/// the job that ever lives; `members` (job ranks in team order) need only live during the call.
struct TeamSpec {
  std::uint64_t id[2] = {0, 0};
  int rank = 0;
  int size = 0;
  const std::int32_t* members = nullptr;
  /// Whoever calls run(), start() and prepare() of this team runs what they leave to the host. The
  /// same on all members.
  bool hosted = false;
  /// It has blocking calls only: start() and prepare() are not for it. If it is `hosted`, run() may
  /// leave a call to the host to see whether it is faster; where dedicated processors serve it, the
  /// members' own algorithms come before them. The same on all members.
  bool waits = false;
};

/// How a team runs calls that differ in nothing but their buffers and their root. As long as the
/// team.
struct Route {
  const Choice* choice = nullptr;
  TrialCell* cell = nullptr;  // nullptr: nothing is tried
};

/// Whether a collective is left to the host, and who has decided so.
enum class Left : std::uint8_t {
  no,
  forced,    // TUTTI_ALG
  site,      // TUTTI_CHOICES
  built_in,  // the built-in rules
  measured,  // it was faster in this program
  on_trial   // to see whether it is
};

/// Memory of a node in which its ranks say what they are doing, for whoever looks from outside, and
/// for each other: a record of `bytes` for each, zeroed when the job begins, which only its own
/// rank writes. What is written there is the host's affair. It outlives ranks that end in any way,
/// as long as one of the node's is left.
struct Records {
  std::byte* base = nullptr;  // nullptr: the system refuses
  std::size_t bytes = 0;
  std::int32_t ranks = 0;  // of this node
  std::int32_t own = 0;    // which of them is this one
  /// That of this rank has memory from `head` on, too (TUTTI_RECORDER).
  bool whole = false;
  std::size_t head = 0;
  int descriptor = -1;  // of the file that they lie in; the job's
};

/// Statistics of one process, for `tutti run --report` and `tutti info`.
struct MemoryUse {
  std::size_t segment_reserved = 0;  // bytes of shared memory reserved by this rank
  std::size_t segment_used = 0;      // of these, in use
  std::size_t per_team = 0;          // fixed bytes per rank and team
};

/// What a dedicated processor has done, for `tutti run --report`.
struct ProcessorCounts {
  std::int32_t processor = -1;  // its job rank
  std::int32_t apps = 0;        // ranks of the program that it serves
  std::uint64_t requests = 0, collectives = 0;
  std::uint64_t waited_ns = 0;      // from the first arrival of each collective to its last, in all
  std::uint64_t served_ns = 0;      // from its last arrival to its last answer, in all
  std::uint64_t longest_queue = 0;  // collectives that were under way at once
  std::uint64_t woken = 0;          // times that it slept, and was woken
};

/// Where the ranks of a job are, for the line that tells its user.
struct Place {
  std::int32_t nodes = 0;  // that collectives run between; 0: only within each of them
  std::string network;     // its name, where there are several
  /// This rank's address there, a sockaddr where it is one of IP's; not the same on all ranks.
  std::vector<std::byte> address;
};

/// One process (or thread rank) of a parallel job: fabric, engine, teams. Create one per rank.
/// Thread-safe where `threads` was true at creation; otherwise one application thread at a time.
class Job {
 public:
  /// Collective over the job. On failure every rank gets a failure (not necessarily the same), so
  /// that all can fall back to their own MPI. `*out` is set only on success. `threads`: several
  /// application threads will call at the same time (MPI_THREAD_MULTIPLE).
  static Status create(const Host& host, bool threads, std::unique_ptr<Job>* out);
  virtual ~Job() = default;

  /// True for ranks of the job that this process can reach with tutti, on its node or over a
  /// network: a team can be created only among them.
  virtual bool reachable(std::int32_t job_rank) const noexcept = 0;
  /// The process of a rank, by the number that it has there itself.
  virtual std::int32_t process(std::int32_t job_rank) const noexcept = 0;
  /// The same on all ranks, but for the address.
  virtual const Place& place() const noexcept = 0;
  /// Every rank has a processor and calls from one thread, and all share memory: where messages can
  /// be expected to be faster than the host's. The same on all ranks.
  virtual bool suits_messages() const noexcept = 0;
  /// TUTTI_FIXED_ORDER=exact: whoever makes a Reduction passes it through make_exact().
  virtual bool sums_exactly() const noexcept = 0;

  /// Creates the local end of a team. Local: no communication; members find each other on the
  /// first collective. Fails with no_memory when the arena is full, unsupported when a member
  /// cannot be reached. Where the members share memory, the others are told of a failure: their
  /// first collective fails with no_memory and the job rank of who declined, as does meet().
  virtual Status create_team(const TeamSpec& spec, Team** out) = 0;
  /// True when all these job ranks map each other's memory, as far as this one knows: the same on
  /// all of them.
  virtual bool shares_memory(const std::int32_t* members, int size) const noexcept = 0;
  /// Waits until every member has made its end of the team, or one could not: then no_memory with
  /// that member as `peer`, on all members that have made theirs. Collective over the team. Only
  /// where the members share memory; on other teams it returns at once.
  virtual Status meet(Team& team) noexcept = 0;
  /// Gives the local end back, when all its operations have completed locally. Local; the memory
  /// is reused once every member has released it.
  virtual void release_team(Team* team) noexcept = 0;
  /// The same for a team that no member has used, as all of them have agreed: its memory is free at
  /// once, also where somebody has said that it could not be made.
  virtual void discard_team(Team* team) noexcept = 0;

  /// Runs a collective to its end. Collective over the team. Progresses the other pending
  /// operations of this process too. Where it fails on one member it fails on all, and so do all
  /// later ones of the team. On a hosted team it may give left_to_host, on all members: nothing has
  /// been done, and the host is to run this collective. So may start() and prepare().
  virtual Status run(Team& team, const Call& call) noexcept = 0;
  /// The same; `*found` is what run_by() wants for other calls of the kind. Left as it is where
  /// there is nothing to look up: in a team of one, and for no bytes.
  virtual Status run(Team& team, const Call& call, Route* found) noexcept = 0;
  /// The same, without looking anything up. `route`: found by run() for such a call of the team.
  virtual Status run_by(const Route& route, Team& team, const Call& call) noexcept = 0;

  /// Whether the host is to run such a call, because run() would leave it to it. The same on all
  /// members; where run() has more to say, as in trials, this says no. `route`: as in run_by().
  virtual bool leaves(const Route& route) noexcept = 0;
  /// It has run it: one more of its kind, as run() would have counted it.
  virtual void count_left(const Route& route) noexcept = 0;

  /// Whether the call that run() has just left to the host, or has just run for a host that copies
  /// (Call::copied), is on trial: then took() must be told how long all of it took, in nanoseconds,
  /// before the next collective of the team. Collective over the team; fails as run() does.
  virtual bool awaits_time(const Team& team) const noexcept = 0;
  virtual Status took(Team& team, std::uint64_t ns) noexcept = 0;
  /// What trials have shown so far, on teams that this process is a member of.
  virtual const std::vector<Learnt>& learnt() const noexcept = 0;
  /// What has become of this process's broadcasts by multicast.
  virtual const CastTotals& cast_totals() const noexcept = 0;
  /// Keeps it for the next run, where the settings say so. Local; for one rank of the job.
  virtual void keep_learnt() const = 0;

  /// The host cannot take part in a collective of the team that the others may have begun: they are
  /// told, and the team is of no use from now on. Gives the failure that all members report.
  virtual Status fail(Team& team, const Status& why) noexcept = 0;
  /// The same of a persistent operation, which cannot be started.
  virtual Status fail(Operation& operation, const Status& why) noexcept = 0;

  /// Starts a collective and returns at once. `*out` is owned by the caller and given back with
  /// release(). Operations of a team must be started in the same order on all members.
  virtual Status start(Team& team, const Call& call, Operation** out) noexcept = 0;
  /// Makes an inactive operation that restart() starts, any number of times (persistent). It is
  /// matched with the other members' by the order of these calls on the team; the starts may then
  /// come in any order, whatever else is started between them.
  virtual Status prepare(Team& team, const Call& call, Operation** out) noexcept = 0;
  virtual Status restart(Operation& operation) noexcept = 0;
  /// Progresses everything once. True when `operation` is complete (or inactive); `*outcome` is
  /// then its status.
  virtual bool test(Operation& operation, Status* outcome) noexcept = 0;
  /// Waits for one operation.
  virtual Status wait(Operation& operation) noexcept = 0;
  /// Waits a little for anything to happen: one round of spin, yield or sleep with host pump, for
  /// callers that poll several things (MPI_Waitany over mixed requests). `round` counts the
  /// caller's fruitless rounds since the last success.
  virtual void relax(std::uint32_t round) noexcept = 0;
  /// Progresses all pending operations of this process once, without waiting.
  virtual void progress() noexcept = 0;
  /// Gives an operation back. Legal while it is active (MPI_Request_free): it completes by itself.
  virtual void release(Operation* operation) noexcept = 0;

  /// Point-to-point: send, receive, probe, ... between the members of any team of the job. The same
  /// rules of threads as here; waiting in there progresses collectives too, and the other way
  /// round.
  virtual p2p::Messages& messages() noexcept = 0;

  /// On a dedicated processor: serves the program's ranks until all of them have left. True when
  /// all that it served left in good order.
  virtual bool serve() noexcept = 0;
  /// On the first of the ranks that a dedicated processor of this node serves: what that has done.
  /// False on all others. The times need a report (settings).
  virtual bool processor_counts(ProcessorCounts* out) const noexcept = 0;

  /// Whether run(), start() and prepare() would leave this call to the host. Local, and the same on
  /// all members.
  virtual Left left(const Team& team, const Call& call) noexcept = 0;
  /// The name of the algorithm that run() would use for this call, e.g. "flat". Static string.
  virtual const char* algorithm(const Team& team, const Call& call) noexcept = 0;
  virtual MemoryUse memory() const noexcept = 0;
  /// The process ends by exit(): Fabric::leave_to_caller(). Any thread.
  virtual void leave_to_caller() noexcept = 0;
  /// Whom this process waited for, a rank of the job, when the host was last pumped; -1: for any
  /// rank, or for nobody.
  virtual std::int32_t awaited() const noexcept = 0;
  /// Once: the caller's to unmap, and so mapped for longer than the job where the caller wants it.
  virtual Records take_records() noexcept = 0;
};

/// True when `operation` has not completed yet.
bool active(const Operation& operation) noexcept;

}  // namespace tutti
