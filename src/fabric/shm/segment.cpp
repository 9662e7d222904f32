#include "fabric/shm/segment.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <new>

namespace tutti::shm {
namespace {

constexpr std::uint64_t kMagic = 0x7475747469303031;  // "tutti001"
constexpr std::size_t kPage = 4096;
constexpr std::size_t kLargestPage = 65536;  // of any system

std::size_t round_up(std::size_t value, std::size_t step) {
  return (value + step - 1) / step * step;
}

std::size_t records_offset(std::uint32_t ranks) {
  return round_up(round_up(sizeof(NodeHeader), alignof(NodeSlot)) + ranks * sizeof(NodeSlot),
                  kLargestPage);
}

/// Records are mapped by themselves, too.
std::size_t arenas_offset(std::uint32_t ranks) {
  return round_up(records_offset(ranks) + ranks * std::size_t{kRecordBytes}, kLargestPage);
}

/// Memory, now: what is missing later kills whoever touches it. Gives an errno.
int back(int descriptor, std::size_t offset, std::size_t bytes) {
  int error;
  do {
    error = posix_fallocate(descriptor, static_cast<off_t>(offset), static_cast<off_t>(bytes));
  } while (error == EINTR);
  return error;
}

/// All in front of the arenas but the rest of each record.
int back_head(int descriptor, std::uint32_t ranks) {
  int error = back(descriptor, 0, records_offset(ranks));
  for (std::uint32_t local = 0; local < ranks && error == 0; ++local)
    error = back(descriptor, records_offset(ranks) + local * std::size_t{kRecordBytes},
                 kRecordHeadBytes);
  return error;
}

/// A file in /dev/shm whose name is gone before anybody could open it: random, exclusive, unlinked
/// at once.
int open_unlinked() {
  std::uint64_t random[2];
  if (getrandom(random, sizeof random, 0) != sizeof random) return -1;
  char name[64];
  std::snprintf(name, sizeof name, "/tutti-%016" PRIx64 "%016" PRIx64, random[0], random[1]);
  const int descriptor = shm_open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (descriptor >= 0) shm_unlink(name);
  return descriptor;
}

int open_file(SegmentKind kind) {
  if (kind == SegmentKind::memfd) {
#if !defined(MFD_NOEXEC_SEAL)
    constexpr unsigned kNotExecutable = 8;
#else
    constexpr unsigned kNotExecutable = MFD_NOEXEC_SEAL;
#endif
    // Some systems insist on it (vm.memfd_noexec), and kernels before 6.3 do not know it.
    int descriptor = memfd_create("tutti", MFD_CLOEXEC | kNotExecutable);
    if (descriptor < 0 && errno == EINVAL) descriptor = memfd_create("tutti", MFD_CLOEXEC);
    if (descriptor >= 0) {
      fchmod(descriptor, 0600);
      return descriptor;
    }
    if (errno != ENOSYS && errno != EPERM) return -1;
  }
  return open_unlinked();
}

}  // namespace

Segment::~Segment() {
  if (base_ != nullptr) munmap(base_, bytes_);
  if (descriptor_ >= 0) close(descriptor_);
}

NodeSlot& Segment::slot(int local) noexcept {
  auto* first = base_ + round_up(sizeof(NodeHeader), alignof(NodeSlot));
  return reinterpret_cast<NodeSlot*>(first)[local];
}

std::byte* Segment::arena(int local) noexcept {
  return base_ + arenas_offset(header().ranks) +
         static_cast<std::size_t>(local) * header().arena_bytes;
}

std::byte* Segment::map_records() const noexcept {
  const std::size_t bytes = header().ranks * std::size_t{kRecordBytes};
  void* const base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_,
                          static_cast<off_t>(header().records_offset));
  return base == MAP_FAILED ? nullptr : static_cast<std::byte*>(base);
}

Status Segment::map(std::size_t bytes) noexcept {
  void* base =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, descriptor_, 0);
  if (base == MAP_FAILED) return Status::error(Code::no_memory, "cannot map the shared segment");
  // A child of fork() must not write into the job's memory; it gets none of it.
  madvise(base, bytes, MADV_DONTFORK);
  base_ = static_cast<std::byte*>(base);
  bytes_ = bytes;
  return Status::success();
}

Status Segment::create(SegmentKind kind, int ranks, std::size_t arena_bytes,
                       std::unique_ptr<Segment>* out, std::string* message) {
  std::unique_ptr<Segment> segment(new (std::nothrow) Segment());
  if (!segment) return Status::error(Code::no_memory, "out of memory");
  arena_bytes = round_up(arena_bytes, kPage);
  segment->descriptor_ = open_file(kind);
  if (segment->descriptor_ < 0) {
    *message = std::string("cannot create the shared segment: ") + std::strerror(errno);
    return Status::error(Code::not_permitted, "cannot create the shared segment");
  }
  const std::size_t bytes = arenas_offset(static_cast<std::uint32_t>(ranks)) +
                            static_cast<std::size_t>(ranks) * arena_bytes;
  if (ftruncate(segment->descriptor_, static_cast<off_t>(bytes)) != 0) {
    *message = std::string("cannot size the shared segment: ") + std::strerror(errno) +
               "; a smaller TUTTI_ARENA would help";
    return Status::error(Code::no_memory, "cannot size the shared segment");
  }
  if (const int error = back_head(segment->descriptor_, static_cast<std::uint32_t>(ranks));
      error != 0) {
    *message = std::string("no room for the shared segment: ") + std::strerror(error) +
               (kind == SegmentKind::posix ? "; enlarge /dev/shm or use TUTTI_SEGMENT=memfd"
                                           : "; the memory limit of this job is reached");
    return Status::error(Code::no_memory, "no room for the shared segment");
  }
  TUTTI_TRY(segment->map(bytes));
  auto* header = new (segment->base_) NodeHeader{};
  header->ranks = static_cast<std::uint32_t>(ranks);
  header->arena_bytes = arena_bytes;
  header->record_bytes = kRecordBytes;
  header->records_offset = records_offset(header->ranks);
  for (int i = 0; i < ranks; ++i) new (&segment->slot(i)) NodeSlot{};
  header->magic = kMagic;
  *out = std::move(segment);
  return Status::success();
}

Status Segment::adopt(int descriptor, std::unique_ptr<Segment>* out) {
  std::unique_ptr<Segment> segment(new (std::nothrow) Segment());
  if (!segment) {
    close(descriptor);
    return Status::error(Code::no_memory, "out of memory");
  }
  segment->descriptor_ = descriptor;
  struct stat info;
  if (fstat(descriptor, &info) != 0 ||
      static_cast<std::size_t>(info.st_size) < sizeof(NodeHeader)) {
    return Status::error(Code::corrupt, "the shared segment has the wrong size");
  }
  TUTTI_TRY(segment->map(static_cast<std::size_t>(info.st_size)));
  const NodeHeader& header = segment->header();
  if (header.magic != kMagic || header.ranks == 0 ||
      segment->bytes_ != arenas_offset(header.ranks) + header.ranks * header.arena_bytes) {
    return Status::error(Code::corrupt, "the shared segment is not one of this version");
  }
  *out = std::move(segment);
  return Status::success();
}

namespace {

struct flock lock_of(int local) noexcept {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = local;
  lock.l_len = 1;
  return lock;
}

}  // namespace

// The process's own locks (not the descriptor's, which is the same on all ranks): the kernel drops
// them when the process ends, however it does.
bool Segment::hold(int local) noexcept {
  struct flock lock = lock_of(local);
  return fcntl(descriptor_, F_SETLK, &lock) == 0;
}

bool Segment::is_held(int local) const noexcept {
  struct flock lock = lock_of(local);
  return fcntl(descriptor_, F_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

void wait_until_free(int descriptor, int local) noexcept {
  struct flock lock = lock_of(local);
  int code = 0;
  while ((code = fcntl(descriptor, F_SETLKW, &lock)) != 0 && errno == EINTR) {
  }
  if (code != 0) return;
  lock.l_type = F_UNLCK;  // at once: others look whether the rank holds it
  fcntl(descriptor, F_SETLK, &lock);
}

namespace {

/// Makes the kernel clear and map pages at once, which otherwise happens at their first use: one
/// fault a page here, and one in each reader, which then gets the neighbouring pages with it. An
/// older kernel (before 5.14) refuses, and the faults come as before.
void populate(std::byte* begin, std::size_t bytes) noexcept {
#ifndef MADV_POPULATE_WRITE
  constexpr int MADV_POPULATE_WRITE = 23;  // of older headers
#endif
  const std::size_t into_page =
      reinterpret_cast<std::uintptr_t>(begin) % static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  static_cast<void>(madvise(begin - into_page, bytes + into_page, MADV_POPULATE_WRITE));
}

}  // namespace

Status Segment::reserve(int local, std::size_t offset, std::size_t bytes) noexcept {
  if (offset > arena_bytes() || bytes > arena_bytes() - offset) {
    return Status::error(Code::no_memory, "the arena is full: TUTTI_ARENA is too small");
  }
  const std::size_t start = static_cast<std::size_t>(arena(local) - base_) + offset;
  if (back(descriptor_, start, bytes) != 0)
    return Status::error(Code::no_memory, "no shared memory left on this node");
  populate(base_ + start, bytes);
  return Status::success();
}

bool Segment::back_record(int local) noexcept {
  const std::size_t start = records_offset(header().ranks) +
                            static_cast<std::size_t>(local) * kRecordBytes + kRecordHeadBytes;
  return back(descriptor_, start, kRecordBytes - kRecordHeadBytes) == 0;
}

RecordsFromOutside::~RecordsFromOutside() {
  if (base_ != nullptr) munmap(const_cast<std::byte*>(base_), ranks_ * std::size_t{kRecordBytes});
}

std::unique_ptr<RecordsFromOutside> RecordsFromOutside::open(const char* path) noexcept {
  std::unique_ptr<RecordsFromOutside> records(new (std::nothrow) RecordsFromOutside());
  const int descriptor = ::open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (!records || descriptor < 0) {
    if (descriptor >= 0) close(descriptor);
    return nullptr;
  }
  NodeHeader header{};
  struct stat info;
  constexpr std::size_t kKnown = offsetof(NodeHeader, sleepers);  // what is written once
  const bool read = pread(descriptor, &header, kKnown, 0) == static_cast<ssize_t>(kKnown) &&
                    fstat(descriptor, &info) == 0;
  if (read && header.magic == kMagic && header.record_bytes == kRecordBytes && header.ranks != 0 &&
      header.records_offset == records_offset(header.ranks) &&
      arenas_offset(header.ranks) <= static_cast<std::uint64_t>(info.st_size)) {
    const std::size_t bytes = header.ranks * std::size_t{kRecordBytes};
    void* const base = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, descriptor,
                            static_cast<off_t>(header.records_offset));
    if (base != MAP_FAILED) {
      records->base_ = static_cast<const std::byte*>(base);
      records->ranks_ = header.ranks;
    }
  }
  close(descriptor);
  return records->base_ != nullptr ? std::move(records) : nullptr;
}

}  // namespace tutti::shm
