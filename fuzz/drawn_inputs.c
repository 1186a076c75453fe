/* Main of a target without a fuzzing engine: the same inputs wherever it runs.
 *
 *     drawn_NAME COUNT SEED KEEP FILE...          COUNT inputs, or those of so many seconds: 60s
 *
 * runs every FILE as it is, then COUNT inputs drawn from them by the seed: up to four changes each, of bits, bytes, runs
 * of bytes and of halves of two files. No coverage guides it; that is what fuzz_NAME is for. An input that the target
 * or a sanitizer ends at, or that takes over a minute, is written to KEEP. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../tests/draw/random.h"

enum { LONGEST = 1 << 16, CHANGES = 4, RUN = 32, SECONDS = 60 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
/* NULL in a build without a sanitizer. */
__attribute__((weak)) void __sanitizer_set_death_callback(void (*call)(void));

typedef struct input {
    uint8_t *bytes;
    size_t size;
} input;

static const char *keep;      /* where a failing input goes */
static uint8_t *volatile now; /* the input that runs */
static volatile size_t now_size;

static void keep_input(void) {
    const int file = open(keep, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (file < 0 || write(file, now, now_size) != (ssize_t)now_size) _exit(3);
    static const char said[] = "the input was kept\n";
    (void)!write(STDERR_FILENO, said, sizeof said - 1);
    (void)close(file);
}

static void on_signal(int number) {
    keep_input();
    (void)signal(number, SIG_DFL);
    (void)raise(number);
}

/* ---- drawing ---- */

static size_t place(dice *d, size_t count) { return (size_t)below(d, (int64_t)count); }

static void insert(input *x, size_t at, const uint8_t *bytes, size_t count) {
    if (x->size + count > LONGEST) return;
    memmove(x->bytes + at + count, x->bytes + at, x->size - at);
    memcpy(x->bytes + at, bytes, count);
    x->size += count;
}

static void change(input *x, const input *other, dice *state) {
    static const uint8_t telling[] = {0, 1, 0x7f, 0x80, 0xff, '"', '\\', '{', '[', '-'};
    uint8_t run[RUN];
    const size_t at = place(state, x->size + 1), left = x->size - at;
    const size_t count = left == 0 ? 0 : 1 + place(state, left < RUN ? left : RUN);
    switch (left == 0 ? 5 : place(state, 8)) {
    case 0: x->bytes[at] ^= (uint8_t)(1u << place(state, 8)); return;
    case 1: x->bytes[at] = telling[place(state, sizeof telling)]; return;
    case 2: x->bytes[at] = (uint8_t)splitmix64(state); return;
    case 3: /* a run less */
        memmove(x->bytes + at, x->bytes + at + count, left - count);
        x->size -= count;
        return;
    case 4: /* a run twice */
        memcpy(run, x->bytes + at, count);
        insert(x, at, run, count);
        return;
    case 5: /* a run of one byte */
        memset(run, (int)(splitmix64(state) & 0xff), RUN);
        insert(x, at, run, 1 + place(state, RUN));
        return;
    case 6: /* a run as eight bytes of any kind */
        for (size_t k = 0; k < count; k++) run[k] = (uint8_t)splitmix64(state);
        memcpy(x->bytes + at, run, count);
        return;
    default: /* another input's end */
        if (other->size == 0) return;
        x->size = at;
        const size_t from = place(state, other->size), size = other->size - from;
        insert(x, at, other->bytes + from, size);
    }
}

/* ---- running ---- */

static input read_input(const char *path) {
    input x = {.bytes = malloc(LONGEST)};
    FILE *file = fopen(path, "rb");
    if (file == NULL || x.bytes == NULL) {
        (void)fprintf(stderr, "%s cannot be read\n", path);
        exit(2);
    }
    x.size = fread(x.bytes, 1, LONGEST, file);
    (void)fclose(file);
    return x;
}

/* The target sees a block of just the input's size, so that a byte read beyond it is seen. */
static void run(const input *x) {
    now = malloc(x->size > 0 ? x->size : 1);
    if (now == NULL) exit(2);
    memcpy(now, x->bytes, x->size);
    now_size = x->size;
    (void)alarm(SECONDS);
    (void)LLVMFuzzerTestOneInput(now, x->size);
    (void)alarm(0);
    free(now);
}

int main(int argc, char **argv) {
    if (argc < 5) {
        (void)fprintf(stderr, "usage: %s COUNT|SECONDSs SEED KEEP FILE...\n", argv[0]);
        return 2;
    }
    char *unit;
    const long most = strtol(argv[1], &unit, 10);
    const size_t files = (size_t)argc - 4;
    input *inputs = calloc(files, sizeof *inputs), drawn = {.bytes = malloc(LONGEST)};
    if (inputs == NULL || drawn.bytes == NULL) return 2;
    uint64_t state = strtoull(argv[2], NULL, 10);
    keep = argv[3];
    if (__sanitizer_set_death_callback != NULL) __sanitizer_set_death_callback(keep_input);
    (void)signal(SIGABRT, on_signal);
    (void)signal(SIGALRM, on_signal);
    for (size_t k = 0; k < files; k++) {
        inputs[k] = read_input(argv[4 + k]);
        run(&inputs[k]);
    }
    const time_t begin = time(NULL);
    long count = 0;
    while (*unit == 's' ? time(NULL) - begin < most : count < most) {
        const input *from = &inputs[place(&state, files)];
        memcpy(drawn.bytes, from->bytes, from->size);
        drawn.size = from->size;
        for (size_t changes = 1 + place(&state, CHANGES); changes > 0; changes--)
            change(&drawn, &inputs[place(&state, files)], &state);
        run(&drawn);
        count++;
    }
    for (size_t k = 0; k < files; k++) free(inputs[k].bytes);
    free(inputs);
    free(drawn.bytes);
    (void)printf("%zu inputs as they are, %ld drawn\n", files, count);
    return 0;
}
