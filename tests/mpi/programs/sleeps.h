/* How often a process's other threads go to sleep. With _GNU_SOURCE. */
#ifndef TUTTI_TESTS_MPI_SLEEPS_H_
#define TUTTI_TESTS_MPI_SLEEPS_H_

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static void pause_ms(long ms) {
  const struct timespec time = {ms / 1000, ms % 1000 * 1000000};
  nanosleep(&time, NULL);
}

static long sleeps_of(const char* thread) {
  char path[300], line[200];
  long count = 0;
  snprintf(path, sizeof path, "/proc/self/task/%s/status", thread);
  FILE* file = fopen(path, "r");
  while (file && fgets(line, sizeof line, file))
    if (sscanf(line, "voluntary_ctxt_switches: %ld", &count) == 1) break;
  if (file) fclose(file);
  return count;
}

/* Of all threads but the one that calls. */
static long sleeps_beside(void) {
  long count = 0;
  DIR* folder = opendir("/proc/self/task");
  for (struct dirent* entry; folder && (entry = readdir(folder));)
    if (entry->d_name[0] != '.' && atoi(entry->d_name) != (int)gettid())
      count += sleeps_of(entry->d_name);
  if (folder) closedir(folder);
  return count;
}

#endif
