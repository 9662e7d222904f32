/* What the plugin tells libtutti-revoke. Plain C. */
#ifndef TUTTI_MPI_REVOKE_API_H_
#define TUTTI_MPI_REVOKE_API_H_

#ifdef __cplusplus
extern "C" {
#endif

/* Called with the communicator that the program revokes, before the MPI is. Returns the one that
 * the MPI must revoke: another where processors were taken from the job. Thread-safe. */
typedef void* tutti_revoked_function(void* comm);

#define TUTTI_SET_REVOKED "tutti_set_revoked"

/* Who is to be called; NULL for nobody. Called inside MPI_Init and MPI_Finalize. */
typedef void tutti_set_revoked_function(tutti_revoked_function* revoked);

#ifdef __cplusplus
}
#endif

#endif
