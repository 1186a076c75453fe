/* The kept file and what is said about it. After a header of lines `# ...`, `cases FIRST COUNT` and `parts 0|1`, for
 * every level a line `level NAME` and the digests of its cases in order, ten a line; with parts, a digest is followed
 * by one for every call, joined by points. */
#include "report.h"

#include <inttypes.h>
#include <stdlib.h>

enum { A_LINE = 10, MOST_SHOWN = 20, MOST_COUNTED = 400 };

static const dump_row *row_of(const dump_rows *set, int64_t k, int level) {
    return &set->rows[k * set->level_count + level];
}

/* ---- counting words ---------------------------------------------------------------------------------- */

typedef struct counts {
    struct {
        char word[120];
        int64_t count;
    } list[MOST_COUNTED];
    int count;
} counts;

static void count_word(counts *t, const char *word) {
    int k = 0;
    while (k < t->count && strcmp(t->list[k].word, word) != 0) k++;
    if (k == MOST_COUNTED) return;
    if (k == t->count) {
        (void)snprintf(t->list[k].word, sizeof t->list[k].word, "%.*s",
                       (int)sizeof t->list[k].word - 1, word);
        t->list[k].count = 0;
        t->count++;
    }
    t->list[k].count++;
}

static void print_counts(counts *t, const char *title) {
    (void)printf("%s\n", title);
    for (int left = t->count; left > 0; left--) {
        int best = 0;
        for (int k = 1; k < t->count; k++) {
            if (t->list[k].count > t->list[best].count) best = k;
        }
        (void)printf("  %8" PRId64 "  %s\n", t->list[best].count, t->list[best].word);
        t->list[best].count = -1;
    }
}

static void method_of(const dump_case *c, char *text, size_t size) {
    char name[160];
    (void)ota_method_name(&c->problem, name, sizeof name);
    /* Without the numbers of the column rule. */
    const char *slash = strchr(name, '/');
    const size_t length =
        slash == NULL ? strlen(name) : (size_t)(slash - name) + strcspn(slash, ":");
    (void)snprintf(text, size, "%.*s%s%s", (int)length, name,
                   c->problem.rows == OTA_ROWS_RELAXED ? ", relaxed rows" : "",
                   c->problem.axis == OTA_AXIS_COLUMNS ? ", columns axis" : "");
}

/* ---- writing ----------------------------------------------------------------------------------------- */

static void write_level(const dump_rows *set, FILE *file, int level, bool parts) {
    (void)fprintf(file, "level %s\n", set->levels[level]);
    for (int64_t k = 0; k < set->count; k++) {
        const dump_row *row = row_of(set, k, level);
        (void)fprintf(file, "%08" PRIx32, dump_fold(row));
        for (int part = 0; parts && part < DUMP_PARTS; part++)
            (void)fprintf(file, ".%08" PRIx32, dump_fold_part(row, part));
        const bool last = k % A_LINE == A_LINE - 1 || k == set->count - 1;
        (void)fputc(last ? '\n' : ' ', file);
    }
}

bool dump_write(const dump_rows *set, const char *path, bool parts) {
    FILE *file = fopen(path, "w");
    if (file == NULL) {
        (void)fprintf(stderr, "dump: %s cannot be written\n", path);
        return false;
    }
    (void)fprintf(
        file,
        "# Digests of the outputs of random cases, made by otattn %s; see tests/dump/dump.c.\n"
        "# They hold for machines whose libm gives the same bits.\n"
        "# Levels:",
        ota_version());
    for (int k = 0; k < set->level_count; k++) (void)fprintf(file, " %s", set->levels[k]);
    (void)fprintf(file, "\ncases %" PRId64 " %" PRId64 "\nparts %d\n", set->first, set->count,
                  parts ? 1 : 0);
    for (int k = 0; k < set->level_count; k++) write_level(set, file, k, parts);
    if (fclose(file) == 0) return true;
    (void)fprintf(stderr, "dump: %s could not be written in full\n", path);
    return false;
}

/* ---- comparing --------------------------------------------------------------------------------------- */

typedef struct comparison {
    const dump_rows *set;
    int64_t passed, failed, skipped;
    counts by_method, by_call;
    dump_memory memory;
    dump_case drawn;
} comparison;

/* The calls whose digests differ; where the file has none for them, nothing is known. */
static void name_calls(comparison *x, const dump_row *row, const char *kept, char *text,
                       size_t size) {
    text[0] = '\0';
    for (int part = 0; part < DUMP_PARTS; part++) {
        kept = strchr(kept, '.');
        if (kept == NULL) return;
        if (strtoul(++kept, NULL, 16) == dump_fold_part(row, part)) continue;
        const size_t used = strlen(text);
        (void)snprintf(text + used, size - used, "%s %s", used == 0 ? " in" : "",
                       dump_part_names[part]);
        count_word(&x->by_call, dump_part_names[part]);
    }
}

static void fail(comparison *x, int64_t k, int level, const char *kept) {
    const dump_row *row = row_of(x->set, k, level);
    char recipe[400], method[160], calls[120];
    x->failed++;
    dump_draw(&x->drawn, &x->memory, x->set->first + k);
    method_of(&x->drawn, method, sizeof method);
    name_calls(x, row, kept, calls, sizeof calls);
    count_word(&x->by_method, method);
    if (x->failed > MOST_SHOWN) return;
    dump_recipe(&x->drawn, recipe, sizeof recipe);
    (void)printf("case %" PRId64 " at %s%s: %s", x->set->first + k, x->set->levels[level], calls,
                 recipe);
    if (row->died != 0) (void)printf("; died of signal %d", row->died);
    (void)putchar('\n');
}

static int level_named(const dump_rows *set, const char *name) {
    for (int k = 0; k < set->level_count; k++) {
        if (strcmp(set->levels[k], name) == 0) return k;
    }
    return -1;
}

/* One level of the file. `have`: which of the set's rows the file knew. */
static void compare_level(comparison *x, FILE *file, int level, int64_t first, int64_t count) {
    char kept[160];
    for (int64_t k = first; k < first + count && fscanf(file, "%159s", kept) == 1; k++) {
        const int64_t at = k - x->set->first;
        if (level < 0 || at < 0 || at >= x->set->count) {
            x->skipped++;
            continue;
        }
        const dump_row *row = row_of(x->set, at, level);
        if (row->died == 0 && strtoul(kept, NULL, 16) == dump_fold(row))
            x->passed++;
        else
            fail(x, at, level, kept);
    }
}

static void compare_file(comparison *x, FILE *file) {
    bool known[DUMP_LEVELS] = {false};
    char line[256], name[64] = "";
    int64_t first = 0, count = 0;
    while (fgets(line, sizeof line, file) != NULL) {
        (void)sscanf(line, "cases %" SCNd64 " %" SCNd64, &first, &count);
        if (sscanf(line, "level %63s", name) != 1) continue;
        const int level = level_named(x->set, name);
        if (level >= 0) known[level] = true;
        compare_level(x, file, level, first, count);
    }
    for (int level = 0; level < x->set->level_count; level++) {
        for (int64_t k = 0; k < x->set->count; k++) {
            const int64_t number = x->set->first + k;
            if (!known[level] || number < first || number >= first + count) x->skipped++;
        }
    }
}

int dump_compare(const dump_rows *set, const char *path) {
    FILE *file = fopen(path, "r");
    comparison *x = calloc(1, sizeof *x);
    if (file == NULL || x == NULL) {
        (void)fprintf(stderr, "dump: %s cannot be read\n", path);
        if (file != NULL) (void)fclose(file);
        free(x);
        return 1;
    }
    x->set = set;
    x->memory.size = DUMP_MEMORY;
    x->memory.base = aligned_alloc(64, DUMP_MEMORY);
    if (x->memory.base == NULL) exit(2);
    compare_file(x, file);
    (void)fclose(file);
    if (x->failed > MOST_SHOWN) {
        (void)printf("... and %" PRId64 " more\n", x->failed - MOST_SHOWN);
    }
    if (x->by_method.count > 0) print_counts(&x->by_method, "rows that differ, by method:");
    if (x->by_call.count > 0) print_counts(&x->by_call, "by call:");
    /* A file that matched nothing is no comparison. */
    if (x->passed + x->failed == 0) x->failed = 1;
    (void)printf("%" PRId64 " passed, %" PRId64 " failed, %" PRId64 " skipped\n", x->passed,
                 x->failed, x->skipped);
    const int code = x->failed > 0 ? 1 : 0;
    free(x->memory.base);
    free(x);
    return code;
}

/* ---- statistics -------------------------------------------------------------------------------------- */

static void count_statuses(const dump_rows *set, int part) {
    static counts statuses;
    char title[80];
    statuses.count = 0;
    for (int64_t k = 0; k < set->count * set->level_count; k++) {
        const int status = set->rows[k].status[part];
        if (status != OTA_UNSOLVED) count_word(&statuses, ota_status_word((ota_status)status));
    }
    (void)snprintf(title, sizeof title, "%s:", dump_part_names[part]);
    print_counts(&statuses, title);
}

/* The worst status of plan, forward, backward and the others. */
static bool went_well(const dump_row *row) {
    int worst = OTA_UNSOLVED;
    for (int part = 0; part < DUMP_PARTS; part++) {
        const int status = row->status[part];
        if (status != OTA_UNSOLVED && (worst == OTA_UNSOLVED || status < worst)) worst = status;
    }
    return worst >= OTA_OK;
}

void dump_print_statistics(const dump_rows *set) {
    static counts paths, solvers, methods, slow;
    dump_memory memory = {.base = aligned_alloc(64, DUMP_MEMORY), .size = DUMP_MEMORY};
    dump_case *c = malloc(sizeof *c);
    int64_t well = 0, forward = 0;
    double seconds = 0.0;
    if (memory.base == NULL || c == NULL) exit(2);
    for (int part = 0; part < DUMP_PARTS; part++) count_statuses(set, part);
    for (int64_t k = 0; k < set->count; k++) {
        char name[160];
        dump_draw(c, &memory, set->first + k);
        method_of(c, name, sizeof name);
        for (int level = 0; level < set->level_count; level++) {
            const dump_row *row = row_of(set, k, level);
            well += went_well(row);
            forward += row->status[DUMP_PART_FORWARD] >= OTA_OK;
            seconds += row->seconds;
            count_word(&methods, name);
            if (row->solver[0] != '\0') count_word(&solvers, row->solver);
            if (row->path[0] != '\0') count_word(&paths, row->path);
            if (row->seconds > 0.1) {
                char text[120];
                (void)snprintf(text, sizeof text, "case %" PRId64 " at %s: %.3f s", set->first + k,
                               set->levels[level], row->seconds);
                count_word(&slow, text);
            }
        }
    }
    const double rows = (double)(set->count * set->level_count);
    print_counts(&paths, "paths:");
    print_counts(&solvers, "solvers:");
    print_counts(&methods, "methods:");
    print_counts(&slow, "rows that took more than 0.1 s:");
    (void)printf(
        "%.1f %% of forward calls and %.1f %% of rows in all their calls end well; %.1f s\n",
        100.0 * (double)forward / rows, 100.0 * (double)well / rows, seconds);
    free(c);
    free(memory.base);
}
