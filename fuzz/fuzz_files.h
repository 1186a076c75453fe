/* What the fuzzers of the three formats share: the input becomes a file in memory whose name ends
 * in the format's extension, by which formats are told apart, and every call of program/files/files.h that
 * reads it must return. A success must hold what it says: data for count elements, every element
 * read once so that the address sanitizer sees it. Limits are low, so that an honest large promise
 * is no finding. */
#ifndef OTATTN_FUZZ_FILES_H
#define OTATTN_FUZZ_FILES_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "program/files/files.h"

static void fuzz_file(const char *extension, const uint8_t *bytes, size_t size) {
    char path[128];
    snprintf(path, sizeof path, "/dev/shm/otattn-fuzz-%ld%s", (long)getpid(), extension);
    FILE *file = fopen(path, "wb");
    if (file == NULL || fwrite(bytes, 1, size, file) != size || fclose(file) != 0) abort();

    const cli_limits limits = {.array_bytes = 1 << 24, .npz_inflated = 1 << 24, .npz_entries = 256};
    cli_error error;
    cli_listing listing;
    char *value;
    if (cli_list_arrays(path, &limits, &listing, &error) != 0 && error.message[0] == '\0') abort();
    for (size_t i = 0; i < listing.count + 1; i++) {
        char spec[sizeof path + CLI_MAX_NAME + 2];
        snprintf(spec, sizeof spec, "%s%s%s", path, i < listing.count ? ":" : "",
                 i < listing.count ? listing.entries[i].name : "");
        cli_array array;
        if (cli_read_array(spec, &limits, &array, &error) != 0) continue;
        const volatile uint8_t *at = array.data;
        for (size_t k = 0; k < array.count * ota_type_bytes(array.type); k++) (void)at[k];
        cli_array_free(&array);
    }
    cli_listing_free(&listing);
    if (strcmp(extension, ".safetensors") == 0 &&
        cli_safetensors_metadata(path, "format", &limits, &value, &error) == 0)
        free(value);
    unlink(path);
}

#endif
