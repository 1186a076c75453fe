/* One process: a build without MPI. */
#include "ranks.h"

const char *tool_ranks_library(char *text, size_t size) {
    (void)text;
    (void)size;
    return NULL;
}

int tool_ranks_begin(void) { return 0; }

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
