/* What MPI_Win_test says after a barrier that follows an epoch's end: natively the barrier has
 * often let the MPI see it, and programs count on that. */
#include "check.h"

int main(int argc, char** argv) {
  int rank;
  int* memory;
  MPI_Win window;
  MPI_Group all, origins;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Win_allocate(sizeof *memory, sizeof *memory, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
  MPI_Win_get_group(window, &all);
  const int first = 0;
  if (rank == 0) {
    MPI_Group_excl(all, 1, &first, &origins);
  } else {
    MPI_Group_incl(all, 1, &first, &origins);
  }
  for (int turn = 0; turn < 200; turn++) {
    int flag = 1;
    if (rank != 0) {
      MPI_Win_post(origins, 0, window);
      MPI_Win_test(window, &flag);
      CHECK(!flag, "turn %d: ended before it began", turn);
    } else {
      MPI_Win_start(origins, 0, window);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) MPI_Win_complete(window);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank != 0) {
      MPI_Win_test(window, &flag);
      CHECK(flag, "turn %d: not seen to have ended", turn);
      if (!flag) MPI_Win_wait(window);
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }
  MPI_Group_free(&origins);
  MPI_Group_free(&all);
  MPI_Win_free(&window);
  return finish("window");
}
