/* Looks up the files that the build put into the program. */
#include "embedded.h"

#include <string.h>

const tool_embedded *tool_embedded_find(const char *name) {
    for (size_t index = 0; index < tool_embedded_count; index++) {
        if (strcmp(tool_embedded_files[index].name, name) == 0) return &tool_embedded_files[index];
    }
    return NULL;
}
