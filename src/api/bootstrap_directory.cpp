// A bootstrap through files: every exchange is a file per rank, made visible by rename.
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <new>
#include <string>

#include "tutti/tutti.h"

namespace {

constexpr int kTimeoutSeconds = 60;

struct DirectoryBootstrap {
  std::string directory;
  int rank;
  int size;
  int round = 0;

  std::string path(int of_round, int of_rank) const {
    return directory + "/tutti." + std::to_string(of_round) + "." + std::to_string(of_rank);
  }
};

bool write_file(const std::string& path, const void* data, size_t bytes) {
  const std::string unfinished = path + ".part";
  std::FILE* file = std::fopen(unfinished.c_str(), "wxe");
  if (file == nullptr) return false;
  const bool written = std::fwrite(data, 1, bytes, file) == bytes;
  return std::fclose(file) == 0 && written && std::rename(unfinished.c_str(), path.c_str()) == 0;
}

/// Waits for the file, then reads exactly `bytes`.
bool read_file(const std::string& path, void* data, size_t bytes) {
  std::FILE* file = nullptr;
  for (int tries = 0; (file = std::fopen(path.c_str(), "re")) == nullptr; ++tries) {
    if (tries > kTimeoutSeconds * 1000) return false;
    const timespec pause{0, 1'000'000};
    nanosleep(&pause, nullptr);
  }
  const bool read = std::fread(data, 1, bytes, file) == bytes && std::fgetc(file) == EOF;
  std::fclose(file);
  return read;
}

int allgather(void* self, const void* in, void* out, size_t bytes) {
  auto& b = *static_cast<DirectoryBootstrap*>(self);
  if (!write_file(b.path(b.round, b.rank), in, bytes)) return 1;
  for (int peer = 0; peer < b.size; ++peer) {
    auto* place = static_cast<char*>(out) + bytes * static_cast<size_t>(peer);
    if (!read_file(b.path(b.round, peer), place, bytes)) return 1;
  }
  // Who has entered round r has read all of round r - 1, so round r - 2 is no longer needed by
  // anybody.
  if (b.round >= 2) unlink(b.path(b.round - 2, b.rank).c_str());
  ++b.round;
  return 0;
}

}  // namespace

extern "C" {

tutti_status tutti_bootstrap_directory(const char* directory, int rank, int size,
                                       tutti_bootstrap* out) {
  if (directory == nullptr || out == nullptr || size < 1 || rank < 0 || rank >= size)
    return TUTTI_ERR_ARGUMENT;
  struct stat info;
  if (stat(directory, &info) != 0 || !S_ISDIR(info.st_mode)) return TUTTI_ERR_ARGUMENT;
  auto* bootstrap = new (std::nothrow) DirectoryBootstrap{directory, rank, size};
  if (bootstrap == nullptr) return TUTTI_ERR_NO_MEMORY;
  *out = tutti_bootstrap{rank, size, bootstrap, &allgather, nullptr};
  return TUTTI_OK;
}

void tutti_bootstrap_free(tutti_bootstrap* bootstrap) {
  if (bootstrap == nullptr || bootstrap->allgather != &allgather) return;
  auto* b = static_cast<DirectoryBootstrap*>(bootstrap->self);
  // Each round but the last is known to have been read by all when the farewell is through.
  const char farewell = 1;
  std::string all(static_cast<size_t>(b->size), '\0');
  if (allgather(b, &farewell, all.data(), 1) == 0 && b->round >= 2)
    unlink(b->path(b->round - 2, b->rank).c_str());
  delete b;
  *bootstrap = tutti_bootstrap{};
}

}  // extern "C"
