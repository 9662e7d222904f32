/* Mixed jobs. If one rank of a job ran without tutti, its collectives would meet those of the
 * others in the MPI and give wrong results, so tutti acts only where every rank of the node has the
 * preload. No collective can ask that question. Each rank binds an abstract socket before
 * PMPI_Init, whose name holds the job and its local rank, and looks for those of the others
 * afterwards: PMPI_Init does not return before all ranks have entered it. The kernel removes the
 * name with the process. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "mpi/preload/preload.h"

static int number_in(const char* first, const char* second) {
  const char* text = getenv(first);
  if (text == NULL) text = getenv(second);
  return text != NULL && text[0] >= '0' && text[0] <= '9' ? atoi(text) : -1;
}

static int local_size(void) { return number_in("MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE"); }
static int local_rank(void) { return number_in("MPI_LOCALRANKID", "OMPI_COMM_WORLD_LOCAL_RANK"); }

/* Something that is the same for the ranks of this job on this node, and for nobody else: PMIx's
 * name of the job, or the process that holds the other end of Hydra's PMI connection. */
static int job_key(char* key, size_t size) {
  const char* name = getenv("PMIX_NAMESPACE");
  if (name != NULL) return snprintf(key, size, "%.60s", name) > 0;
  int fd = number_in("PMI_FD", "PMI_FD");
  struct ucred peer;
  socklen_t length = sizeof peer;
  if (fd < 0 || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0 || peer.pid <= 0)
    return 0;
  return snprintf(key, size, "%ld", (long)peer.pid) > 0;
}

static socklen_t address_of(int rank, const char* key, struct sockaddr_un* address) {
  memset(address, 0, sizeof *address);
  address->sun_family = AF_UNIX;
  int length = snprintf(address->sun_path + 1, sizeof address->sun_path - 1, "tutti-%ld-%s-%d",
                        (long)getuid(), key, rank);
  return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

static char key[64]; /* written by tutti_register, empty when the launcher tells too little */

void tutti_register(void) {
  if (local_size() < 2 || local_rank() < 0 || !job_key(key, sizeof key)) {
    key[0] = '\0';
    return;
  }
  struct sockaddr_un address;
  socklen_t length = address_of(local_rank(), key, &address);
  int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0 || bind(fd, (struct sockaddr*)&address, length) != 0) {
    tutti_say("cannot register with the other ranks of this node: %s", strerror(errno));
    if (fd >= 0) close(fd);
  }
  /* The socket stays open, for that is what keeps the name, until the process ends. */
}

static int is_registered(int rank) {
  struct sockaddr_un address;
  socklen_t length = address_of(rank, key, &address);
  int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return 0;
  int found = connect(fd, (struct sockaddr*)&address, length) == 0;
  close(fd);
  return found;
}

int tutti_all_registered(void) {
  if (key[0] == '\0') return 1;
  const struct timespec pause = {0, 10 * 1000 * 1000};
  int missing = 0, lowest = -1, size = local_size();
  for (int attempt = 0; attempt < 300; attempt++) {
    missing = 0;
    lowest = -1;
    for (int rank = 0; rank < size; rank++) {
      if (is_registered(rank)) {
        if (lowest < 0) lowest = rank;
      } else {
        missing++;
      }
    }
    if (missing == 0) return 1;
    nanosleep(&pause, NULL);
  }
  if (lowest == local_rank()) {
    tutti_say(
        "%d of the %d ranks of this node run without tutti, so all of them use their own MPI; "
        "start every executable of the job under tutti run",
        missing, size);
  }
  return 0;
}

int tutti_speaks_for_node(void) { return local_rank() <= 0; }
