/* One process: a build without MPI. Several of it, started by mpirun, know nothing of each other and would all write the same
 * files: they are refused where the launcher tells their number. */
#include <stdlib.h>

#include "program/program.h"
#include "ranks.h"

const char *tool_ranks_library(char *text, size_t size) {
    (void)text;
    (void)size;
    return NULL;
}

int tool_ranks_begin(void) {
    static const char *const variables[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"};
    for (size_t k = 0; k < sizeof variables / sizeof *variables; k++) {
        const char *size = getenv(variables[k]);
        if (size != NULL && strtol(size, NULL, 10) > 1) return TOOL_EXIT_USAGE;
    }
    return 0;
}

const char *tool_ranks_reason(void) {
    return "mpirun started several processes of a program that is built without MPI "
           "(-DOTATTN_MPI=ON), and "
           "each would write the same files";
}

int tool_ranks_rank(void) { return 0; }

int tool_ranks_size(void) { return 1; }

int tool_ranks_agree(int code) { return code; }

void tool_ranks_share(void *bytes, size_t size) {
    (void)bytes;
    (void)size;
}

void tool_ranks_give(int to, const void *bytes, size_t size) {
    (void)to;
    (void)bytes;
    (void)size;
}

void tool_ranks_take(int from, void *bytes, size_t size) {
    (void)from;
    (void)bytes;
    (void)size;
}

ota_status tool_ranks_communicator(ota_communicator *to, ota_error *error) {
    (void)error;
    *to = tool_ranks_alone();
    return OTA_OK;
}

void tool_ranks_end(void) {}
