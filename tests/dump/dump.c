/* dump: digests of every output byte of random cases, at every kernel level of this CPU, so that a change that should
 * move no bit can show that it moved none. Sees otattn.h alone: the same source is built against any commit.
 *
 *     dump --write FILE [--parts]     keeps the digests; with --parts those of every call
 *     dump --compare FILE             compares; ends with 'N passed, N failed, N skipped', 1 if any failed
 *     dump --explain K                the digest, sums and status of everything case K gave
 *     dump --statistics               what was met how often
 *
 * Also: --first K --count N (which cases), --level NAME, --threads T (0: as drawn, 1 or 2 by case; no
 * number changes a digest), --processes P. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "report.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PROCESSES = 2, MOST_PROCESSES = 64, MOST_SECONDS = 120 };

/* In memory that all processes see. */
typedef struct shared {
    _Atomic int64_t next;
    int64_t working[MOST_PROCESSES]; /* the row that a process is at */
    dump_row rows[];
} shared;

typedef struct settings {
    const char *write, *compare, *level;
    int64_t first, count, explain;
    int threads, processes;
    bool parts, statistics;
} settings;

static double now(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static dump_memory take_memory(void) {
    const dump_memory memory = {.base = aligned_alloc(64, DUMP_MEMORY), .size = DUMP_MEMORY};
    if (memory.base != NULL) return memory;
    (void)fprintf(stderr, "dump: no memory\n");
    exit(2);
}

/* Takes rows until none is left. */
static void work(const dump_rows *set, shared *s, int process, int threads) {
    dump_memory memory = take_memory();
    dump_case *c = calloc(1, sizeof *c);
    if (c == NULL) exit(2);
    for (;;) {
        const int64_t k = atomic_fetch_add(&s->next, 1);
        if (k >= set->count * set->level_count) break;
        const double begun = now();
        s->working[process] = k;
        (void)alarm(MOST_SECONDS);
        dump_run(c, &memory, set->first + k / set->level_count, set->levels[k % set->level_count],
                 threads, NULL, &s->rows[k]);
        s->rows[k].seconds = now() - begun;
        s->working[process] = -1;
    }
    free(c);
    free(memory.base);
}

static pid_t start(const dump_rows *set, shared *s, int process, int threads) {
    s->working[process] = -1;
    (void)fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        work(set, s, process, threads);
        _exit(0);
    }
    if (child > 0) return child;
    (void)fprintf(stderr, "dump: no process could be started\n");
    exit(2);
}

/* A process that dies is replaced, and its row holds the signal. */
static void run_all(const dump_rows *set, shared *s, const settings *o) {
    pid_t children[MOST_PROCESSES];
    for (int k = 0; k < o->processes; k++) children[k] = start(set, s, k, o->threads);
    for (int running = o->processes; running > 0;) {
        int ended = 0, k = 0;
        const pid_t child = waitpid(-1, &ended, 0);
        if (child < 0) exit(2);
        while (k < o->processes && children[k] != child) k++;
        if (k == o->processes) continue;
        if (WIFEXITED(ended) && WEXITSTATUS(ended) == 0) {
            running--;
            continue;
        }
        const int64_t row = s->working[k];
        if (WIFEXITED(ended) || row < 0) exit(2);
        s->rows[row] = (dump_row){.died = WTERMSIG(ended)};
        (void)fprintf(stderr, "dump: case %" PRId64 " at %s died of signal %d\n",
                      set->first + row / set->level_count, set->levels[row % set->level_count],
                      WTERMSIG(ended));
        children[k] = start(set, s, k, o->threads);
    }
}

static void explain(const dump_rows *set, const settings *o) {
    dump_memory memory = take_memory();
    dump_case *c = calloc(1, sizeof *c);
    char text[400];
    if (c == NULL) exit(2);
    for (int k = 0; k < set->level_count; k++) {
        dump_row row;
        dump_draw(c, &memory, o->explain);
        dump_recipe(c, text, sizeof text);
        (void)printf("case %" PRId64 " at %s: %s\n", o->explain, set->levels[k], text);
        dump_run(c, &memory, o->explain, set->levels[k], o->threads, stdout, &row);
        (void)printf("path: %s\nfolded: %08" PRIx32 "\n", row.path, dump_fold(&row));
    }
    free(c);
    free(memory.base);
}

/* ---- command line -------------------------------------------------------------------------------------- */

static void refuse(const char *why, const char *word) {
    (void)fprintf(stderr,
                  "dump: %s '%s'\nusage: dump [--write FILE [--parts]] [--compare FILE] "
                  "[--explain K] [--statistics]\n            [--first K] [--count N] "
                  "[--level NAME] [--threads T] [--processes P]\n",
                  why, word);
    exit(2);
}

static int64_t number_of(const char *text) {
    char *end;
    const long long number = strtoll(text, &end, 10);
    if (*text == '\0' || *end != '\0' || number < 0) refuse("no number:", text);
    return (int64_t)number;
}

static settings read_settings(int argc, char **argv) {
    settings o = {.count = DUMP_CASES, .explain = -1, .processes = PROCESSES};
    for (int k = 1; k < argc; k++) {
        const char *word = argv[k];
        if (strcmp(word, "--parts") == 0) {
            o.parts = true;
            continue;
        }
        if (strcmp(word, "--statistics") == 0) {
            o.statistics = true;
            continue;
        }
        if (++k == argc) refuse("something must follow, or an unknown word:", word);
        const char *value = argv[k];
        if (strcmp(word, "--write") == 0)
            o.write = value;
        else if (strcmp(word, "--compare") == 0)
            o.compare = value;
        else if (strcmp(word, "--level") == 0)
            o.level = value;
        else if (strcmp(word, "--explain") == 0)
            o.explain = number_of(value);
        else if (strcmp(word, "--first") == 0)
            o.first = number_of(value);
        else if (strcmp(word, "--count") == 0)
            o.count = number_of(value);
        else if (strcmp(word, "--threads") == 0)
            o.threads = (int)number_of(value);
        else if (strcmp(word, "--processes") == 0)
            o.processes = (int)number_of(value);
        else
            refuse("unknown word:", word);
    }
    if (o.processes < 1 || o.processes > MOST_PROCESSES) refuse("1 to 64", "--processes");
    return o;
}

int main(int argc, char **argv) {
    const settings o = read_settings(argc, argv);
    dump_rows set = {.first = o.first, .count = o.count};
    const char *name;
    for (int k = 0; (name = ota_kernel_name(k)) != NULL && set.level_count < DUMP_LEVELS; k++) {
        if (o.level == NULL || strcmp(o.level, name) == 0) set.levels[set.level_count++] = name;
    }
    if (set.level_count == 0) refuse("this CPU has no level", o.level);
    if (o.explain >= 0) {
        explain(&set, &o);
        return 0;
    }
    const size_t rows = (size_t)(set.count * set.level_count);
    shared *s = mmap(NULL, sizeof *s + rows * sizeof(dump_row), PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (s == MAP_FAILED) refuse("no memory for so many cases:", "--count");
    set.rows = s->rows;
    run_all(&set, s, &o);
    int code = 0;
    if (o.statistics) dump_print_statistics(&set);
    if (o.write != NULL && !dump_write(&set, o.write, o.parts)) code = 1;
    if (o.compare != NULL && dump_compare(&set, o.compare) != 0) code = 1;
    return code;
}
