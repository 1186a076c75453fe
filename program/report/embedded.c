/* Looks up the files that the build put into the program. */
#include "embedded.h"

#include <string.h>

const cli_embedded *cli_embedded_find(const char *name) {
    for (size_t index = 0; index < cli_embedded_count; index++) {
        if (strcmp(cli_embedded_files[index].name, name) == 0) return &cli_embedded_files[index];
    }
    return NULL;
}
