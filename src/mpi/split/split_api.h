/* What the plugin tells libtutti-split. Plain C, the same for every ABI. */
#ifndef TUTTI_MPI_SPLIT_API_H_
#define TUTTI_MPI_SPLIT_API_H_

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tutti_split {
  void* world;           /* MPI_COMM_WORLD */
  void* apps;            /* the communicator of the program's processes, which stands in for it */
  size_t handle_bytes;   /* of an MPI_Comm: 4, or that of a pointer */
  const int* processors; /* ranks of the dedicated processors in MPI_COMM_WORLD; copied */
  int processor_count;
};

#define TUTTI_SPLIT_BEGIN "tutti_split_begin"
#define TUTTI_SPLIT_END "tutti_split_end"

/* From now on the program's calls on the world go to `apps`. Called once, inside MPI_Init. Returns
 * 0 when there is no memory. */
typedef int tutti_split_begin_function(const struct tutti_split* split);
/* No more; inside MPI_Finalize, when nothing of the program's is under way. */
typedef void tutti_split_end_function(void);

#ifdef __cplusplus
}
#endif

#endif
