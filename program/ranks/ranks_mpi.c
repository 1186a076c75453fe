/* The processes of mpirun by MPI. The library is only begun where the launcher's variables are set: on its own
 * it would look for daemons and networks, which takes time and fails in closed rooms. */
#include <mpi.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "otattn_mpi.h"
#include "ranks.h"
#include "program/program.h"

enum { PART = 1 << 30 }; /* MPI counts in int */

/* Has begin been called, and end not yet? MPI keeps that itself. */
static bool running(void) {
    int begun = 0, ended = 0;
    (void)MPI_Initialized(&begun);
    (void)MPI_Finalized(&ended);
    return begun && !ended;
}

static bool launched(void) {
    static const char *const variables[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK"};
    for (size_t k = 0; k < sizeof variables / sizeof *variables; k++)
        if (getenv(variables[k]) != NULL) return true;
    return false;
}

const char *cli_ranks_library(char *text, size_t size) {
    char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0;
    (void)MPI_Get_library_version(version, &length);
    version[strcspn(version, ",\n")] = '\0';
    (void)snprintf(text, size, "%s", version[0] != '\0' ? version : "MPI");
    return text;
}

int cli_ranks_begin(void) {
    if (running() || !launched()) return 0;
    return MPI_Init(NULL, NULL) == MPI_SUCCESS ? 0 : CLI_EXIT_INTERNAL;
}

const char *cli_ranks_reason(void) { return "the processes of mpirun do not start"; }

int cli_ranks_rank(void) {
    int rank = 0;
    if (running()) (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return rank;
}

int cli_ranks_size(void) {
    int size = 1;
    if (running()) (void)MPI_Comm_size(MPI_COMM_WORLD, &size);
    return size;
}

int cli_ranks_agree(int code) {
    int worst = code;
    if (running()) (void)MPI_Allreduce(&code, &worst, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    return worst;
}

void cli_ranks_share(void *bytes, size_t size) {
    if (!running()) return;
    for (size_t done = 0; done < size; done += PART) {
        const size_t part = size - done < PART ? size - done : PART;
        (void)MPI_Bcast((char *)bytes + done, (int)part, MPI_BYTE, 0, MPI_COMM_WORLD);
    }
}

void cli_ranks_give(int to, const void *bytes, size_t size) {
    for (size_t done = 0; done < size; done += PART) {
        const size_t part = size - done < PART ? size - done : PART;
        (void)MPI_Send((const char *)bytes + done, (int)part, MPI_BYTE, to, 0, MPI_COMM_WORLD);
    }
}

void cli_ranks_take(int from, void *bytes, size_t size) {
    for (size_t done = 0; done < size; done += PART) {
        const size_t part = size - done < PART ? size - done : PART;
        (void)MPI_Recv((char *)bytes + done, (int)part, MPI_BYTE, from, 0, MPI_COMM_WORLD,
                       MPI_STATUS_IGNORE);
    }
}

/* Seconds that a message may take: ranks may be far apart in their work, so long ones. */
static const double most_seconds = 600.0;

ota_status cli_ranks_communicator(ota_communicator *to, ota_error *error) {
    *to = cli_ranks_alone();
    if (!running()) return OTA_OK;
    /* Kept until the process ends. */
    ota_mpi *engine;
    const ota_status status = ota_mpi_open(&engine, NULL, most_seconds, error);
    if (status == OTA_OK) *to = ota_mpi_communicator(engine, OTA_SHARES_IN_ORDER);
    return status;
}

void cli_ranks_end(void) {
    if (running()) (void)MPI_Finalize();
}
