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

void tool_ranks_end(void) {}
