/* otattn_mpi.h: a communicator (otattn.h) over MPI, in a library of its own, libotattn_mpi.
 *
 *     MPI_Init(&argc, &argv);
 *     ota_mpi *engine;
 *     if (ota_mpi_open(&engine, NULL, 60.0, &error) < 0) ...
 *     ota_communicator with = ota_mpi_communicator(engine, OTA_SHARES_IN_ORDER);
 *     ota_options options = {.size = sizeof options, .communicator = &with};
 *     ...  ota_plan_create, ota_forward, as every other rank does  ...
 *     ota_mpi_close(engine);
 *
 * Open MPI or MPICH; the header needs neither. Sources: the communicator of otattn.h. */
#ifndef OTATTN_MPI_H
#define OTATTN_MPI_H

#include "otattn.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ota_mpi ota_mpi;

/* An engine on a duplicate of *comm, a pointer to an MPI_Comm, or NULL for MPI_COMM_WORLD; every rank of it makes the call.
 * `timeout` is in seconds and more than 0: a message that takes longer fails on the rank that waits, with OTA_ECOMM
 * and code -1; other codes are MPI's own. MPI must be running and, where threads of the caller use it too, begun with
 * MPI_THREAD_MULTIPLE. OTA_OK; OTA_EINVAL without MPI or with a timeout that is not positive; OTA_ENOMEM; OTA_ECOMM.
 * Sums and gathers that were begun cannot be taken back: after OTA_ECOMM MPI may still write to memory of the plan, which is
 * to be kept until MPI_Abort or MPI_Finalize. */
OTA_API ota_status ota_mpi_open(ota_mpi **engine, const void *comm, double timeout,
                                ota_error *error);
/* Rank, size and calls; valid until the engine is closed. */
OTA_API ota_communicator ota_mpi_communicator(ota_mpi *engine, ota_shares shares);
/* Frees the engine; NULL is fine. After a failure the duplicate stays with MPI, for nobody would meet this rank there. */
OTA_API void ota_mpi_close(ota_mpi *engine);

#ifdef __cplusplus
}
#endif
#endif
