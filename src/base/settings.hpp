// Settings: TUTTI_* environment variables, or one TOML file named by TUTTI_CONFIG. The environment
// wins over the file. Unknown names and bad values are errors that say what would be right.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.hpp"

namespace tutti {

enum class WaitMode : std::uint8_t { automatic, spin, yield, sleep };
enum class Switch : std::uint8_t { automatic, on, off };
enum class LogLevel : std::uint8_t { quiet, error, warn, info, debug };
/// How large messages move (RNDV-2006); automatic: read_interrupt.
enum class Rendezvous : std::uint8_t { automatic, write, read, read_interrupt };
/// Of reductions: any order; from left to right; and sums that are exact, whatever the order.
enum class FixedOrder : std::uint8_t { off, on, exact };
enum class SegmentKind : std::uint8_t { memfd, posix };
/// What is checked at run time: the fabric's contract, or the program's collectives.
enum class Check : std::uint8_t { off, contract, calls };

/// When calls are noted; exact: the clock is read for each of them.
enum class Recorder : std::uint8_t { on, exact, off };

/// Every setting of tutti with its default. Loaded once per job and immutable afterwards.
struct Settings {
  bool disable = false;                 // TUTTI_DISABLE: leave everything to the MPI
  std::string algorithm;                // TUTTI_ALG: OP=NAME[:KEY=VALUE...][,OP=NAME...]
  std::string choices;                  // TUTTI_CHOICES: file of tutti tune --choices
  std::string choice = "online";        // TUTTI_CHOICE: "online", "static", or a path
  std::string report;                   // TUTTI_REPORT: "1" for standard error, or a path
  std::string report_json;              // TUTTI_REPORT_JSON: path
  LogLevel log = LogLevel::warn;        // TUTTI_LOG
  WaitMode wait = WaitMode::automatic;  // TUTTI_WAIT
  double spin_us = 0;                // TUTTI_SPIN_US: budget before yielding; 0: by available cores
  double deadline_s = 0;             // TUTTI_DEADLINE: give up a wait after this; 0: never
  Recorder recorder = Recorder::on;  // TUTTI_RECORDER: of the last calls
  std::string recorder_dir;          // TUTTI_RECORDER_DIR: where it is written
  double stall_s = 60;               // TUTTI_STALL: say who waits for whom after this; 0: never
  Switch cma = Switch::automatic;    // TUTTI_CMA: cross-memory attach
  SegmentKind segment = SegmentKind::memfd;    // TUTTI_SEGMENT
  std::size_t arena = std::size_t{1} << 30;    // TUTTI_ARENA: address space per rank, bytes
  std::size_t ring = 0;                        // TUTTI_RING: shared blocks per rank, bytes
  std::size_t block = std::size_t{64} << 10;   // TUTTI_BLOCK: bytes of one shared block
  FixedOrder fixed_order = FixedOrder::off;    // TUTTI_FIXED_ORDER: same bits whatever the layout
  Switch progress_thread = Switch::automatic;  // TUTTI_PROGRESS_THREAD
  int progress_cpu = -1;  // TUTTI_PROGRESS_CPU: bind the progress thread; -1: any
  Rendezvous rendezvous = Rendezvous::automatic;  // TUTTI_RENDEZVOUS: protocol of large messages
  std::size_t eager = std::size_t{256} << 10;  // TUTTI_EAGER: largest message that is sent at once
  std::size_t unexpected = std::size_t{4} << 20;  // TUTTI_UNEXPECTED: held for one sender, bytes
  Switch p2p = Switch::automatic;  // TUTTI_P2P: take over point-to-point of MPI programs
  Switch net = Switch::automatic;  // TUTTI_NET: collectives between nodes
  std::string net_provider;        // TUTTI_NET_PROVIDER: of libfabric
  std::string dcp;                 // TUTTI_DCP: dedicated collective processors, "1" or "1:4"
  bool dcp_from_job = false;       // TUTTI_DCP_FROM_JOB: taken from the job's processes
  std::string dcp_cpus;            // TUTTI_DCP_CPUS: processors that they have for themselves
  std::string net_interface;       // TUTTI_NET_INTERFACE: network interface or domain
  double net_timeout_s = 10;       // TUTTI_NET_TIMEOUT: a node that is silent for so long is lost
  Switch multicast = Switch::automatic;  // TUTTI_MULTICAST: IP multicast between nodes
  int multicast_receives = 5;            // TUTTI_MULTICAST_RECEIVES: that each group pre-posts
  std::string libfabric;                 // TUTTI_LIBFABRIC: the library, where the MPI brings none
  std::string node;                      // TUTTI_NODE: name of the node of this rank, for tests
  std::string topology;                  // TUTTI_TOPOLOGY: a made-up machine, for tests
  std::string fault;         // TUTTI_FAULT: fault injection, see src/fabric/wrap/fault.hpp
  std::string trace;         // TUTTI_TRACE: file for a trace of fabric operations
  Check check = Check::off;  // TUTTI_CHECK
};

/// What the ranks of a job may have of a setting: any value each, equal ones, or any as long as it
/// is set on all or on none.
enum class Scope : std::uint8_t { any, equal, equally_set };

/// One line of `tutti info`: the setting's name, type, default, value in force, and its source
/// ("default", "environment", or "file PATH:LINE").
struct SettingLine {
  std::string name, type, fallback, value, source, help;
  Scope scope;
};

/// Reads environment and file. On failure returns invalid_argument, leaves `*out` untouched and
/// puts one line into `*message` that names the setting and says what would be right. Any variable
/// that starts with TUTTI_ and is not a setting is an error, with the nearest name as a hint; but
/// those by which modules say where tutti lies (TUTTI_ROOT, TUTTI_VERSION, ...) are none.
Status load_settings(Settings* out, std::string* message);

/// All settings, in the order of the struct, as they are in force (or would be, were it not for
/// errors: bad ones are listed with their raw value).
std::vector<SettingLine> describe_settings();

/// What all ranks must have alike, as (name, value); in the order of the struct, and of the same
/// length on all ranks with the same version of tutti.
struct SharedSetting {
  std::string name, value;
};
std::vector<SharedSetting> shared_settings(const Settings& settings);

/// Parses a size with an optional suffix: "4096", "64K", "64KiB", "1M", "2GiB". False on error.
bool parse_bytes(const std::string& text, std::size_t* out);

}  // namespace tutti
