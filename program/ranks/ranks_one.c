/* One process: a build without MPI. Several of it, started by mpirun, know nothing of each other and would all write the same
 * files: they are refused where the launcher tells their number. */
#include <stdlib.h>

#include "program/program.h"
#include "ranks.h"

const char *cli_ranks_library(char *text, size_t size) {
    (void)text;
    (void)size;
    return NULL;
}

int cli_ranks_begin(void) {
    static const char *const variables[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"};
    for (size_t k = 0; k < sizeof variables / sizeof *variables; k++) {
        const char *size = getenv(variables[k]);
        if (size != NULL && strtol(size, NULL, 10) > 1) return CLI_EXIT_USAGE;
    }
    return 0;
}

const char *cli_ranks_reason(void) {
    return "mpirun started several processes of a program that is built without MPI "
           "(-DOTATTN_MPI=ON), and "
           "each would write the same files";
}

int cli_ranks_rank(void) { return 0; }

int cli_ranks_size(void) { return 1; }

int cli_ranks_agree(int code) { return code; }

void cli_ranks_share(void *bytes, size_t size) {
    (void)bytes;
    (void)size;
}

void cli_ranks_give(int to, const void *bytes, size_t size) {
    (void)to;
    (void)bytes;
    (void)size;
}

void cli_ranks_take(int from, void *bytes, size_t size) {
    (void)from;
    (void)bytes;
    (void)size;
}

ota_status cli_ranks_communicator(ota_communicator *to, ota_error *error) {
    (void)error;
    *to = cli_ranks_alone();
    return OTA_OK;
}

void cli_ranks_end(void) {}
