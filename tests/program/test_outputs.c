/* test_outputs.c: program/files/files.h beyond the formats: special files, standard input, and outputs that
 * appear whole or not at all, one by one and in sets. */
#define _GNU_SOURCE
#include "files_support.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "program/files/files_formats.h"
#include "src/base/integers.h"
#include "groups.h"

/* ---- special files ---- */

static void test_special_files(void **state) {
    (void)state;
    assert_int_equal(mkdir("folder.npy", 0700), 0);
    assert_int_equal(mkfifo("pipe.npy", 0600), 0);
    assert_int_equal(symlink("nowhere", "dangling.npy"), 0);
    assert_int_equal(symlink("/dev/zero", "zero.npy"), 0);
    refuse("folder.npy", CLI_EXIT_FILE, "is a folder, not a regular file");
    refuse("pipe.npy", CLI_EXIT_FILE, "is a pipe, not a regular file");
    refuse("zero.npy", CLI_EXIT_FILE, "not a regular file");
    refuse("/dev/zero", CLI_EXIT_FILE, "not a regular file");
    refuse("dangling.npy", CLI_EXIT_IO, "No such file");
    refuse("missing.npy", CLI_EXIT_IO, "missing.npy: cannot be opened: No such file");
    refuse("missing.npz:x", CLI_EXIT_IO, "missing.npz: cannot be opened");
    refuse("", CLI_EXIT_IO, "cannot be opened");
    put("plain", "x", 1);
    refuse("plain", CLI_EXIT_USAGE, "does not say which kind");
    cli_array array = array_of(numbers, OTA_F64, "", 1, 6, 0);
    write_file("a.npy", &array, 1);
    assert_int_equal(symlink("a.npy", "link.npy"), 0);
    read_back("link.npy", &array);
}

static void test_standard_input(void **state) {
    (void)state;
    int kept = dup(STDIN_FILENO), ends[2];
    cli_array array = array_of(numbers, OTA_F64, "", 1, 6, 0);
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
            refuse("-", CLI_EXIT_FILE, "standard input: at byte ");
    }
    dup2(kept, STDIN_FILENO);
    close(kept);
    free(bytes);
}

/* A header may promise more than memory holds, and elements that need checking may end early. */
static void test_standard_input_that_promises(void **state) {
    (void)state;
    static const struct {
        const char *header;
        int code;
        const char *part;
    } table[] = {
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (281474976710656, 16384)}",
         CLI_EXIT_LIMIT, "needs 18446744073709551615 bytes of memory, more than is free"},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': (3,)}", CLI_EXIT_FILE,
         "standard input: at byte 67: the array ends 10 bytes too early"},
    };
    const int kept = dup(STDIN_FILENO);
    for (size_t k = 0; k < sizeof table / sizeof *table; k++) {
        unsigned char bytes[256] = "\x93NUMPY\1";
        const size_t length = strlen(table[k].header);
        bytes[8] = (unsigned char)length;
        memcpy(bytes + 10, table[k].header, length);
        int ends[2];
        assert_int_equal(pipe(ends), 0);
        assert_int_equal(write(ends[1], bytes, length + 12), length + 12);
        close(ends[1]);
        dup2(ends[0], STDIN_FILENO);
        close(ends[0]);
        refuse("-", table[k].code, table[k].part);
    }
    dup2(kept, STDIN_FILENO);
    close(kept);
}

/* ---- outputs ---- */

/* Ends that do not wait are waited for: the program's own, set so by whoever shares them. */
static void test_ends_that_do_not_wait(void **state) {
    (void)state;
    enum { COUNT = 100000 };
    int in[2], out[2];
    cli_error error = {0};
    assert_int_equal(pipe2(in, O_NONBLOCK), 0);
    assert_int_equal(pipe2(out, O_NONBLOCK), 0);
    double *elements = calloc(COUNT, sizeof *elements);
    for (int k = 0; k < COUNT; k++) elements[k] = k;
    cli_array array = array_of(elements, OTA_F64, "", 1, COUNT, 0), back;
    write_file("a.npy", &array, 1);
    size_t size;
    char *bytes = get("a.npy", &size);
    const int kept_in = dup(STDIN_FILENO), kept_out = dup(STDOUT_FILENO);
    fflush(stdout);
    const pid_t other = fork();
    if (other == 0) { /* hands over late what it was given late */
        for (size_t done = 0; done < 2 * size;) {
            char piece[4096];
            const size_t left = ota_size_min(sizeof piece, done < size ? size - done : SIZE_MAX);
            usleep(done % (size / 2) < sizeof piece ? 20000 : 0);
            const ssize_t moved =
                done < size ? write(in[1], bytes + done, left) : read(out[0], piece, sizeof piece);
            if (moved < 0) continue;
            if (done >= size && memcmp(piece, bytes + done - size, (size_t)moved) != 0) _exit(1);
            done += (size_t)moved;
            if (done == size) close(in[1]);
        }
        _exit(0);
    }
    dup2(in[0], STDIN_FILENO);
    close(in[1]);
    const int read_code = cli_read_array("-", NULL, &back, &error);
    dup2(out[1], STDOUT_FILENO);
    cli_output *output;
    int code = cli_output_begin("-", false, &output, &error);
    if (code == 0)
        code = cli_output_end(output, cli_write_arrays(output, &back, 1, &error), &error);
    if (read_code != 0 || code != 0) kill(other, SIGKILL); /* it waits for what will not come */
    dup2(kept_out, STDOUT_FILENO);
    dup2(kept_in, STDIN_FILENO);
    int status;
    assert_int_equal(waitpid(other, &status, 0), other);
    assert_true(read_code == 0 && code == 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    const int ends[] = {in[0], out[0], out[1], kept_in, kept_out};
    for (size_t k = 0; k < sizeof ends / sizeof *ends; k++) close(ends[k]);
    cli_array_free(&back);
    free(elements);
    free(bytes);
}

static cli_output *begin(const char *path, bool force) {
    cli_output *output;
    cli_error error = {0};
    if (cli_output_begin(path, force, &output, &error) != 0) fail_msg("%s", error.message);
    if (cli_output_write(output, "new", 3, &error) != 0) fail_msg("%s", error.message);
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
    cli_output *output;
    cli_error error = {0};
    int code = cli_output_begin(path, force, &output, &error);
    expect(code, &error, wanted, part);
    assert_null(output);
}

static void test_output_appears_whole_or_not(void **state) {
    (void)state;
    cli_error error = {0};
    cli_output *output = begin("a.txt", false);
    assert_int_equal(access("a.txt", F_OK), -1);
    /* Where the file system has files without a name, a killed program leaves nothing. */
    const int nameless = open(".", O_WRONLY | O_TMPFILE, 0666);
    assert_int_equal(count_files(), nameless >= 0 ? 0 : 1);
    (void)close(nameless);
    assert_int_equal(cli_output_commit(output, &error), 0);
    holds("a.txt", "new");
    assert_int_equal(count_files(), 1);

    put("b.txt", "old", 3);
    refuse_output("b.txt", false, CLI_EXIT_USAGE, "b.txt: already exists");
    output = begin("b.txt", true);
    holds("b.txt", "old");
    cli_output_abort(output);
    holds("b.txt", "old");
    assert_int_equal(count_files(), 2);
    assert_int_equal(cli_output_commit(begin("b.txt", true), &error), 0);
    holds("b.txt", "new");
    assert_int_equal(cli_output_commit(begin("c.txt", true), &error), 0);
    holds("c.txt", "new");
    assert_int_equal(count_files(), 3);
    cli_output_abort(NULL);
}

/* A file that appears between begin and commit is not overwritten either. */
static void test_output_loses_the_race(void **state) {
    (void)state;
    cli_error error = {0};
    cli_output *output = begin("a.txt", false);
    put("a.txt", "other", 5);
    int code = cli_output_commit(output, &error);
    expect(code, &error, CLI_EXIT_USAGE, "already exists");
    holds("a.txt", "other");
    assert_int_equal(count_files(), 1);
}

static void test_sets_of_outputs(void **state) {
    (void)state;
    cli_error error = {0};
    put("old.txt", "old", 3);
    cli_output *set[] = {begin("new.txt", false), NULL, begin("old.txt", true),
                         begin("last.txt", false)};
    put("last.txt", "other", 5);
    int code = cli_outputs_commit(set, 4, &error);
    expect(code, &error, CLI_EXIT_USAGE, "last.txt: already exists");
    assert_int_equal(access("new.txt", F_OK), -1);
    holds("old.txt", "old");
    holds("last.txt", "other");
    assert_int_equal(count_files(), 2);
    for (int i = 0; i < 4; i++) assert_null(set[i]);

    cli_output *second[] = {begin("new.txt", false), begin("old.txt", true)};
    assert_int_equal(cli_outputs_commit(second, 2, &error), 0);
    holds("new.txt", "new");
    holds("old.txt", "new");
    assert_int_equal(count_files(), 3);
}

static void test_output_places(void **state) {
    (void)state;
    cli_error error = {0};
    struct stat status;
    mode_t mask = umask(027);
    assert_int_equal(cli_output_commit(begin("mode.txt", false), &error), 0);
    assert_int_equal(stat("mode.txt", &status), 0);
    assert_int_equal(status.st_mode & 0777, 0640);
    assert_int_equal(chmod("mode.txt", 0600), 0);
    assert_int_equal(cli_output_commit(begin("mode.txt", true), &error), 0);
    assert_int_equal(stat("mode.txt", &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
    cli_array array = array_of(numbers, OTA_F64, "x", 1, 6, 0);
    write_file("mode.npz", &array, 1);
    assert_int_equal(stat("mode.npz", &status), 0);
    assert_int_equal(status.st_mode & 0777, 0640);
    umask(mask);

    put("target.txt", "old", 3);
    assert_int_equal(symlink("target.txt", "link.txt"), 0);
    refuse_output("link.txt", false, CLI_EXIT_USAGE, "already exists");
    assert_int_equal(cli_output_commit(begin("link.txt", true), &error), 0);
    assert_int_equal(lstat("link.txt", &status), 0);
    assert_true(S_ISLNK(status.st_mode));
    holds("target.txt", "new");
    assert_int_equal(symlink("nowhere", "dangling.txt"), 0);
    refuse_output("dangling.txt", false, CLI_EXIT_USAGE, "already exists");
    assert_int_equal(cli_output_commit(begin("dangling.txt", true), &error), 0);
    holds("dangling.txt", "new");
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "socket.txt"};
    const int end = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(end, (const struct sockaddr *)&address, sizeof address), 0);
    close(end);
    refuse_output("socket.txt", true, CLI_EXIT_USAGE, "is a device or socket, not a file");

    char longest[256];
    memset(longest, 'n', 255);
    longest[255] = '\0';
    assert_int_equal(cli_output_commit(begin(longest, false), &error), 0);
    holds(longest, "new");
    refuse_output("missing/a.txt", false, CLI_EXIT_IO, "missing/a.txt: cannot be written");
    refuse_output("target.txt/a", false, CLI_EXIT_IO, "cannot be written");
    refuse_output(".", true, CLI_EXIT_USAGE, "is a folder");
    refuse_output("", true, CLI_EXIT_USAGE, "empty name");
}

static void test_devices_are_written_in_place(void **state) {
    (void)state;
    cli_error error = {0};
    struct stat status;
    assert_int_equal(cli_output_commit(begin("/dev/null", true), &error), 0);
    assert_int_equal(stat("/dev/null", &status), 0);
    assert_true(S_ISCHR(status.st_mode));
    cli_output *output;
    if (access("/dev/full", W_OK) == 0) {
        assert_int_equal(cli_output_begin("/dev/full", false, &output, &error), 0);
        int code = cli_output_write(output, "new", 3, &error);
        expect(code, &error, CLI_EXIT_IO, "No space left");
        cli_output_abort(output);
    }
    cli_array array = array_of(numbers, OTA_F64, "x", 1, 6, 0);
    assert_int_equal(cli_output_begin("/dev/null", false, &output, &error), 0);
    int code = cli_write_npz(output, &array, 1, &error);
    expect(code, &error, CLI_EXIT_USAGE, "npz needs a file");
    cli_output_abort(output);
}

static void test_no_array_on_a_terminal(void **state) {
    (void)state;
    const int terminal = posix_openpt(O_RDWR | O_NOCTTY), kept = dup(STDOUT_FILENO);
    assert_true(terminal >= 0 && grantpt(terminal) == 0 && unlockpt(terminal) == 0);
    const int end = open(ptsname(terminal), O_RDWR | O_NOCTTY);
    assert_true(end >= 0);
    fflush(stdout);
    dup2(end, STDOUT_FILENO);
    cli_output *output;
    cli_error error = {0};
    const int code = cli_output_begin("-", false, &output, &error);
    dup2(kept, STDOUT_FILENO);
    expect(code, &error, CLI_EXIT_USAGE, "standard output is a terminal and an array is binary");
    close(end);
    close(terminal);
    close(kept);
}

/* Elements k of a count; from `fails` on none come. */
typedef struct counting {
    size_t given, fails;
} counting;

static int count_on(void *user, void *to, size_t count, cli_error *error) {
    counting *at = user;
    if (at->given + count > at->fails)
        return cli_fail(error, CLI_EXIT_LIMIT, "element %zu does not come", at->fails);
    double *elements = to;
    for (size_t k = 0; k < count; k++) elements[k] = (double)at->given++;
    return 0;
}

static void test_elements_come_piece_by_piece(void **state) {
    (void)state;
    enum { COUNT = 30011 }; /* several pieces, the last not full */
    static const char *const ends[] = {"npy", "npz", "safetensors"};
    double *elements = calloc(COUNT, sizeof *elements);
    for (int k = 0; k < COUNT; k++) elements[k] = k;
    for (size_t i = 0; i < 3; i++) {
        char paths[3][32];
        for (int k = 0; k < 3; k++)
            (void)snprintf(paths[k], sizeof paths[k], "pieces%d.%s", k, ends[i]);
        cli_array array = array_of(elements, OTA_F64, "x", 1, COUNT, 0);
        write_file(paths[0], &array, 1);
        counting at = {0, COUNT};
        const cli_elements source = {count_on, &at};
        array.data = NULL;
        array.elements = &source;
        write_file(paths[1], &array, 1);
        size_t size, other;
        char *one = get(paths[0], &size), *two = get(paths[1], &other);
        assert_true(size == other && memcmp(one, two, size) == 0);
        free(one);
        free(two);
        at = (counting){0, COUNT - 1};
        cli_error error = {0};
        cli_output *output = NULL;
        assert_int_equal(cli_output_begin(paths[2], false, &output, &error), 0);
        const int code = cli_write_arrays(output, &array, 1, &error);
        expect(code, &error, CLI_EXIT_LIMIT, "element 30010 does not come");
        cli_output_abort(output);
        assert_int_not_equal(access(paths[2], F_OK), 0);
    }
    free(elements);
}

static void test_writers_refuse_what_does_not_fit(void **state) {
    (void)state;
    cli_array pair[2] = {array_of(numbers, OTA_F64, "x", 1, 6, 0),
                         array_of(numbers, OTA_F64, "x", 1, 6, 0)};
    enum { BAD = 7 };
    cli_array bad[BAD];
    for (int k = 0; k < BAD; k++) bad[k] = pair[0];
    bad[0].count = 5;
    bad[1].type = OTA_NO_TYPE;
    bad[2].shape[0] = -6;
    bad[3].rank = -1;
    bad[4].rank = CLI_MAX_RANK + 1;
    bad[5].data = NULL;
    bad[6].name[0] = '\0'; /* an .npy file has no name for it */
    const char *const paths[] = {"a.npy", "a.npz", "a.safetensors"};
    for (size_t i = 0; i < 3; i++) {
        cli_output *output = NULL;
        cli_error error = {0};
        assert_int_equal(cli_output_begin(paths[i], false, &output, &error), 0);
        for (size_t k = 0; k < (i == 0 ? BAD - 1 : BAD); k++)
            assert_int_equal(cli_write_arrays(output, &bad[k], 1, &error), CLI_EXIT_INTERNAL);
        int code = cli_write_arrays(output, pair, 2, &error);
        assert_int_equal(code, i == 0 ? CLI_EXIT_USAGE : CLI_EXIT_INTERNAL);
        cli_output_abort(output);
    }
    cli_output *output = begin("a.bin", false);
    cli_error error = {0};
    int code = cli_write_arrays(output, pair, 1, &error);
    expect(code, &error, CLI_EXIT_USAGE, "which kind of file to write");
    code = cli_write_npz(output, pair, 0, &error);
    expect(code, &error, CLI_EXIT_USAGE, "a.bin: npz needs a file and at least one array");
    const cli_metadata bytes = {"key", "\xff"};
    code = cli_write_safetensors(output, pair, 1, &bytes, 1, &error);
    expect(code, &error, CLI_EXIT_INTERNAL, "a.bin: metadata must be UTF-8");
    snprintf(pair[1].name, sizeof pair[1].name, "__metadata__");
    code = cli_write_safetensors(output, pair, 2, NULL, 0, &error);
    expect(code, &error, CLI_EXIT_INTERNAL, "a.bin: array without a valid name of its own");
    code = cli_write_safetensors_header(output, bad + 3, 1, &error);
    expect(code, &error, CLI_EXIT_INTERNAL, "a.bin: an array without type or rank");
    cli_output_abort(output);
    assert_int_equal(count_files(), 0);
}

TEST_FILE(test_outputs) {
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_special_files),
        IN_FOLDER(test_standard_input),
        IN_FOLDER(test_standard_input_that_promises),
        IN_FOLDER(test_ends_that_do_not_wait),
        IN_FOLDER(test_output_appears_whole_or_not),
        IN_FOLDER(test_output_loses_the_race),
        IN_FOLDER(test_sets_of_outputs),
        IN_FOLDER(test_output_places),
        IN_FOLDER(test_devices_are_written_in_place),
        IN_FOLDER(test_no_array_on_a_terminal),
        IN_FOLDER(test_elements_come_piece_by_piece),
        IN_FOLDER(test_writers_refuse_what_does_not_fit),
    };
    return cmocka_run_group_tests_name("outputs", tests, NULL, NULL);
}
