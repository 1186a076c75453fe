/* libFuzzer on run folders: the input, cut at NULs, is metrics.json, manifest.json, tables/events.csv, tables/methods.csv and
 * example.safetensors of a folder that `otattn report` makes a page of. It must return; a refusal has a sentence; and
 * nothing of the folder becomes markup: the page holds no more tags than the page of an empty run can. */
#define _POSIX_C_SOURCE 200809L
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "program/report/run.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

enum { PARTS = 5, PAGE_MOST = 1 << 22 };

static const char *const parts[PARTS] = {"metrics.json", "manifest.json", "tables/events.csv",
                                         "tables/methods.csv", "example.safetensors"};

static void put(const char *folder, const char *name, const void *data, size_t size) {
    char path[192];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    if (file == NULL || fwrite(data, 1, size, file) != size || fclose(file) != 0) abort();
}

/* Elements that no part of a page is made of. */
static void check_page(const char *path) {
    static const char *const strange[] = {"<img", "<iframe", "<fuzz", "<svg", "<object"};
    static char page[PAGE_MOST + 1];
    FILE *file = fopen(path, "rb");
    if (file == NULL) abort();
    const size_t size = fread(page, 1, PAGE_MOST, file);
    (void)fclose(file);
    page[size] = '\0';
    for (size_t k = 0; k < sizeof strange / sizeof *strange; k++)
        if (strstr(page, strange[k]) != NULL) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    char folder[96], path[192];
    cli_error error = {.message = ""};
    (void)snprintf(folder, sizeof folder, "/dev/shm/otattn-fuzz-report-%ld", (long)getpid());
    (void)mkdir(folder, 0700);
    (void)snprintf(path, sizeof path, "%s/tables", folder);
    (void)mkdir(path, 0700);
    (void)snprintf(path, sizeof path, "%s/figures", folder);
    (void)mkdir(path, 0700);
    for (int k = 0; k < PARTS; k++) {
        const uint8_t *end = size > 0 && k < PARTS - 1 ? memchr(bytes, 0, size) : NULL;
        const size_t length = end != NULL ? (size_t)(end - bytes) : size;
        (void)snprintf(path, sizeof path, "%s/%s", folder, parts[k]);
        if (length > 0)
            put(folder, parts[k], bytes, length);
        else
            (void)unlink(path);
        bytes += end != NULL ? length + 1 : length;
        size -= end != NULL ? length + 1 : length;
    }
    (void)snprintf(path, sizeof path, "%s/report.html", folder);
    if (cli_run_report(folder, NULL, NULL, &error) != 0) {
        if (error.message[0] == '\0') abort();
        return 0;
    }
    check_page(path);
    return 0;
}
