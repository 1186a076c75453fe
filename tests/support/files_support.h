/* What test_files.c and test_outputs.c share: a folder of its own for every test, files put and
 * read whole, arrays to write, and the judgement of a refusal. */
#ifndef OTATTN_TESTS_FILES_SUPPORT_H
#define OTATTN_TESTS_FILES_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "program/files/files.h"

/* ---- a folder of its own, and small helpers ---- */

static inline int make_folder(void **state) {
    char *folder = strdup("/tmp/otattn-files-XXXXXX");
    *state = folder;
    return folder == NULL || mkdtemp(folder) == NULL || chdir(folder) != 0;
}

static inline int count_files(void) {
    DIR *folder = opendir(".");
    assert_non_null(folder);
    int count = 0;
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;)
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(folder);
    return count;
}

static inline int remove_folder(void **state) {
    DIR *folder = opendir(".");
    for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
            unlink(entry->d_name) != 0)
            rmdir(entry->d_name);
    closedir(folder);
    int failed = chdir("/") != 0 || rmdir(*state) != 0;
    free(*state);
    return failed;
}

static inline void put(const char *path, const void *bytes, size_t size) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

static inline char *get(const char *path, size_t *size) {
    struct stat status;
    assert_int_equal(stat(path, &status), 0);
    *size = (size_t)status.st_size;
    char *bytes = malloc(*size + 1);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fread(bytes, 1, *size, file), *size);
    fclose(file);
    return bytes;
}

/* The call must fail with this exit code and a clean sentence that holds `part`. */
static inline void expect(int code, const cli_error *error, int wanted, const char *part) {
    if (code != wanted || code != error->exit_code || strstr(error->message, part) == NULL)
        fail_msg("exit %d, \"%s\": wanted %d and \"%s\"", code, error->message, wanted, part);
    for (const char *at = error->message; *at != '\0'; at++)
        assert_true((unsigned char)*at >= 0x20);
}

static inline void refuse(const char *spec, int wanted, const char *part) {
    cli_array array;
    cli_error error = {0};
    int code = cli_read_array(spec, NULL, &array, &error);
    expect(code, &error, wanted, part);
    assert_null(array.data);
}

static inline cli_array array_of(void *data, ota_type type, const char *name, int rank,
                                 int64_t rows, int64_t columns) {
    cli_array array = {.data = data, .type = type, .rank = rank, .shape = {rows, columns}};
    array.count = 1;
    for (int k = 0; k < rank; k++) array.count *= (size_t)array.shape[k];
    snprintf(array.name, sizeof array.name, "%s", name);
    return array;
}

static double numbers[6] = {0, 1.5, -2, 3e300, 5e-324, -0.0};

/* Four arrays of four types, one name not ASCII; unused where a test needs none. */
static uint16_t halves[3] = {0x3C00, 0x7E00, 0x8001};
static int64_t integers[2] = {INT64_MIN, INT64_MAX};
static uint8_t truths[2] = {0, 1};

enum { PACKED = 4 };

static inline void packed_arrays(cli_array arrays[PACKED]) {
    arrays[0] = array_of(numbers, OTA_F64, "scores", 2, 2, 3);
    arrays[1] = array_of(halves, OTA_F16, "half", 1, 3, 0);
    arrays[2] = array_of(integers, OTA_I64, "lengths", 1, 2, 0);
    arrays[3] = array_of(truths, OTA_BOOL, "mask \xC3\xA9", 2, 1, 2);
}

static inline void write_file(const char *path, const cli_array *arrays, size_t count) {
    cli_output *output;
    cli_error error = {0};
    int code = cli_output_begin(path, true, &output, &error);
    if (code == 0) code = cli_write_arrays(output, arrays, count, &error);
    if (code == 0) code = cli_output_commit(output, &error);
    if (code != 0) fail_msg("%s", error.message);
}

static inline void read_back(const char *spec, const cli_array *wanted) {
    cli_array array;
    cli_error error = {0};
    if (cli_read_array(spec, NULL, &array, &error) != 0) fail_msg("%s", error.message);
    assert_int_equal(array.type, wanted->type);
    assert_int_equal(array.rank, wanted->rank);
    assert_int_equal(array.count, wanted->count);
    for (int k = 0; k < array.rank; k++) assert_int_equal(array.shape[k], wanted->shape[k]);
    assert_int_equal((uintptr_t)array.data % 64, 0);
    if (array.count > 0) {
        assert_non_null(array.data);
        assert_memory_equal(array.data, wanted->data, array.count * ota_type_bytes(array.type));
    }
    cli_array_free(&array);
    assert_null(array.data);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

#endif
