/* test_outputs.c: program/files/files.h beyond the formats: special files, standard input, and outputs that
 * appear whole or not at all, one by one and in sets. */
#define _GNU_SOURCE
#include "files_support.h"

#include "program/files/files.h"

/* ---- special files ---- */

static void test_special_files(void **state) {
    (void)state;
    assert_int_equal(mkdir("folder.npy", 0700), 0);
    assert_int_equal(mkfifo("pipe.npy", 0600), 0);
    assert_int_equal(symlink("nowhere", "dangling.npy"), 0);
    assert_int_equal(symlink("/dev/zero", "zero.npy"), 0);
    refuse("folder.npy", TOOL_EXIT_FILE, "is a folder, not a regular file");
    refuse("pipe.npy", TOOL_EXIT_FILE, "is a pipe, not a regular file");
    refuse("zero.npy", TOOL_EXIT_FILE, "not a regular file");
    refuse("/dev/zero", TOOL_EXIT_FILE, "not a regular file");
    refuse("dangling.npy", TOOL_EXIT_IO, "No such file");
    refuse("missing.npy", TOOL_EXIT_IO, "missing.npy: cannot be opened: No such file");
    refuse("missing.npz:x", TOOL_EXIT_IO, "missing.npz: cannot be opened");
    refuse("", TOOL_EXIT_IO, "cannot be opened");
    put("plain", "x", 1);
    refuse("plain", TOOL_EXIT_USAGE, "does not say which kind");
    tool_array array = array_of(numbers, OTA_F64, "", 1, 6, 0);
    write_file("a.npy", &array, 1);
    assert_int_equal(symlink("a.npy", "link.npy"), 0);
    read_back("link.npy", &array);
}

static void test_standard_input(void **state) {
    (void)state;
    int kept = dup(STDIN_FILENO), ends[2];
    tool_array array = array_of(numbers, OTA_F64, "", 1, 6, 0);
    size_t size;
    write_file("a.npy", &array, 1);
    char *bytes = get("a.npy", &size);
    for (size_t sent = 0; sent <= size + 1; sent++) {
        assert_int_equal(pipe(ends), 0);
        ssize_t whole = sent > size ? (ssize_t)size : (ssize_t)sent;
        assert_int_equal(write(ends[1], bytes, (size_t)whole), whole);
        if (sent > size) assert_int_equal(write(ends[1], "x", 1), 1);
        close(ends[1]);
        dup2(ends[0], STDIN_FILENO);
        close(ends[0]);
        if (sent == size)
            read_back("-", &array);
        else
            refuse("-", TOOL_EXIT_FILE, "standard input: at byte ");
    }
    dup2(kept, STDIN_FILENO);
    close(kept);
    free(bytes);
}

/* ---- outputs ---- */

static tool_output *begin(const char *path, bool force) {
    tool_output *output;
    tool_error error = {0};
    if (tool_output_begin(path, force, &output, &error) != 0) fail_msg("%s", error.message);
    if (tool_output_write(output, "new", 3, &error) != 0) fail_msg("%s", error.message);
    return output;
}

static void holds(const char *path, const char *text) {
    size_t size;
    char *bytes = get(path, &size);
    assert_int_equal(size, strlen(text));
    assert_memory_equal(bytes, text, size);
    free(bytes);
}

static void refuse_output(const char *path, bool force, int wanted, const char *part) {
    tool_output *output;
    tool_error error = {0};
    int code = tool_output_begin(path, force, &output, &error);
    expect(code, &error, wanted, part);
    assert_null(output);
}

static void test_output_appears_whole_or_not(void **state) {
    (void)state;
    tool_error error = {0};
    tool_output *output = begin("a.txt", false);
    assert_int_equal(access("a.txt", F_OK), -1);
    /* Where the file system has files without a name, a killed program leaves nothing. */
    const int nameless = open(".", O_WRONLY | O_TMPFILE, 0666);
    assert_int_equal(count_files(), nameless >= 0 ? 0 : 1);
    (void)close(nameless);
    assert_int_equal(tool_output_commit(output, &error), 0);
    holds("a.txt", "new");
    assert_int_equal(count_files(), 1);

    put("b.txt", "old", 3);
    refuse_output("b.txt", false, TOOL_EXIT_USAGE, "b.txt: already exists");
    output = begin("b.txt", true);
    holds("b.txt", "old");
    tool_output_abort(output);
    holds("b.txt", "old");
    assert_int_equal(count_files(), 2);
    assert_int_equal(tool_output_commit(begin("b.txt", true), &error), 0);
    holds("b.txt", "new");
    assert_int_equal(tool_output_commit(begin("c.txt", true), &error), 0);
    holds("c.txt", "new");
    assert_int_equal(count_files(), 3);
    tool_output_abort(NULL);
}

/* A file that appears between begin and commit is not overwritten either. */
static void test_output_loses_the_race(void **state) {
    (void)state;
    tool_error error = {0};
    tool_output *output = begin("a.txt", false);
    put("a.txt", "other", 5);
    int code = tool_output_commit(output, &error);
    expect(code, &error, TOOL_EXIT_USAGE, "already exists");
    holds("a.txt", "other");
    assert_int_equal(count_files(), 1);
}

static void test_sets_of_outputs(void **state) {
    (void)state;
    tool_error error = {0};
    put("old.txt", "old", 3);
    tool_output *set[] = {begin("new.txt", false), NULL, begin("old.txt", true),
                          begin("last.txt", false)};
    put("last.txt", "other", 5);
    int code = tool_outputs_commit(set, 4, &error);
    expect(code, &error, TOOL_EXIT_USAGE, "last.txt: already exists");
    assert_int_equal(access("new.txt", F_OK), -1);
    holds("old.txt", "old");
    holds("last.txt", "other");
    assert_int_equal(count_files(), 2);
    for (int i = 0; i < 4; i++) assert_null(set[i]);

    tool_output *second[] = {begin("new.txt", false), begin("old.txt", true)};
    assert_int_equal(tool_outputs_commit(second, 2, &error), 0);
    holds("new.txt", "new");
    holds("old.txt", "new");
    assert_int_equal(count_files(), 3);
}

static void test_output_places(void **state) {
    (void)state;
    tool_error error = {0};
    struct stat status;
    mode_t mask = umask(027);
    assert_int_equal(tool_output_commit(begin("mode.txt", false), &error), 0);
    assert_int_equal(stat("mode.txt", &status), 0);
    assert_int_equal(status.st_mode & 0777, 0640);
    assert_int_equal(chmod("mode.txt", 0600), 0);
    assert_int_equal(tool_output_commit(begin("mode.txt", true), &error), 0);
    assert_int_equal(stat("mode.txt", &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
    tool_array array = array_of(numbers, OTA_F64, "x", 1, 6, 0);
    write_file("mode.npz", &array, 1);
    assert_int_equal(stat("mode.npz", &status), 0);
    assert_int_equal(status.st_mode & 0777, 0640);
    umask(mask);

    put("target.txt", "old", 3);
    assert_int_equal(symlink("target.txt", "link.txt"), 0);
    refuse_output("link.txt", false, TOOL_EXIT_USAGE, "already exists");
    assert_int_equal(tool_output_commit(begin("link.txt", true), &error), 0);
    assert_int_equal(lstat("link.txt", &status), 0);
    assert_true(S_ISLNK(status.st_mode));
    holds("target.txt", "new");

    char longest[256];
    memset(longest, 'n', 255);
    longest[255] = '\0';
    assert_int_equal(tool_output_commit(begin(longest, false), &error), 0);
    holds(longest, "new");
    refuse_output("missing/a.txt", false, TOOL_EXIT_IO, "missing/a.txt: cannot be written");
    refuse_output("target.txt/a", false, TOOL_EXIT_IO, "cannot be written");
    refuse_output(".", true, TOOL_EXIT_USAGE, "is a folder");
    refuse_output("", true, TOOL_EXIT_USAGE, "empty name");
}

static void test_devices_are_written_in_place(void **state) {
    (void)state;
    tool_error error = {0};
    struct stat status;
    assert_int_equal(tool_output_commit(begin("/dev/null", true), &error), 0);
    assert_int_equal(stat("/dev/null", &status), 0);
    assert_true(S_ISCHR(status.st_mode));
    tool_output *output;
    if (access("/dev/full", W_OK) == 0) {
        assert_int_equal(tool_output_begin("/dev/full", false, &output, &error), 0);
        int code = tool_output_write(output, "new", 3, &error);
        expect(code, &error, TOOL_EXIT_IO, "No space left");
        tool_output_abort(output);
    }
    tool_array array = array_of(numbers, OTA_F64, "x", 1, 6, 0);
    assert_int_equal(tool_output_begin("/dev/null", false, &output, &error), 0);
    int code = tool_write_npz(output, &array, 1, &error);
    expect(code, &error, TOOL_EXIT_USAGE, "npz needs a file");
    tool_output_abort(output);
}

static void test_writers_refuse_what_does_not_fit(void **state) {
    (void)state;
    tool_array pair[2] = {array_of(numbers, OTA_F64, "x", 1, 6, 0),
                          array_of(numbers, OTA_F64, "x", 1, 6, 0)};
    tool_array bad[] = {pair[0], pair[0], pair[0]};
    bad[0].count = 5;
    bad[1].type = OTA_NO_TYPE;
    bad[2].shape[0] = -6;
    const char *const paths[] = {"a.npy", "a.npz", "a.safetensors"};
    for (size_t i = 0; i < 3; i++) {
        tool_output *output = NULL;
        tool_error error = {0};
        assert_int_equal(tool_output_begin(paths[i], false, &output, &error), 0);
        for (size_t k = 0; k < 3; k++)
            assert_int_equal(tool_write_arrays(output, &bad[k], 1, &error), TOOL_EXIT_INTERNAL);
        int code = tool_write_arrays(output, pair, 2, &error);
        assert_int_equal(code, i == 0 ? TOOL_EXIT_USAGE : TOOL_EXIT_INTERNAL);
        tool_output_abort(output);
    }
    tool_output *output = begin("a.bin", false);
    tool_error error = {0};
    int code = tool_write_arrays(output, pair, 1, &error);
    expect(code, &error, TOOL_EXIT_USAGE, "which kind of file to write");
    tool_output_abort(output);
    assert_int_equal(count_files(), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_special_files),
        IN_FOLDER(test_standard_input),
        IN_FOLDER(test_output_appears_whole_or_not),
        IN_FOLDER(test_output_loses_the_race),
        IN_FOLDER(test_sets_of_outputs),
        IN_FOLDER(test_output_places),
        IN_FOLDER(test_devices_are_written_in_place),
        IN_FOLDER(test_writers_refuse_what_does_not_fit),
    };
    return cmocka_run_group_tests_name("outputs", tests, NULL, NULL);
}
