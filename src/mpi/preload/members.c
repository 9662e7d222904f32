/* Mixed jobs. If one rank of a job ran without tutti, its collectives would meet those of the
 * others in the MPI and give wrong results, so tutti acts only where every rank of the node has the
 * preload. No collective can ask that question. Each rank binds an abstract socket before
 * PMPI_Init and greets those of the others afterwards: PMPI_Init does not return before all ranks
 * have entered it.
 *
 * Anybody may bind such a name, so half of it is random: nobody can have taken it before. The
 * others find it in the kernel's list, and believe a greeting only when the kernel says that it
 * comes from a process of this user. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
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

enum { kWaitMs = 3000, kScanMs = 10 };

/* What is known of the local ranks. By one thread, between tutti_register and
 * tutti_all_registered. */
struct member {
  int greeted, heard;
  struct sockaddr_un address; /* of one that was heard */
  socklen_t length;
};
static char prefix[96]; /* of this job's names; empty when the launcher tells too little */
static int own_socket = -1;

static int random_name(struct sockaddr_un* address, socklen_t* length) {
  unsigned long long random[2];
  if (getrandom(random, sizeof random, 0) != sizeof random) return 0;
  memset(address, 0, sizeof *address);
  address->sun_family = AF_UNIX;
  int written = snprintf(address->sun_path + 1, sizeof address->sun_path - 1, "%s%d-%016llx",
                         prefix, local_rank(), random[0] ^ random[1]);
  *length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)written);
  return 1;
}

static int register_error; /* of tutti_register */

void tutti_register(void) {
  char key[64];
  if (local_size() < 2 || local_rank() < 0 || !job_key(key, sizeof key)) return;
  snprintf(prefix, sizeof prefix, "tutti-%.60s-", key);
  struct sockaddr_un address;
  socklen_t length;
  const int on = 1;
  own_socket = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (own_socket >= 0 && setsockopt(own_socket, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) == 0 &&
      random_name(&address, &length) && bind(own_socket, (struct sockaddr*)&address, length) == 0)
    return;
  register_error = errno; /* said by those that call MPI */
  if (own_socket >= 0) close(own_socket);
  own_socket = -1;
}

/* The rank in a name of this job, as the kernel shows it behind a '@', or -1. */
static int rank_in(const char* name) {
  const size_t length = strlen(prefix);
  if (strncmp(name, prefix, length) != 0) return -1;
  char* end = NULL;
  const long rank = strtol(name + length, &end, 10);
  return end != name + length && *end == '-' && rank >= 0 && rank < local_size() ? (int)rank : -1;
}

/* Returns 0 where its queue is full, which has room again at the next attempt. Who has closed its
 * socket needs no greeting any more: it has heard everybody. */
static int greet(const struct sockaddr_un* to, socklen_t length) {
  const int own = local_rank();
  return sendto(own_socket, &own, sizeof own, MSG_NOSIGNAL, (const struct sockaddr*)to, length) ==
             sizeof own ||
         errno == ECONNREFUSED || errno == ENOENT;
}

static void answer(struct member* member) {
  if (!member->greeted) member->greeted = greet(&member->address, member->length);
}

/* Greets all sockets whose names may be those of ranks that have not been heard. */
static void greet_all(struct member* members) {
  FILE* list = fopen("/proc/self/net/unix", "re");
  if (list == NULL) return; /* the others greet this one, and are answered */
  char line[512];
  while (fgets(line, sizeof line, list) != NULL) {
    char* name = strstr(line, " @tutti-");
    if (name == NULL) continue;
    name += 2;
    name[strcspn(name, "\n")] = '\0';
    const int rank = rank_in(name);
    if (rank < 0 || members[rank].heard) continue;
    struct sockaddr_un address;
    memset(&address, 0, sizeof address);
    address.sun_family = AF_UNIX;
    const size_t length = strlen(name);
    if (length + 1 > sizeof address.sun_path) continue;
    memcpy(address.sun_path + 1, name, length);
    greet(&address, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length));
  }
  fclose(list);
}

/* In a user namespace with few users all others look like one: then it may be this one too. */
static int is_own_user(uid_t user) {
  if (user == getuid()) return 1;
  unsigned first = 0, outside = 0, users = ~0u, nobody = 65534;
  FILE* file = fopen("/proc/self/uid_map", "re");
  if (file == NULL) return 0;
  const int known = fscanf(file, "%u %u %u", &first, &outside, &users) == 3;
  fclose(file);
  return known && users != ~0u && user == nobody;
}

/* Takes one greeting: from now on the name of its rank is known for certain. Returns 0 when there
 * is none. */
static int hear(struct member* members) {
  int rank = -1;
  struct sockaddr_un from;
  struct iovec data = {&rank, sizeof rank};
  union {
    char bytes[CMSG_SPACE(sizeof(struct ucred))];
    struct cmsghdr alignment;
  } control;
  struct msghdr message;
  memset(&message, 0, sizeof message);
  message.msg_name = &from;
  message.msg_namelen = sizeof from;
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = &control;
  message.msg_controllen = sizeof control;
  const ssize_t came = recvmsg(own_socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (came < 0) return 0;
  const struct cmsghdr* header = CMSG_FIRSTHDR(&message);
  struct ucred sender;
  if (came != sizeof rank || header == NULL || header->cmsg_type != SCM_CREDENTIALS) return 1;
  memcpy(&sender, CMSG_DATA(header), sizeof sender);
  char name[sizeof from.sun_path + 1] = "";
  const size_t start = offsetof(struct sockaddr_un, sun_path) + 1;
  if (message.msg_namelen > start)
    memcpy(name, from.sun_path + 1, (size_t)message.msg_namelen - start);
  if (!is_own_user(sender.uid) || rank < 0 || rank_in(name) != rank || members[rank].heard)
    return 1;
  members[rank].heard = 1;
  members[rank].address = from;
  members[rank].length = message.msg_namelen;
  return 1;
}

static int count_missing(const struct member* members, int size, int* lowest) {
  int missing = 0;
  *lowest = -1;
  for (int rank = 0; rank < size; rank++) {
    if (members[rank].heard) {
      if (*lowest < 0) *lowest = rank;
    } else {
      missing++;
    }
  }
  return missing;
}

/* Returns 0 when somebody who was heard cannot be told of this rank yet. */
static int answer_all(struct member* members, int size) {
  int all = 1;
  for (int rank = 0; rank < size; rank++) {
    if (members[rank].heard) answer(&members[rank]);
    all = all && members[rank].greeted;
  }
  return all;
}

/* Goes on as long as somebody is missing, or has not been told of this rank. */
static int meet(struct member* members, int size, int* lowest) {
  struct timespec begin, now;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  long scanned = -kScanMs, passed = 0;
  int missing = size;
  while (passed < kWaitMs) {
    if (passed - scanned >= kScanMs) {
      greet_all(members);
      scanned = passed;
    }
    for (int i = 0; i < 1000 && hear(members); i++) continue;
    missing = count_missing(members, size, lowest);
    if (answer_all(members, size) && missing == 0) return 0;
    struct pollfd heard = {own_socket, POLLIN, 0};
    poll(&heard, 1, kScanMs);
    clock_gettime(CLOCK_MONOTONIC, &now);
    passed = (now.tv_sec - begin.tv_sec) * 1000 + (now.tv_nsec - begin.tv_nsec) / 1000000;
  }
  return missing;
}

/* Processes of the MPI's world. */
static int world_size(void) {
  int size = 0;
  int (*comm_size)(handle, int*) = (int (*)(handle, int*))tutti_library_symbol("PMPI_Comm_size");
  if (comm_size != NULL) comm_size(tutti_constant_value(&tutti_library_abi()->comm_world), &size);
  return size;
}

int tutti_all_registered(void) {
  if (prefix[0] == '\0') return 1;
  /* A world of its own inside a job of others: what the launcher says is not about it. */
  if (world_size() < local_size()) return 1;
  if (register_error != 0)
    tutti_say("cannot register with the other ranks of this node: %s", strerror(register_error));
  const int size = local_size();
  int lowest = -1, missing = size;
  struct member* members = calloc((size_t)size, sizeof *members);
  if (members != NULL && own_socket >= 0) missing = meet(members, size, &lowest);
  free(members);
  if (own_socket >= 0) close(own_socket);
  own_socket = -1;
  if (missing != 0 && lowest == local_rank()) {
    tutti_say(
        "%d of the %d ranks of this node run without tutti (or in a network namespace of their "
        "own, "
        "where they are not seen), so all of them use their own MPI; "
        "start every executable of the job under tutti run",
        missing, size);
  }
  return missing == 0;
}

int tutti_launched_apart(void) {
  static const char* const names[] = {
      "PMI_SIZE",      "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE",
      "FLUX_JOB_SIZE", "SLURM_STEP_NUM_TASKS", NULL};
  const int launched = first_number(names);
  return launched > 1 && world_size() == 1 ? launched : 0;
}

int tutti_speaks_for_node(void) {
  int local = local_rank();
  return local >= 0 ? local == 0 : rank_in_job() <= 0;
}
