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
 * Open MPI or MPICH; the header needs neither. */
#ifndef OTATTN_MPI_H
#define OTATTN_MPI_H

#include "otattn.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An engine: a duplicate of an MPI communicator, and how long to wait. */
typedef struct ota_mpi ota_mpi;

/* Makes an engine on a duplicate of *comm, `comm` pointing to an MPI_Comm, or of MPI_COMM_WORLD where `comm` is NULL; every rank
 * of it makes the call. `timeout` is in seconds and more than 0: where a message takes longer, the call that waits for it ends
 * with OTA_ECOMM, and its sentence with code -1; other codes are MPI's own. MPI must be running and, where other threads use it
 * at the same time, begun with MPI_THREAD_MULTIPLE. OTA_OK; OTA_EINVAL without MPI or with a timeout that is not positive;
 * OTA_ENOMEM; OTA_ECOMM; *engine is NULL on failure.
 * Sums and gathers that were begun cannot be taken back: after OTA_ECOMM MPI may still write to memory of the plan, which is
 * to be kept until MPI_Abort or MPI_Finalize. */
OTA_API ota_status ota_mpi_open(ota_mpi **engine, const void *comm, double timeout,
                                ota_error *error);
/* What goes into ota_options.communicator: rank, number of ranks, the calls, and `shares`; of use until the engine is closed. */
OTA_API ota_communicator ota_mpi_communicator(ota_mpi *engine, ota_shares shares);
/* Frees the engine; NULL is fine. Every rank makes the call, before MPI_Finalize. After a failure it waits for no rank, and the
 * duplicate stays with MPI. */
OTA_API void ota_mpi_close(ota_mpi *engine);

#ifdef __cplusplus
}
#endif
#endif
