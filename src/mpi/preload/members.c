/* Mixed jobs. If one rank of a job ran without tutti, its collectives would meet those of the
 * others in the MPI and give wrong results, so tutti acts only where every rank of the node has the
 * preload. No collective can ask that question. Each rank listens at an abstract socket before
 * PMPI_Init and looks for those of the others afterwards. PMPI_Init does not return before all
 * ranks have entered it, and each listens until a collective of tutti's has shown that all have
 * looked, or to the end: so who can look sees the same as all others, however late it is. Who
 * cannot (no descriptor, no memory, a full queue) must not take that for an absence.
 *
 * Anybody may bind such a name, so it ends with a random number: nobody can have taken it before.
 * The others find it in the kernel's list, connect, and are told by the kernel whose it is. */
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
  if (name != NULL) { /* its end tells jobs apart: the host's name comes first */
    const size_t length = strlen(name);
    return snprintf(key, size, "%s", name + (length > 60 ? length - 60 : 0)) > 0;
  }
  long server = pmi_server();
  if (server > 0) return snprintf(key, size, "%ld", server) > 0;
  if ((name = getenv("PALS_APID")) != NULL) return snprintf(key, size, "pals-%.50s", name) > 0;
  if ((name = getenv("FLUX_JOB_ID")) != NULL) return snprintf(key, size, "flux-%.50s", name) > 0;
  const char* step = getenv("SLURM_STEP_ID");
  if ((name = getenv("SLURM_JOB_ID")) == NULL || step == NULL) return 0;
  return snprintf(key, size, "slurm-%.25s.%.25s", name, step) > 0;
}

enum {
  kScanMs = 10,
  kScans = 20, /* of the kernel's list, which may pass over a name while others come and go */
  kPatienceMs = 10000, /* where it cannot look, or cannot connect, or nobody looks at it */
  kDigits = 16         /* of the random number */
};

static char prefix[96]; /* of this job's names; empty when the launcher tells too little */
static int own_socket = -1;
static int register_error; /* of tutti_register */

enum presence { kUnseen, kUnknown, kPresent };
static enum presence* ranks; /* of the node, while it listens */

static int random_name(struct sockaddr_un* address, socklen_t* length) {
  unsigned long long random;
  if (getrandom(&random, sizeof random, 0) != sizeof random) return 0;
  memset(address, 0, sizeof *address);
  address->sun_family = AF_UNIX;
  int written = snprintf(address->sun_path + 1, sizeof address->sun_path - 1, "%s%d-%0*llx", prefix,
                         local_rank(), kDigits, random);
  *length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)written);
  return 1;
}

static int new_socket(void) {
  return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

void tutti_register(void) {
  char key[64];
  if (local_size() < 2 || local_rank() < 0 || !job_key(key, sizeof key)) return;
  snprintf(prefix, sizeof prefix, "tutti-%.60s-", key);
  struct sockaddr_un address;
  socklen_t length;
  ranks = calloc((size_t)local_size(), sizeof *ranks); /* who has none must not be seen either */
  own_socket = ranks != NULL ? new_socket() : -1;
  if (own_socket >= 0 && random_name(&address, &length) &&
      bind(own_socket, (struct sockaddr*)&address, length) == 0 && listen(own_socket, 4096) == 0)
    return;
  register_error = errno; /* said by those that call MPI */
  tutti_end_registration();
}

void tutti_end_registration(void) {
  if (own_socket >= 0) close(own_socket);
  own_socket = -1;
  free(ranks);
  ranks = NULL;
}

/* The rank in a name of this job, as the kernel shows it behind a '@', or -1. */
static int rank_in(const char* name) {
  const size_t length = strlen(prefix);
  if (strncmp(name, prefix, length) != 0) return -1;
  char* end = NULL;
  const long rank = strtol(name + length, &end, 10);
  const int ours = end != name + length && *end == '-' && strlen(end + 1) == kDigits &&
                   strspn(end + 1, "0123456789abcdef") == kDigits;
  return ours && rank >= 0 && rank < local_size() ? (int)rank : -1;
}

/* In a user namespace with few users all others look like one: then it may be this one too. */
static int is_own_user(uid_t user) {
  if (user == geteuid()) return 1; /* the effective one is what the kernel tells of a socket */
  unsigned first = 0, outside = 0, users = ~0u, nobody = 65534;
  FILE* file = fopen("/proc/self/uid_map", "re");
  if (file == NULL) return 0;
  const int known = fscanf(file, "%u %u %u", &first, &outside, &users) == 3;
  fclose(file);
  return known && users != ~0u && user == nobody;
}

/* Of a connection that was asked for: of whom listens. */
static enum presence owner(int connection) {
  struct ucred peer;
  socklen_t length = sizeof peer;
  if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) return kUnknown;
  return is_own_user(peer.uid) ? kPresent : kUnseen;
}

/* Whether a rank of this user's listens under the name. */
static enum presence look_at(const char* name) {
  struct sockaddr_un address;
  memset(&address, 0, sizeof address);
  address.sun_family = AF_UNIX;
  const size_t length = strlen(name);
  if (length + 1 > sizeof address.sun_path) return kUnseen;
  memcpy(address.sun_path + 1, name, length);
  const int connection = new_socket();
  if (connection < 0) return kUnknown;
  const socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
  enum presence found = kUnknown; /* no room in its queue, no memory, no permission */
  if (connect(connection, (struct sockaddr*)&address, size) == 0) {
    found = owner(connection);
  } else if (errno == ECONNREFUSED) {
    found = kUnseen;
  }
  close(connection);
  return found;
}

/* The name of a socket of tutti's that listens, in a line of the kernel's list; else NULL. Those
 * that wait in its queue have its name, too. */
static char* listener_in(char* line) {
  enum { kListens = 1 << 16 };
  unsigned flags = 0;
  char* name = strstr(line, " @tutti-");
  if (name == NULL || sscanf(line, "%*s %*s %*s %x", &flags) != 1 || (flags & kListens) == 0)
    return NULL;
  name += 2;
  name[strcspn(name, "\n")] = '\0';
  return name;
}

/* Looks at all names that may be those of ranks that have not been found. Returns 0 when the list
 * could not be read, which says nothing of anybody. */
static int look_at_all(int size) {
  for (int rank = 0; rank < size; rank++) {
    if (ranks[rank] == kUnknown) ranks[rank] = kUnseen;
  }
  FILE* list = fopen("/proc/self/net/unix", "re");
  if (list == NULL) return errno == ENOENT; /* no /proc, for nobody on the node: nobody is seen */
  char line[512];
  while (fgets(line, sizeof line, list) != NULL) {
    const char* name = listener_in(line);
    const int rank = name != NULL ? rank_in(name) : -1;
    if (rank < 0 || ranks[rank] == kPresent) continue;
    const enum presence found = look_at(name);
    if (found > ranks[rank]) ranks[rank] = found;
  }
  const int whole = !ferror(list);
  fclose(list);
  return whole;
}

/* `members` counts connections of this user's: each rank makes one that succeeds. */
static void accept_all(int* members) {
  for (int i = 0; i < 10000; i++) {
    const int connection = accept4(own_socket, NULL, NULL, SOCK_CLOEXEC);
    if (connection < 0) return;
    *members += owner(connection) == kPresent;
    close(connection);
  }
}

static long ms_since(const struct timespec* begin) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (now.tv_sec - begin->tv_sec) * 1000 + (now.tv_nsec - begin->tv_nsec) / 1000000;
}

/* What was found: ranks that are not there, those of them that may be, and the first that is. */
struct meeting {
  int missing, unknown, lowest;
};

static struct meeting count(int size, int looked) {
  struct meeting met = {0, 0, -1};
  for (int rank = 0; rank < size; rank++) {
    met.missing += ranks[rank] != kPresent;
    met.unknown += ranks[rank] == kUnknown || (ranks[rank] == kUnseen && !looked);
    if (ranks[rank] == kPresent && met.lowest < 0) met.lowest = rank;
  }
  return met;
}

/* Goes on as long as somebody is missing, or has not looked at this rank: strangers could fill its
 * queue as soon as it takes nothing out. */
static struct meeting meet(int size) {
  struct timespec begin;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  struct meeting met = {size, size, -1};
  int members = 0, tries = 0, scans = 0; /* of the list; as a whole */
  for (;;) {
    if (met.missing != 0 && ms_since(&begin) >= tries * kScanMs) {
      tries++;
      scans += look_at_all(size);
      met = count(size, scans >= kScans);
    }
    accept_all(&members);
    if (met.missing == 0 ? members >= size : met.missing > met.unknown) return met;
    if ((met.missing == 0 || tries >= kScans) && ms_since(&begin) > kPatienceMs) return met;
    struct pollfd asked = {own_socket, POLLIN, 0};
    poll(&asked, 1, kScanMs);
  }
}

/* Processes of the MPI's world. */
static int world_size(void) {
  int size = 0;
  int (*comm_size)(handle, int*) = (int (*)(handle, int*))tutti_library_symbol("PMPI_Comm_size");
  if (comm_size != NULL) comm_size(tutti_constant_value(&tutti_library_abi()->comm_world), &size);
  return size;
}

enum tutti_registered tutti_all_registered(void) {
  if (prefix[0] == '\0') return TUTTI_REGISTERED;
  /* A world of its own inside a job of others: what the launcher says is not about it. */
  if (world_size() < local_size()) return TUTTI_REGISTERED;
  if (register_error != 0)
    tutti_say("cannot register with the other ranks of this node: %s", strerror(register_error));
  const int size = local_size();
  struct meeting met = {size, 0, -1};
  if (own_socket >= 0) met = meet(size);
  if (met.missing == 0) return TUTTI_REGISTERED;
  if (met.missing == met.unknown) {
    tutti_say(
        "cannot look whether %d of the %d ranks of this node run with tutti (no file descriptor or "
        "no memory is left, or another user keeps their sockets busy), so all use their own MPI",
        met.unknown, size);
    return TUTTI_MAY_BE_REGISTERED;
  }
  if (met.lowest == local_rank()) {
    tutti_say(
        "%d of the %d ranks of this node run without tutti (or in a network namespace of their "
        "own, "
        "where they are not seen), so all of them use their own MPI; "
        "start every executable of the job under tutti run",
        met.missing - met.unknown, size); /* those that could not be asked may be there */
  }
  return TUTTI_NOT_REGISTERED;
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
