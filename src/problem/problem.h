/* A checked problem: what validation (src/validation/) makes of the caller's structs, with every default filled
 * in, and the small questions the layers above ask of it: range of a row's keys, value of the terms,
 * masks, masses. Nothing here solves anything.
 *
 * This folder: checks of single fields and arrays, defaults, masses, arrays of any type and strides, feasibility of
 * masked transport, dropout, a block of keys (key_block.h), and what a problem asks of other processes (ranks.h).
 * May call: base/. */
#ifndef OTA_PROBLEM_H
#define OTA_PROBLEM_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "otattn.h"

struct ota_pool;

enum { OTA_MAX_TERMS = 16, OTA_MAX_SUPPORTS = 16 };

/* When a solve ends, and which ends are failures. */
typedef struct ota_stop {
    double tolerance, tolerance_scaling;
    int64_t max_rounds, rounds;
    bool fixed; /* exactly `rounds` rounds */
    bool allow_partial, strict;
} ota_stop;

/* Temperatures of the rounds; start 0: that of the problem. */
typedef struct ota_annealing {
    double start, factor;
    int64_t rounds;
    bool keep_scaling;
} ota_annealing;

/* What the work may take. */
typedef struct ota_limits {
    int threads;
    size_t workspace;
    int64_t deadline_ns; /* of the call at hand: ota_plan_set_deadline */
    char cpu[16];
} ota_limits;

/* What is the caller's, and called or read while the work is done. */
typedef struct ota_calls {
    const ota_executor *executor;
    const int *cancel;
    void (*progress)(void *user, const ota_progress *progress);
    void *progress_user;
} ota_calls;

/* The options after defaults (fields.h): what becomes of each is its row's `setting`. */
typedef struct ota_settings {
    struct ota_ranks *ranks; /* ranks.h; NULL: one process */
    ota_stop stop;
    ota_annealing anneal;
    ota_limits limits;
    ota_calls calls;
    double relaxation;
    bool relaxation_auto;
    ota_center center;
    ota_precision precision;
    bool prune;
    bool gradients; /* reserve the backward workspace */
    int backward;   /* 0 auto, 1 implicit, 2 unrolled */
    char solver[32];
    char backend[16]; /* "": the default */
} ota_settings;

/* Which rows of the whole problem this process holds: row i is row i + first of all, from `split` on i + first + jump.
 * One process: zeros, and all rows. */
typedef struct ota_share {
    int64_t first, split, jump;
    int64_t rows; /* of all processes */
    /* Of a block of keys and heads (key_block.h) what its first ones are in the whole problem; 0 without. */
    int64_t key_first, batch, head;
} ota_share;

/* `problem` is a full-size copy whose terms and supports point into this struct (so a resolved problem
 * is not copied by assignment: use ota_resolved_copy). Sorted: terms by application order. */
typedef struct ota_resolved {
    ota_problem problem;
    ota_term terms[OTA_MAX_TERMS + 1]; /* one more of a block of keys */
    int term_count;                    /* without the sink */
    bool has_sink;
    bool adds_pairs; /* some term or support is an array of numbers that are added to pairs */
    ota_term sink;
    int term_places[OTA_MAX_TERMS + 1], sink_place; /* in the caller's order */
    ota_support supports[OTA_MAX_SUPPORTS + 1];     /* one more of a block of keys */
    int support_count;
    bool from_matrix;
    ota_type type; /* of queries or the matrix */
    int64_t batch, heads, key_heads, queries, keys, width;
    double scale;   /* sign of `cost` folded in */
    double order;   /* alpha; 1 for softmax, 0 for hard */
    int64_t offset; /* position of the whole problem's query 0 */
    ota_share share;
    int64_t rule_rounds; /* that the column rule fixes; -1: none */
    bool row_terms;      /* some term or support must be evaluated pair by pair */
    ota_settings settings;
} ota_resolved;

/* A row's number in the whole problem, and its position, counted from the first key. */
static inline int64_t ota_row_number(const ota_resolved *r, int64_t query) {
    return query + r->share.first + (query < r->share.split ? 0 : r->share.jump);
}
static inline int64_t ota_row_position(const ota_resolved *r, int64_t query) {
    return ota_row_number(r, query) + r->offset - r->share.key_first;
}

/* cancel flag and deadline of this process; OTA_OK to go on. Whoever was told to end is told so until the call returns, and
 * every call asks once more when all is done: work that ends early may leave anything behind and needs no answer of its own. */
ota_status ota_interrupted(const ota_settings *settings);
/* Was this call cancelled by a caller who leaves the outputs unread? */
bool ota_reads_no_outputs(const ota_settings *settings);

/* How work that may be long asks, between pieces of it, whether to go on; all zeros: never asks. */
typedef struct ota_watch {
    ota_status (*interrupted)(const ota_settings *settings);
    const ota_settings *settings;
    int64_t work; /* since the last question */
} ota_watch;

/* Pairs, or what takes as long, between two questions: milliseconds where a pair costs a power, and a question takes some
 * thirty nanoseconds. */
enum { OTA_WATCH_WORK = 1 << 17 };

/* Asks at once, and then now and then. For work within which no process sends anything, and whose results nobody acts on
 * before the next sum over the ranks, which says that this process was interrupted (ranks.h). */
static inline ota_watch ota_watch_within(const ota_settings *settings) {
    return (ota_watch){
        .interrupted = ota_interrupted, .settings = settings, .work = OTA_WATCH_WORK};
}
/* The same, but that rows on many processes never ask: they end together, by the sums of a round. */
static inline ota_watch ota_watch_of(const ota_settings *settings) {
    ota_watch watch = ota_watch_within(settings);
    if (settings->ranks != NULL) watch.interrupted = NULL;
    return watch;
}
static inline ota_status ota_watch_ask(const ota_watch *watch) {
    return watch->interrupted == NULL ? OTA_OK : watch->interrupted(watch->settings);
}
/* The same where so many pairs more were worked on that it is time. */
static inline ota_status ota_watch_spend(ota_watch *watch, int64_t pairs) {
    watch->work += pairs;
    if (watch->work < OTA_WATCH_WORK) return OTA_OK;
    watch->work = 0;
    const ota_status status = ota_watch_ask(watch);
    if (status != OTA_OK) watch->work = OTA_WATCH_WORK; /* to be told at once again */
    return status;
}
static inline bool ota_watch_ends(ota_watch *watch, int64_t pairs) {
    return ota_watch_spend(watch, pairs) != OTA_OK;
}
/* The next rows [*from, *to) before `last`, *to being where the rows before them ended: as many groups of 8, which kernels
 * work on at once, as are worth a question. False: there are none, or it is time to end. */
static inline bool ota_watch_rows(ota_watch *watch, int64_t pairs_a_row, int64_t last,
                                  int64_t *from, int64_t *to) {
    enum { GROUP = 8 };
    const int64_t pairs = pairs_a_row > 0 ? pairs_a_row : 1;
    const int64_t groups = OTA_WATCH_WORK / pairs / GROUP;
    if (*to >= last || ota_watch_ends(watch, (*to - *from) * pairs)) return false;
    *from = *to;
    *to = last - *from > GROUP * (groups + 1) ? *from + GROUP * (groups + 1) : last;
    return true;
}
/* The same for sums over columns (ota_host_algebra.columns_sum), which take rows with f > -inf four at a time: a piece ends
 * where such a group does. */
static inline bool ota_watch_groups(ota_watch *watch, int64_t pairs_a_row, const double *f,
                                    int64_t last, int64_t *from, int64_t *to) {
    enum { AT_ONCE = 4 };
    int64_t taken = 0;
    if (!ota_watch_rows(watch, pairs_a_row, last, from, to)) return false;
    for (int64_t i = *from; i < *to; i++) taken += f[i] > -INFINITY;
    for (; *to < last && taken % AT_ONCE != 0; ++*to) taken += f[*to] > -INFINITY;
    return true;
}
/* What a row of the problem's scores takes: sixteen products of a query with a key are a pair. */
static inline int64_t ota_row_work(const ota_resolved *r) {
    return r->keys * (1 + (r->from_matrix ? 0 : r->width / 16));
}
void ota_resolved_copy(ota_resolved *to, const ota_resolved *from);

/* error.c: fills `error` when not NULL and returns `status`. `format` is printf-like. */
ota_status ota_fail(ota_error *error, ota_status status, const char *field, const char *hint,
                    const char *format, ...) __attribute__((format(printf, 5, 6)));

/* array.c: one element as double; index broadcasts where the size is 1. */
double ota_array_get(const ota_array *array, int64_t batch, int64_t head, int64_t row,
                     int64_t column);
/* What is added to the score of a pair forbids it from this number down: half of the type's least finite number. Masks stand
 * for "forbidden" by that least number where -inf would make NaN. */
double ota_forbidding_addend(ota_type type);
/* What masks and biases must add to a pair to mean "forbidden" by a number that does not forbid: about the -1e4 of masks in f16,
 * as bf16 rounds it. */
#define OTA_MASKED_ADDEND (-9984.0)
int64_t ota_array_get_integer(const ota_array *array, int64_t b, int64_t h, int64_t r, int64_t c);
void ota_array_set(const ota_array *array, int64_t b, int64_t h, int64_t r, int64_t c,
                   double value);
/* Quiet NaN into all rows of a head of an array of floats, where it is present. */
void ota_array_poison(struct ota_pool *pool, const ota_array *array, int64_t batch, int64_t head);
static inline bool ota_array_present(const ota_array *array) {
    return array->type != OTA_NO_TYPE || array->data != NULL;
}
/* First and one-past-last byte the array can touch; empty arrays give NULL, NULL. */
void ota_array_extent(const ota_array *array, const char **first, const char **last);
/* Rows of one head of an array, one after another, in `type`; returns what follows. */
unsigned char *ota_array_pack(const ota_array *a, ota_type type, int64_t batch, int64_t head,
                              void *to);
bool ota_arrays_overlap(const ota_array *a, const ota_array *b);
/* From the smallest stride up, every step must leap over all that lies below it; layouts that interleave
 * without touching count as overlapping too. */
bool ota_array_overlaps_itself(const ota_array *a);

/* Facts of one head. */
double ota_head_temperature(const ota_resolved *r, int64_t head);
/* Does f32 carry potentials, which are of the temperature's size, and 1 / temperature? */
bool ota_f32_carries_temperatures(const ota_resolved *r);
double ota_head_sink(const ota_resolved *r, int64_t head); /* -inf without a sink */
bool ota_some_sink(const ota_resolved *r);                 /* does any head have one? */
double ota_row_mass(const ota_resolved *r, int64_t batch, int64_t head, int64_t query);
/* The caller's column mass, or `otherwise` when none was given. */
double ota_column_mass(const ota_resolved *r, int64_t batch, int64_t head, int64_t key,
                       double otherwise);
/* Totals of masses that differ by less, relative, count as equal (numerics 3.7): what neither the problem's type nor theirs can
 * tell apart. */
double ota_mass_tolerance(const ota_resolved *r);
double ota_key_lambda(const ota_resolved *r, int64_t key);

/* entry_caps.c: caps of single weights. */
typedef struct ota_entry_caps {
    double cap;             /* of every pair; INFINITY: none */
    const ota_array *array; /* NULL: `cap` alone */
    int64_t batch, head;
    bool transposed; /* lines are keys and their entries queries */
} ota_entry_caps;

bool ota_has_entry_caps(const ota_problem *problem);
/* Of one head in the orientation of the solver; borrows the problem's array. */
ota_entry_caps ota_entry_caps_of(const ota_resolved *r, int64_t batch, int64_t head);
static inline double ota_entry_cap(const ota_entry_caps *caps, int64_t line, int64_t entry) {
    if (caps->array == NULL) return caps->cap;
    return caps->transposed ? ota_array_get(caps->array, caps->batch, caps->head, entry, line)
                            : ota_array_get(caps->array, caps->batch, caps->head, line, entry);
}

/* dropout.c: multiplies what stands for keys from + keys[0 .. count) of a query, NULL: [from, from + count), by 0 or
 * 1 / (1 - dropout); only called with dropout > 0. `key` belongs to a head. */
void ota_dropout_head(const ota_resolved *r, int64_t batch, int64_t head, uint32_t key[2]);
void ota_dropout_row_f32(const ota_resolved *r, const uint32_t key[2], int64_t query, int64_t from,
                         const int32_t *keys, int64_t count, float *row);
void ota_dropout_row_f64(const ota_resolved *r, const uint32_t key[2], int64_t query, int64_t from,
                         const int32_t *keys, int64_t count, double *row);

/* check_arrays.c: the checks of forward. `full` becomes a full-size copy of `given`. */
ota_status ota_arrays_check(const ota_resolved *r, int64_t values_width, const ota_arrays *given,
                            ota_arrays *full, ota_error *error);
/* The array of the problem that `out` overlaps, or NULL. */
const char *ota_problem_overlapped(const ota_resolved *r, const ota_array *out);
/* The field of an output that overlaps `input`, or NULL. */
const char *ota_arrays_written_on(const ota_arrays *arrays, const ota_array *input);

#endif
