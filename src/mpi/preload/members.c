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

static int number(const char* name) {
  const char* text = getenv(name);
  return text != NULL && text[0] >= '0' && text[0] <= '9' ? atoi(text) : -1;
}

/* The first that is set: Hydra, Open MPI, MVAPICH, PALS, Flux, Slurm. An MPI's own launcher comes
 * first, because it may run inside a job of one of the others, whose variables are there, too. */
static int first_number(const char* const* names) {
  int found = -1;
  for (; found < 0 && *names != NULL; names++) found = number(*names);
  return found;
}

static int local_rank(void) {
  static const char* const names[] = {"MPI_LOCALRANKID",
                                      "OMPI_COMM_WORLD_LOCAL_RANK",
                                      "MV2_COMM_WORLD_LOCAL_RANK",
                                      "PALS_LOCAL_RANKID",
                                      "FLUX_TASK_LOCAL_ID",
                                      "SLURM_LOCALID",
                                      NULL};
  return first_number(names);
}

static int rank_in_job(void) {
  static const char* const names[] = {
      "PMI_RANK",    "OMPI_COMM_WORLD_RANK", "PMIX_RANK",    "MV2_COMM_WORLD_RANK",
      "PALS_RANKID", "FLUX_TASK_RANK",       "SLURM_PROCID", NULL};
  return first_number(names);
}

/* Slurm's numbers of tasks by node, "2(x3),1": the one of this node. */
static int slurm_local_size(void) {
  const char* text = getenv("SLURM_STEP_TASKS_PER_NODE");
  int node = number("SLURM_NODEID");
  while (text != NULL && node >= 0 && *text >= '0' && *text <= '9') {
    char* end;
    long tasks = strtol(text, &end, 10), times = 1;
    if (strncmp(end, "(x", 2) == 0) {
      times = strtol(end + 2, &end, 10);
      if (*end == ')') end++;
    }
    if (node < times) return tasks > 0 && tasks < 1 << 20 ? (int)tasks : -1;
    node -= (int)times;
    text = *end == ',' ? end + 1 : "";
  }
  return -1;
}

static int local_size(void) {
  static const char* const names[] = {"MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE",
                                      "MV2_COMM_WORLD_LOCAL_SIZE", "PALS_LOCAL_SIZE", NULL};
  int size = first_number(names);
  if (size < 0 && number("FLUX_JOB_NNODES") == 1) size = number("FLUX_JOB_SIZE");
  return size < 0 ? slurm_local_size() : size;
}

/* The process at the other end of a PMI connection: one for all ranks of the node. */
static long pmi_server(void) {
  int fd = number("PMI_FD");
  struct ucred peer;
  socklen_t length = sizeof peer;
  if (fd < 0 || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) return 0;
  return (long)peer.pid;
}

/* Something that is the same for the ranks of this job on this node, and for nobody else: the
 * launcher's name of the job, or the process that serves its ranks. */
static int job_key(char* key, size_t size) {
  const char* name = getenv("PMIX_NAMESPACE");
  if (name != NULL) return snprintf(key, size, "%.60s", name) > 0;
  long server = pmi_server();
  if (server > 0) return snprintf(key, size, "%ld", server) > 0;
  if ((name = getenv("PALS_APID")) != NULL) return snprintf(key, size, "pals-%.50s", name) > 0;
  if ((name = getenv("FLUX_JOB_ID")) != NULL) return snprintf(key, size, "flux-%.50s", name) > 0;
  const char* step = getenv("SLURM_STEP_ID");
  if ((name = getenv("SLURM_JOB_ID")) == NULL || step == NULL) return 0;
  return snprintf(key, size, "slurm-%.25s.%.25s", name, step) > 0;
}

static socklen_t address_of(int rank, const char* key, struct sockaddr_un* address) {
  memset(address, 0, sizeof *address);
  address->sun_family = AF_UNIX;
  int length = snprintf(address->sun_path + 1, sizeof address->sun_path - 1, "tutti-%ld-%s-%d",
                        (long)getuid(), key, rank);
  return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

/* Written by tutti_register; the key is empty when the launcher tells too little. */
static char key[64];
static int register_error;

void tutti_register(void) {
  if (local_size() < 2 || local_rank() < 0 || !job_key(key, sizeof key)) {
    key[0] = '\0';
    return;
  }
  struct sockaddr_un address;
  socklen_t length = address_of(local_rank(), key, &address);
  int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0 || bind(fd, (struct sockaddr*)&address, length) != 0) {
    register_error = errno;
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

/* Processes of the MPI's world. */
static int world_size(void) {
  int size = 0;
  int (*comm_size)(handle, int*) = (int (*)(handle, int*))tutti_library_symbol("PMPI_Comm_size");
  if (comm_size != NULL) comm_size(tutti_constant_value(&tutti_library_abi()->comm_world), &size);
  return size;
}

int tutti_all_registered(void) {
  if (key[0] == '\0') return 1;
  /* A world of its own inside a job of others: what the launcher says is not about it. */
  if (world_size() < local_size()) return 1;
  if (register_error != 0) {
    tutti_say("cannot register with the other ranks of this node: %s", strerror(register_error));
  }
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

int tutti_speaks_for_node(void) {
  int local = local_rank();
  return local >= 0 ? local == 0 : rank_in_job() <= 0;
}
