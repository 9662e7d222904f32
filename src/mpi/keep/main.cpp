// tutti-keep FOLDER: holds the recorders of a node's ranks until the last of them has ended, and
// then writes those that their ranks have not: some launchers end all ranks with SIGKILL when one
// has been killed or has left. Started by the node's first rank, with the node's segment as
// descriptor 3. It sleeps until the ranks have ended, and ends then.
#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "fabric/shm/segment.hpp"
#include "mpi/plugin/recorder.hpp"
#include "mpi/record/roll.hpp"
#include "offload/start/helper.hpp"

namespace {

namespace roll = tutti::roll;
using Ended = std::vector<const tutti_record*>;

Ended records_of(const tutti::shm::RecordsFromOutside& node) {
  Ended ended;
  for (std::uint32_t local = 0; local < node.ranks(); ++local) {
    const auto* const record = reinterpret_cast<const tutti_record*>(node.record(local));
    if (record->magic == TUTTI_RECORD_MAGIC) ended.push_back(record);
  }
  return ended;
}

/// Whether there are calls of the rank that are in no file.
bool is_to_be_written(const tutti_record& record) noexcept {
  const std::uint64_t written = record.origin.written_calls;
  return record.lanes[0].events != 0 && written != TUTTI_WRITTEN_AT_END &&
         written != tutti_calls(&record);
}

void write_calls(const tutti_record& record, const char* folder) noexcept {
  char path[tutti::mpi::kRecorderPath], part[tutti::mpi::kRecorderPart];
  tutti::mpi::name_recorder_file(record, folder, path, part);
  // Of a process that has ended nothing is mapped.
  static_cast<void>(tutti::mpi::write_recorder_file(record, "", part, path));
}

/// A place in a program that has ended.
std::string place_in(const tutti_record& record, std::uint64_t site) {
  const std::uint64_t place = site - 1, begin = record.origin.program_begin;
  if (place < begin || place >= record.origin.program_end) return {};
  char text[TUTTI_RECORD_NAME + 32];
  std::snprintf(text, sizeof text, "%.*s+%#llx", TUTTI_RECORD_NAME, record.program,
                static_cast<unsigned long long>(place - begin));
  return text;
}

/// Where each rank was at its end.
std::string table_of(const Ended& ended) {
  // Their numbers may be others' by now.
  std::vector<roll::RankSeen> ranks =
      roll::read_records(ended, [](std::uint64_t, std::int32_t) { return 0; });
  for (roll::RankSeen& rank : ranks) rank.process = 'X';
  const roll::Roll table =
      roll::call_roll(ranks, [&ended](const roll::RankSeen& rank, std::uint64_t site) {
        for (const tutti_record* record : ended) {
          if (record->rank == rank.rank) return place_in(*record, site);
        }
        return std::string();
      });
  return roll::text_of(table, ended.front()->size, 0);
}

/// What launchers do not say: which rank had left, while the others were in a call.
void write_table(const Ended& ended, const char* folder) {
  char path[tutti::mpi::kRecorderPath];
  const tutti_record& first = *ended.front();
  std::snprintf(path, sizeof path, "%s/tutti-%08llx-from-%d.txt", folder,
                static_cast<unsigned long long>(first.job >> 32), first.rank);
  const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file < 0) return;
  const std::string text =
      "tutti: ranks of this node have been killed; where each of its ranks was:\n" +
      table_of(ended);
  static_cast<void>(!write(file, text.data(), text.size()));
  close(file);
}

}  // namespace

int main(int argc, char** argv) {
  tutti::offload::begin_helper();
  setsid();  // launchers signal the sessions and groups of ranks
  if (argc != 2) return 2;
  const auto node = tutti::shm::RecordsFromOutside::open("/proc/self/fd/3");
  if (!node) return 3;
  for (std::uint32_t local = 0; local < node->ranks(); ++local)
    tutti::shm::wait_until_free(tutti::offload::kHelperDescriptor, static_cast<int>(local));
  const Ended ended = records_of(*node);
  bool killed = false;
  for (const tutti_record* record : ended) {
    if (!is_to_be_written(*record)) continue;
    write_calls(*record, argv[1]);
    killed = true;
  }
  if (killed) write_table(ended, argv[1]);
  return 0;
}
