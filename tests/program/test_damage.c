/* test_damage.c: program/files/files.h against files that are cut, altered or larger than a limit, and
 * against archives whose two sets of headers disagree. */
#define _GNU_SOURCE
#include "files_support.h"

#include "program/files/files.h"
#include "groups.h"

/* ---- limits, lowered so that small files meet them ---- */

static void test_limits(void **state) {
    (void)state;
    cli_array arrays[PACKED];
    packed_arrays(arrays);
    write_file("a.npy", arrays, 1);
    write_file("a.npz", arrays, PACKED);
    write_file("a.safetensors", arrays, PACKED);
    static const struct {
        const char *spec;
        cli_limits below, at;
        const char *part;
    } table[] = {
        {"a.npy", {.array_bytes = 47}, {.array_bytes = 48}, "needs 48 bytes of memory"},
        {"a.npy", {.npy_header = 117}, {.npy_header = 118}, "header's 118 bytes"},
        {"a.npz:scores", {.npz_entries = 3}, {.npz_entries = 4}, "declares 4 entries"},
        {"a.npz:scores", {.npz_inflated = 583}, {.npz_inflated = 584}, "inflated bytes"},
        {"a.npz:scores", {.npy_header = 117}, {.npy_header = 118}, "header's 118 bytes"},
        {"a.npz:scores", {.array_bytes = 47}, {.array_bytes = 48}, "needs 48 bytes of memory"},
        {"a.safetensors:scores",
         {.safetensors_tensors = 3},
         {.safetensors_tensors = 4},
         "limit of 3 tensors"},
        {"a.safetensors:scores",
         {.safetensors_header = 100},
         {.safetensors_header = 1000},
         "above the limit of 100"},
        {"a.safetensors:scores", {.array_bytes = 47}, {.array_bytes = 48}, "needs 48 bytes"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        cli_array array;
        cli_error error = {0};
        int code = cli_read_array(table[i].spec, &table[i].below, &array, &error);
        expect(code, &error, CLI_EXIT_LIMIT, table[i].part);
        if (cli_read_array(table[i].spec, &table[i].at, &array, &error) != 0)
            fail_msg("%s", error.message);
        cli_array_free(&array);
    }
}

/* ---- cut and altered files ---- */

static void test_every_cut_is_refused(void **state) {
    (void)state;
    cli_array arrays[PACKED];
    packed_arrays(arrays);
    static const char *const paths[][2] = {
        {"a.npy", "a.npy"}, {"a.npz", "a.npz:half"}, {"a.safetensors", "a.safetensors:half"}};
    for (size_t i = 0; i < 3; i++) {
        size_t size;
        write_file(paths[i][0], arrays, i == 0 ? 1 : PACKED);
        char *bytes = get(paths[i][0], &size);
        for (size_t cut = 0; cut < size; cut++) {
            put(paths[i][0], bytes, cut);
            refuse(paths[i][1], CLI_EXIT_FILE, paths[i][0]);
        }
        put(paths[i][0], bytes, size);
        FILE *file = fopen(paths[i][0], "ab");
        fputc(0, file);
        fclose(file);
        refuse(paths[i][1], CLI_EXIT_FILE, paths[i][0]);
        free(bytes);
    }
}

/* The checksum makes an altered archive either refused or read as the same array. */
static void test_every_altered_byte_of_an_archive(void **state) {
    (void)state;
    cli_array arrays[PACKED];
    packed_arrays(arrays);
    write_file("a.npz", arrays, PACKED);
    size_t size;
    char *bytes = get("a.npz", &size);
    int refused = 0;
    for (size_t i = 0; i < size; i++)
        for (int bit = 0; bit < 8; bit++) {
            bytes[i] = (char)(bytes[i] ^ 1 << bit);
            put("a.npz", bytes, size);
            bytes[i] = (char)(bytes[i] ^ 1 << bit);
            cli_array array;
            cli_error error = {0};
            if (cli_read_array("a.npz:scores", NULL, &array, &error) != 0) {
                assert_true(error.message[0] != '\0');
                refused++;
            } else {
                assert_int_equal(array.count, 6);
                assert_memory_equal(array.data, numbers, sizeof numbers);
                cli_array_free(&array);
            }
        }
    free(bytes);
    assert_true(refused > (int)size); /* more than one bit of each byte on average */
}

static size_t find(const char *bytes, size_t size, const char *wanted) {
    const char *at = memmem(bytes, size, wanted, strlen(wanted));
    assert_non_null(at);
    return (size_t)(at - bytes);
}

/* Local headers against the central directory: the same field changed on one side only. */
static void test_headers_of_an_archive_must_agree(void **state) {
    (void)state;
    cli_array array = array_of(numbers, OTA_F64, "scores", 2, 2, 3);
    write_file("a.npz", &array, 1);
    size_t size;
    char *good = get("a.npz", &size), *bad = malloc(size + 22);
    size_t local = find(good, size, "PK\3\4"), central = find(good, size, "PK\1\2"),
           end = find(good, size, "PK\5\6");
    const struct {
        size_t at;
        const char *what;
    } table[] = {{local + 8, "method"},
                 {local + 14, "checksum"},
                 {local + 18, "compressed size"},
                 {local + 22, "size"},
                 {local + 30, "name"},
                 {local, "signature"},
                 {central + 10, "method"},
                 {central + 16, "checksum"},
                 {central + 20, "compressed"},
                 {central + 24, "size"},
                 {central + 46, "name"},
                 {central, "signature"},
                 {central + 8, "encrypted"},
                 {end + 8, "entries here"},
                 {end + 10, "entries"},
                 {end + 12, "directory size"},
                 {end + 16, "directory offset"},
                 {end + 20, "comment"}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        memcpy(bad, good, size);
        bad[table[i].at] ^= 1;
        put("a.npz", bad, size);
        cli_error error = {0};
        cli_array out;
        if (cli_read_array("a.npz", NULL, &out, &error) != CLI_EXIT_FILE)
            fail_msg("%s changed: exit %d %s", table[i].what, error.exit_code, error.message);
    }
    memcpy(bad, good, size);
    bad[central - 1] ^= 1; /* the last byte of the data */
    put("a.npz", bad, size);
    refuse("a.npz", 4, "CRC");
    memcpy(bad, good, size);
    memcpy(bad + size, good + end, 22);
    put("a.npz", bad, size + 22);
    refuse("a.npz", 4, "two end records");
    memcpy(bad, good, size);
    bad[end + 10] = bad[end + 11] = bad[end + 8] = bad[end + 9] = (char)0xff;
    put("a.npz", bad, size);
    refuse("a.npz", 4, "a.npz");
    free(good);
    free(bad);
}

TEST_FILE(test_damage) {
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_limits),
        IN_FOLDER(test_every_cut_is_refused),
        IN_FOLDER(test_every_altered_byte_of_an_archive),
        IN_FOLDER(test_headers_of_an_archive_must_agree),
    };
    return cmocka_run_group_tests_name("damage", tests, NULL, NULL);
}
