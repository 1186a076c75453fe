/* test_maxsim.c: otattn_maxsim.h on every level this CPU has, against the plain loops of reference_maxsim.h. A score is a sum of
 * products in f32, each wrong by at most (width + 2) u times the sum of its terms' sizes. Gradients are those of the loops, by
 * differences along drawn directions. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "draw/random.h"
#include "groups.h"
#include "otattn_maxsim.h"
#include "problem/problem.h"
#include "reference/reference_maxsim.h"

static dice dice_state;

enum { QUERIES = 3, DOCUMENTS = 21, LONGEST = 100, WIDEST = 130, TOKENS = DOCUMENTS * LONGEST };

typedef struct scene {
    int64_t n, width, tokens;
    ota_type type;
    bool transposed; /* widths lie apart, tokens side by side */
    double queries[QUERIES * 70 * WIDEST], documents[TOKENS * WIDEST];
    int64_t lengths[QUERIES], offsets[DOCUMENTS + 1];
    void *stored, *whole;
    size_t bytes;
    double stored_queries[QUERIES * 70 * WIDEST]; /* room for any type */
    float scores[QUERIES * DOCUMENTS], again[QUERIES * DOCUMENTS];
    int64_t best[QUERIES * DOCUMENTS];
    ota_late_interaction problem;
} scene;

/* Numbers go through the type they are stored in. */
static void store(const ota_array *to, double *numbers, int64_t heads, int64_t rows) {
    for (int64_t h = 0; h < heads; h++) {
        for (int64_t i = 0; i < rows; i++) {
            for (int64_t w = 0; w < to->size[3]; w++) {
                double *x = numbers + (h * rows + i) * to->size[3] + w;
                ota_array_set(to, 0, h, i, w, *x);
                *x = ota_array_get(to, 0, h, i, w);
            }
        }
    }
}

static void place(scene *s) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t used = (size_t)(s->tokens * s->width) * ota_type_bytes(s->type);
    s->bytes = (used + page - 1) / page * page + page;
    s->whole = mmap(NULL, s->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(s->whole, MAP_FAILED);
    assert_int_equal(mprotect((char *)s->whole + s->bytes - page, page, PROT_NONE), 0);
    /* The last number ends where a page begins that nobody may touch. */
    s->stored = (char *)s->whole + s->bytes - page - used;
    ota_late_interaction *p = &s->problem;
    p->documents = ota_array_of(s->stored, s->type, 1, 1, s->tokens, s->width);
    if (s->transposed) {
        p->documents.stride[2] = 1;
        p->documents.stride[3] = s->tokens;
    }
    store(&p->documents, s->documents, 1, s->tokens);
}

static void set_up(scene *s, uint64_t seed, int64_t n, int64_t width, ota_type type,
                   bool transposed) {
    static const int64_t counts[] = {0, 1, 5, 48, 49, LONGEST, 0, 17, 96};
    memset(s, 0, sizeof *s);
    dice_state = seed;
    s->n = n;
    s->width = width;
    s->type = type;
    s->transposed = transposed;
    for (int d = 0; d < DOCUMENTS; d++)
        s->offsets[d + 1] = s->offsets[d] + counts[(d + (int)seed) % 9];
    s->tokens = s->offsets[DOCUMENTS];
    for (int64_t k = 0; k < QUERIES * n * width; k++)
        s->queries[k] = 2.0 * uniform(&dice_state) - 1.0;
    for (int64_t k = 0; k < s->tokens * width; k++)
        s->documents[k] = 2.0 * uniform(&dice_state) - 1.0;
    ota_late_interaction *p = &s->problem;
    p->size = sizeof *p;
    p->queries = ota_array_of(s->stored_queries, type, 1, QUERIES, n, width);
    store(&p->queries, s->queries, QUERIES, n);
    p->offsets = s->offsets;
    p->document_count = DOCUMENTS;
    place(s);
}

static void put_away(scene *s) { munmap(s->whole, s->bytes); }

static void call(scene *s, float *scores) {
    ota_error error;
    if (ota_maxsim(&s->problem, scores, s->best, &error) < 0) fail_msg("%s", error.message);
}

static int64_t length_of(const scene *s, int q) {
    return s->problem.query_lengths != NULL ? s->lengths[q] : s->n;
}

static void check(const scene *s, const float *scores) {
    for (int q = 0; q < QUERIES; q++) {
        for (int d = 0; d < DOCUMENTS; d++) {
            const double *query = s->queries + q * s->n * s->width;
            const double *document = s->documents + s->offsets[d] * s->width;
            const int64_t m = s->offsets[d + 1] - s->offsets[d], n = length_of(s, q);
            const double want = reference_maxsim(query, n, document, m, s->width, 0);
            const double size = reference_maxsim_size(query, n, document, m, s->width);
            const double got = (double)scores[q * DOCUMENTS + d];
            const double most = FLT_EPSILON * ((double)s->width + 2.0) * size;
            if (!(fabs(got - want) <= most) && !(isinf(want) && got == want))
                fail_msg("query %d, document %d of %d tokens: %.9g where %.9g is expected", q, d,
                         (int)m, got, want);
        }
    }
}

static void scores_are_those_of_the_loops(void **state) {
    (void)state;
    static const int64_t tokens[] = {1, 5, 16, 33, 64, 70}, widths[] = {1, 7, 64, 65, 128, WIDEST};
    static const ota_type types[] = {OTA_F32, OTA_BF16, OTA_F16};
    scene *s = malloc(sizeof *s);
    assert_non_null(s);
    for (uint64_t k = 0; k < 36; k++) {
        set_up(s, k + 1, tokens[k % 6], widths[k / 6], types[k % 3], k % 5 == 4);
        s->lengths[0] = tokens[k % 6];
        s->lengths[1] = tokens[k % 6] / 2;
        if (k % 4 == 1) s->problem.query_lengths = s->lengths;
        for (int level = 0; ota_kernel_name(level) != NULL; level++) {
            s->problem.cpu = ota_kernel_name(level);
            s->problem.threads = 1;
            call(s, s->scores);
            check(s, s->scores);
            s->problem.threads = 3;
            call(s, s->again);
            assert_memory_equal(s->scores, s->again, sizeof s->scores);
        }
        put_away(s);
    }
    free(s);
}

static void a_score_is_its_own(void **state) {
    (void)state;
    scene *s = malloc(sizeof *s);
    assert_non_null(s);
    set_up(s, 3, 33, 65, OTA_F32, false);
    call(s, s->scores);
    /* One document and one query at a time, with the tokens cut by document_lengths instead. */
    const int64_t places[] = {0, s->tokens};
    for (int d = 0; d < DOCUMENTS; d++) {
        for (int q = 0; q < QUERIES; q++) {
            const int64_t offsets[] = {s->offsets[d], places[1]};
            const int64_t length = s->offsets[d + 1] - s->offsets[d];
            ota_late_interaction one = s->problem;
            one.queries.size[1] = 1;
            one.queries.data = (float *)(void *)s->stored_queries + q * 33 * 65;
            one.offsets = offsets;
            one.document_lengths = &length;
            one.document_count = 1;
            float score;
            assert_int_equal(ota_maxsim(&one, &score, NULL, NULL), OTA_OK);
            assert_memory_equal(&score, &s->scores[q * DOCUMENTS + d], sizeof score);
        }
    }
    put_away(s);
    free(s);
}

static void the_best_are_sorted(void **state) {
    (void)state;
    scene *s = malloc(sizeof *s);
    assert_non_null(s);
    set_up(s, 5, 16, 7, OTA_F32, false);
    /* Equal documents: the first one leads. */
    for (int64_t k = 0; k < s->tokens * 7; k++) ((float *)s->stored)[k] = k % 7 == 0 ? 1.0F : 0.0F;
    ((float *)s->stored)[(s->offsets[DOCUMENTS] - 1) * 7] = (float)NAN;
    assert_int_equal(ota_maxsim(&s->problem, s->scores, NULL, NULL), OTA_NONFINITE_ROWS);
    for (int64_t top = 1; top <= DOCUMENTS; top++) {
        s->problem.top = top;
        assert_int_equal(ota_maxsim(&s->problem, s->again, s->best, NULL), OTA_NONFINITE_ROWS);
        for (int q = 0; q < QUERIES; q++) {
            for (int64_t k = 0; k < top; k++) {
                const int64_t at = s->best[q * top + k];
                const float score = s->again[q * top + k], *all = s->scores + q * DOCUMENTS;
                assert_memory_equal(&score, &all[at], sizeof score);
                int64_t before = 0;
                for (int d = 0; d < DOCUMENTS; d++)
                    before += isnan(score) ? !isnan(all[d]) || d < at
                                           : all[d] > score ||
                                                 (!(all[d] < score) && !isnan(all[d]) && d < at);
                assert_int_equal(before, k);
            }
        }
    }
    put_away(s);
    free(s);
}

static void capacities_are_matchings(void **state) {
    (void)state;
    scene *s = malloc(sizeof *s);
    assert_non_null(s);
    for (uint64_t k = 0; k < 12; k++) {
        set_up(s, k + 50, 1 + (int64_t)(k % 4), 3, k % 2 == 0 ? OTA_F32 : OTA_BF16, false);
        for (int d = 0; d <= DOCUMENTS; d++) s->offsets[d] = d * (d - 1) / 2 % 5 + 5 * d;
        s->offsets[DOCUMENTS] = s->offsets[DOCUMENTS - 1] + 3;
        for (int64_t capacity = 1; capacity <= 5; capacity++) {
            s->problem.capacity = capacity;
            call(s, s->scores);
            for (int q = 0; q < QUERIES; q++) {
                for (int d = 0; d < DOCUMENTS; d++) {
                    const int64_t m = s->offsets[d + 1] - s->offsets[d];
                    const double want =
                        reference_maxsim(s->queries + q * s->n * 3, s->n,
                                         s->documents + s->offsets[d] * 3, m, 3, capacity);
                    const double got = (double)s->scores[q * DOCUMENTS + d];
                    if (!(fabs(got - want) <= 1.0e-5) && !(isinf(want) && got == want))
                        fail_msg("capacity %d, %d tokens to %d: %.9g where %.9g is expected",
                                 (int)capacity, (int)s->n, (int)m, got, want);
                }
            }
        }
        put_away(s);
    }
    free(s);
}

/* The score of the chosen pairs, and the largest number of query tokens that one token serves. */
static double chosen_score(const scene *s, int q, int d, const int64_t *chosen, int64_t *most) {
    const double *query = s->queries + q * s->n * s->width;
    const double *document = s->documents + s->offsets[d] * s->width;
    int64_t used[LONGEST] = {0};
    double sum = 0.0;
    *most = 0;
    for (int64_t i = 0; i < s->n; i++) {
        const int64_t j = chosen[i];
        if (j < 0) continue;
        assert_true(i < length_of(s, q) && j < s->offsets[d + 1] - s->offsets[d]);
        used[j]++;
        *most = used[j] > *most ? used[j] : *most;
        for (int64_t w = 0; w < s->width; w++)
            sum += query[i * s->width + w] * document[j * s->width + w];
    }
    return sum;
}

static void choices_make_the_scores(void **state) {
    (void)state;
    scene *s = malloc(sizeof *s);
    int64_t *chosen = malloc((size_t)QUERIES * DOCUMENTS * 70 * sizeof *chosen);
    assert_non_null(s);
    assert_non_null(chosen);
    for (uint64_t k = 0; k < 12; k++) {
        set_up(s, k + 90, k % 2 == 0 ? 33 : 7, k % 3 == 0 ? 65 : 12,
               (ota_type[]){OTA_F32, OTA_BF16}[k % 2], k == 5);
        s->lengths[0] = s->n;
        s->lengths[1] = s->n / 2;
        if (k % 4 < 2) s->problem.query_lengths = s->lengths;
        s->problem.capacity = (int64_t[]){0, 1, 3}[k % 3];
        s->problem.threads = 1 + (int)(k % 3);
        call(s, s->again);
        s->problem.chosen = chosen;
        call(s, s->scores);
        /* NaN nowhere, so equal numbers are equal bits but for zeros. */
        assert_memory_equal(s->scores, s->again, sizeof s->scores);
        for (int q = 0; q < QUERIES; q++) {
            for (int d = 0; d < DOCUMENTS; d++) {
                const double *query = s->queries + q * s->n * s->width;
                const double *document = s->documents + s->offsets[d] * s->width;
                const int64_t m = s->offsets[d + 1] - s->offsets[d], n = length_of(s, q);
                const double size = reference_maxsim_size(query, n, document, m, s->width);
                const int64_t *own = chosen + (q * DOCUMENTS + d) * s->n;
                int64_t most, served = 0;
                const double found = chosen_score(s, q, d, own, &most);
                const double got = (double)s->scores[q * DOCUMENTS + d];
                for (int64_t i = 0; i < s->n; i++) served += own[i] >= 0;
                if (m > 0 && !(fabs(got - found) <= FLT_EPSILON * ((double)s->width + 2.0) * size))
                    fail_msg("query %d, document %d: the choice has %.9g, the score is %.9g", q, d,
                             found, got);
                const int64_t capacity = s->problem.capacity;
                const bool few = capacity > 0 && capacity * m < n;
                assert_int_equal(served, m == 0 ? 0 : few ? capacity * m : n);
                assert_true(capacity == 0 || most <= capacity);
            }
        }
        put_away(s);
    }
    /* Of equal tokens the first. */
    set_up(s, 5, 16, 7, OTA_F32, false);
    for (int64_t k = 0; k < s->tokens * 7; k++) ((float *)s->stored)[k] = 1.0F;
    s->problem.chosen = chosen;
    call(s, s->scores);
    for (int64_t k = 0; k < (int64_t)QUERIES * DOCUMENTS * 16; k++) {
        const int64_t d = k / 16 % DOCUMENTS;
        assert_int_equal(chosen[k], s->offsets[d + 1] > s->offsets[d] ? 0 : -1);
    }
    put_away(s);
    free(chosen);
    free(s);
}

/* sum of G[q][d] score(q, d) by the loops; empty documents have none. */
static double weighed(const scene *s, const float *weights) {
    double sum = 0.0;
    for (int q = 0; q < QUERIES; q++) {
        for (int d = 0; d < DOCUMENTS; d++) {
            const int64_t m = s->offsets[d + 1] - s->offsets[d];
            if (m == 0) continue;
            sum += (double)weights[q * DOCUMENTS + d] *
                   reference_maxsim(s->queries + q * s->n * s->width, length_of(s, q),
                                    s->documents + s->offsets[d] * s->width, m, s->width,
                                    s->problem.capacity);
        }
    }
    return sum;
}

/* The derivative along `along` by differences; where no choice changes within the step a score is linear in one side. */
static double difference(const scene *s, const float *weights, double *moved, const double *along,
                         int64_t count) {
    const double step = 1e-6;
    double values[2];
    for (int side = 0; side < 2; side++) {
        for (int64_t k = 0; k < count; k++) moved[k] += (side == 0 ? step : -2.0 * step) * along[k];
        values[side] = weighed(s, weights);
    }
    for (int64_t k = 0; k < count; k++) moved[k] += step * along[k];
    return (values[0] - values[1]) / (2.0 * step);
}

static double inner(const float *gradient, const double *along, int64_t count, double *size) {
    double sum = 0.0;
    *size = 0.0;
    for (int64_t k = 0; k < count; k++) {
        sum += (double)gradient[k] * along[k];
        *size += fabs((double)gradient[k] * along[k]);
    }
    return sum;
}

static void gradients_are_differences(void **state) {
    (void)state;
    enum { MOST = QUERIES * 70 * WIDEST };
    scene *s = malloc(sizeof *s);
    double *along = malloc((size_t)TOKENS * WIDEST * sizeof *along);
    float *of_documents = malloc((size_t)TOKENS * WIDEST * sizeof *of_documents);
    float *of_queries = malloc((size_t)MOST * sizeof *of_queries),
          *again = malloc((size_t)MOST * sizeof *again);
    int64_t *chosen = malloc((size_t)QUERIES * DOCUMENTS * 70 * sizeof *chosen);
    assert_true(s && along && of_documents && of_queries && again && chosen);
    for (uint64_t k = 0; k < 9; k++) {
        const int64_t capacity = (int64_t[]){0, 1, 2}[k % 3];
        set_up(s, k + 120, capacity > 0 ? 3 : 21, 5,
               (ota_type[]){OTA_F32, OTA_BF16, OTA_F16}[k / 3], k == 4);
        if (capacity > 0) {
            for (int d = 0; d <= DOCUMENTS; d++) s->offsets[d] = d * (d - 1) / 2 % 5 + 4 * d;
            s->offsets[DOCUMENTS] = s->offsets[DOCUMENTS - 1] + 3;
        }
        s->lengths[1] = s->n;
        s->lengths[2] = s->n - 1;
        s->problem.query_lengths = s->lengths;
        s->problem.capacity = capacity;
        s->problem.chosen = chosen;
        call(s, s->scores);
        float weights[QUERIES * DOCUMENTS];
        for (int i = 0; i < QUERIES * DOCUMENTS; i++)
            weights[i] = (float)(2.0 * uniform(&dice_state) - 1.0);
        const int64_t queries = QUERIES * s->n * 5, tokens = s->problem.documents.size[2] * 5;
        assert_int_equal(ota_maxsim_backward(&s->problem, weights, of_queries, of_documents, NULL),
                         OTA_OK);
        for (int side = 0; side < 2; side++) {
            const int64_t count = side == 0 ? queries : tokens;
            for (int64_t i = 0; i < count; i++) along[i] = 2.0 * uniform(&dice_state) - 1.0;
            double size;
            const double found = inner(side == 0 ? of_queries : of_documents, along, count, &size);
            const double want =
                difference(s, weights, side == 0 ? s->queries : s->documents, along, count);
            /* f32 rounds each number once; the difference of two f64 sums loses their last digits. */
            if (!(fabs(found - want) <= FLT_EPSILON * size + 1e-8 * size))
                fail_msg("capacity %d, side %d: %.9g where %.9g is expected", (int)capacity, side,
                         found, want);
        }
        /* One side alone, and other threads, have the same bits. */
        s->problem.threads = 3;
        assert_int_equal(ota_maxsim_backward(&s->problem, weights, again, NULL, NULL), OTA_OK);
        assert_memory_equal(again, of_queries, (size_t)queries * sizeof *again);
        put_away(s);
    }
    set_up(s, 7, 4, 3, OTA_F32, false);
    float weights[QUERIES * DOCUMENTS] = {0};
    ota_error error;
    assert_int_equal(ota_maxsim_backward(&s->problem, weights, again, NULL, &error), OTA_EINVAL);
    assert_non_null(strstr(error.message, "chosen is NULL"));
    s->problem.chosen = chosen;
    call(s, s->scores);
    /* Gradients of documents that end where the queries begin overlap nothing. */
    const int64_t end = s->problem.documents.size[2] * 3, rest = QUERIES * 4 * 3;
    float *beside = malloc((size_t)(end + rest) * sizeof *beside);
    assert_non_null(beside);
    memcpy(beside + end, s->stored_queries, (size_t)rest * sizeof *beside);
    s->problem.queries.data = beside + end;
    assert_int_equal(ota_maxsim_backward(&s->problem, weights, NULL, beside, NULL), OTA_OK);
    s->problem.queries.data = s->stored_queries;
    free(beside);
    assert_int_equal(ota_maxsim_backward(&s->problem, NULL, again, NULL, &error), OTA_EINVAL);
    chosen[9] = s->offsets[3] - s->offsets[2];
    assert_int_equal(ota_maxsim_backward(&s->problem, weights, again, NULL, &error), OTA_EINVAL);
    assert_non_null(strstr(error.message, "chosen[0][2][1] is"));
    chosen[9] = -1;
    chosen[(DOCUMENTS + 2) * s->n + 3] = -2;
    assert_int_equal(ota_maxsim_backward(&s->problem, weights, again, NULL, &error), OTA_EINVAL);
    assert_non_null(strstr(error.message, "chosen[1][2][3] is -2"));
    put_away(s);
    free(chosen);
    free(again);
    free(of_queries);
    free(of_documents);
    free(along);
    free(s);
}

static void what_is_wrong_is_refused(void **state) {
    (void)state;
    scene *s = malloc(sizeof *s);
    assert_non_null(s);
    set_up(s, 9, 4, 3, OTA_F32, false);
    ota_error error;
    ota_late_interaction p;
#define REFUSED(CHANGE, SENTENCE)                                                                  \
    p = s->problem;                                                                                \
    CHANGE;                                                                                        \
    assert_true(ota_maxsim(&p, s->scores, s->best, &error) < 0);                                   \
    if (strstr(error.message, SENTENCE) == NULL)                                                   \
    fail_msg("'%s' where '%s' is expected", error.message, SENTENCE)
    REFUSED(p.size = 0, "problem.size");
    REFUSED(p.queries = (ota_array){0}, "queries are absent");
    REFUSED(p.documents.type = OTA_F64, "documents");
    REFUSED(p.documents.type = OTA_BF16, "documents");
    REFUSED(p.documents.size[3] = 2, "documents have width 2 but queries 3");
    REFUSED(p.offsets = NULL, "offsets is NULL");
    REFUSED(p.capacity = -1, "capacity is -1");
    REFUSED(p.top = DOCUMENTS + 1, "top is 22 of 21 documents");
    REFUSED(p.cpu = "abacus", "cpu is \"abacus\"");
    const int64_t falling[] = {0, 5, 4};
    REFUSED((p.offsets = falling, p.document_count = 2), "offsets[2] is 4, outside 5");
    const int64_t before[] = {-1, 5, 6};
    REFUSED((p.offsets = before, p.document_count = 2), "offsets[0] is -1, outside 0");
    const int64_t lengths[] = {0, 9, 1};
    int64_t chosen[QUERIES * DOCUMENTS * 4];
    REFUSED((p.chosen = chosen, p.top = 1), "chosen is given, but top is 1");
    REFUSED(p.query_lengths = lengths, "query_lengths[1] is 9 of 4 tokens");
    assert_int_equal(ota_maxsim(&s->problem, NULL, NULL, &error), OTA_EINVAL);
    assert_int_equal(ota_maxsim(&s->problem, (float *)s->stored, NULL, &error), OTA_EALIAS);
    assert_int_equal(
        ota_maxsim(&s->problem, (float *)(void *)((char *)s->scores + 2), NULL, &error),
        OTA_EALIGN);
    put_away(s);
    free(s);
}

TEST_FILE(test_maxsim) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scores_are_those_of_the_loops),
        cmocka_unit_test(a_score_is_its_own),
        cmocka_unit_test(the_best_are_sorted),
        cmocka_unit_test(capacities_are_matchings),
        cmocka_unit_test(choices_make_the_scores),
        cmocka_unit_test(gradients_are_differences),
        cmocka_unit_test(what_is_wrong_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
