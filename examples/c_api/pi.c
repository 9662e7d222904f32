/* Pi by numerical integration over several processes, with tutti's C API and without any MPI.
 *
 *   mkdir /tmp/pi && for r in 0 1 2 3; do ./pi /tmp/pi $r 4 & done; wait; rm -r /tmp/pi
 */
#include <stdio.h>
#include <stdlib.h>

#include "tutti/tutti.h"

static void check(tutti_status status, const char* what) {
  if (status == TUTTI_OK) return;
  fprintf(stderr, "%s: %s\n", what, tutti_status_text(status));
  exit(1);
}

int main(int argc, char** argv) {
  if (argc != 4) {
    fprintf(stderr, "usage: pi DIRECTORY RANK SIZE\n");
    return 2;
  }
  const int rank = atoi(argv[2]);
  const int size = atoi(argv[3]);

  tutti_bootstrap bootstrap;
  tutti_job* job = NULL;
  tutti_team* world = NULL;
  check(tutti_bootstrap_directory(argv[1], rank, size, &bootstrap), "bootstrap");
  check(tutti_init(&bootstrap, 0, &job), "init");
  tutti_bootstrap_free(&bootstrap);
  check(tutti_team_create(job, 1, rank, size, NULL, &world), "team");

  const long intervals = 10000000;
  double part = 0, pi = 0;
  for (long i = rank; i < intervals; i += size) {
    const double x = ((double)i + 0.5) / (double)intervals;
    part += 4.0 / (1.0 + x * x);
  }
  part /= (double)intervals;
  check(tutti_allreduce(world, &part, &pi, 1, TUTTI_DOUBLE, TUTTI_SUM), "allreduce");
  if (rank == 0) printf("pi is about %.12f\n", pi);

  check(tutti_barrier(world), "barrier"); /* nobody leaves while others may need it */
  tutti_team_free(world);
  tutti_finalize(job);
  return 0;
}
