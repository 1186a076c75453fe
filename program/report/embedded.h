/* Files that the build puts into the program as bytes (cmake/embed_files.cmake): the report's style,
 * script, theme and figures, the demo's data, vocabulary and text, and the chart library when the build was given one. */
#ifndef OTATTN_PROGRAM_REPORT_EMBEDDED_H
#define OTATTN_PROGRAM_REPORT_EMBEDDED_H

#include <stddef.h>

typedef struct cli_embedded {
    const char *name;
    const unsigned char *bytes;
    size_t size;
} cli_embedded;

/* The generated table. */
extern const cli_embedded cli_embedded_files[];
extern const size_t cli_embedded_count;

/* NULL when the build did not embed a file of this name. */
const cli_embedded *cli_embedded_find(const char *name);

#endif
