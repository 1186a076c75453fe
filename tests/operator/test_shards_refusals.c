/* test_shards_refusals.c: ranks that differ, or ask for what no rank can do alone, are refused on all of them with one sentence; one
 * that is cancelled ends the run of all. */
#define _GNU_SOURCE
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "shards_scene.h"

typedef struct refusal {
    void (*spoil)(setting *now, ota_options *options, int rank);
    const char *method, *words; /* of every rank, but the one that has a sentence of its own */
    ota_status status;
} refusal;

static void other_temperature(setting *now, ota_options *options, int rank) {
    (void)options;
    if (rank == 1) now->problem.temperature = 0.9;
}
static void other_rounds(setting *now, ota_options *options, int rank) {
    (void)now;
    if (rank == 2) options->max_rounds = 7;
}
static void other_seed(setting *now, ota_options *options, int rank) {
    (void)options;
    now->problem.dropout = 0.1;
    now->problem.dropout_seed = rank == 1 ? 4 : 3;
}
static void wrong_argument(setting *now, ota_options *options, int rank) {
    (void)options;
    if (rank == 1) now->problem.row_mass = ota_array_of(NULL, OTA_F64, 1, 1, 1, 3);
}
static void no_problem(setting *now, ota_options *options, int rank) {
    (void)options;
    if (rank == 2) now->problem.size = 0;
}
static void nothing(setting *now, ota_options *options, int rank) {
    (void)now, (void)options, (void)rank;
}
static void some_receivers(setting *now, ota_options *options, int rank) {
    (void)options;
    if (rank == 0) now->arrays.receiver = (ota_array){0};
}
static void narrow_values(setting *now, ota_options *options, int rank) {
    (void)options;
    if (rank == 0) now->arrays.values.size[2]--;
}
static void other_axis(setting *now, ota_options *options, int rank) {
    (void)options, (void)rank;
    now->problem.axis = OTA_AXIS_COLUMNS;
}

/* Of the rank's own communicator, which the options lend. */
static void lay_pieces(const ota_options *options, ota_shares shares, const int64_t *first) {
    ota_communicator *to = (ota_communicator *)(uintptr_t)options->communicator;
    to->shares = shares;
    to->first_pieces = first;
}
static void pieces_in_order(setting *now, ota_options *options, int rank) {
    static const int64_t first[] = {2, 2};
    (void)now;
    if (rank == 1) lay_pieces(options, OTA_SHARES_IN_ORDER, first);
}
static void more_than_all(setting *now, ota_options *options, int rank) {
    static const int64_t first[] = {2, N};
    (void)now;
    lay_pieces(options, OTA_SHARES_ZIGZAG, rank == 2 ? first : NULL);
}

static const refusal refusals[] = {
    {other_temperature, "softmax", "rank 1 has another temperature than rank 0", OTA_EMISMATCH},
    {other_rounds, "softmax/exact", "rank 2 has max_rounds 7 where rank 0 has 0", OTA_EMISMATCH},
    {other_seed, "softmax", "rank 1 has dropout_seed 4 where rank 0 has 3", OTA_EMISMATCH},
    {wrong_argument, "softmax", "rank 1 has row_mass 1 where rank 0 has 0", OTA_EMISMATCH},
    {no_problem, "softmax", "rank 2 refused the call with 'invalid'", OTA_EMISMATCH},
    {some_receivers, "softmax/exact", "receiver is present on 2 of 3 ranks", OTA_EMISMATCH},
    {narrow_values, "softmax", "rank 0 refused the call with 'invalid'", OTA_EMISMATCH},
    {pieces_in_order, "softmax", "rank 1 refused the call with 'invalid'", OTA_EMISMATCH},
    {more_than_all, "softmax", "rank 2 refused the call with 'invalid'", OTA_EMISMATCH},
    {other_axis, "softmax/exact", "cannot share out its rows: the columns axis", OTA_UNSUPPORTED},
    {nothing, "hard/exact", "cannot share out its rows: coupled columns", OTA_UNSUPPORTED},
    {nothing, "softmax/online:2", "cannot share out its rows: online columns", OTA_UNSUPPORTED},
    {nothing, "softmax/prefix", "cannot share out its rows: coupled columns", OTA_UNSUPPORTED},
};

static const refusal *refusing;

static void solve_refused(crew_rank *rank, void *context) {
    scene *s = context;
    part *p = &s->parts[rank->to.rank];
    setting now = {0};
    ota_options options = {.size = sizeof options, .threads = 1, .communicator = &rank->to};
    set_part(&now, s, p, &options);
    refusing->spoil(&now, &options, rank->to.rank);
    ota_plan *plan = NULL;
    p->status = ota_plan_create(&plan, &now.problem, VALUES, &options, &p->error);
    if (p->status == OTA_OK) p->status = ota_forward(plan, &now.arrays, NULL, &p->error);
    ota_plan_free(plan);
}

static void wrong_ranks_are_refused_on_all(void **state) {
    (void)state;
    enum { RANKS = 3 };
    scene *s = malloc(sizeof *s);
    for (size_t k = 0; k < sizeof refusals / sizeof refusals[0]; k++) {
        const cell one = {.method = refusals[k].method};
        draw(s, &one, 500);
        share_out(s, RANKS, false);
        cut(s, RANKS, OTA_SHARES_IN_ORDER);
        crew *c = crew_of(RANKS, OTA_SHARES_IN_ORDER);
        refusing = &refusals[k];
        crew_run(c, solve_refused, s);
        int own = 0;
        for (int r = 0; r < RANKS; r++) {
            const part *p = &s->parts[r];
            assert_true(p->status < 0);
            if (p->status == refusals[k].status && strstr(p->error.message, refusals[k].words))
                continue;
            own++;
            assert_int_equal(p->status, OTA_EINVAL);
        }
        if (own > 1) fail_msg("%s: %s", refusals[k].words, s->parts[0].error.message);
        crew_free(c);
    }
    free(s);
}

static void cancel_part(crew_rank *rank, void *context) {
    static const int yes = 1;
    scene *s = context;
    part *p = &s->parts[rank->to.rank];
    setting now = {0};
    ota_options options = {.size = sizeof options, .threads = 1, .communicator = &rank->to};
    set_part(&now, s, p, &options);
    if (rank->to.rank == 1) options.cancel = &yes;
    p->status = ota_attend(&now.problem, &options, &now.arrays, NULL, &p->error);
}

static void one_rank_cancels_all(void **state) {
    (void)state;
    scene *s = malloc(sizeof *s);
    for (int k = 0; k < CELLS; k++) {
        draw(s, &cells[k], 600);
        share_out(s, 3, false);
        cut(s, 3, OTA_SHARES_IN_ORDER);
        crew *c = crew_of(3, OTA_SHARES_IN_ORDER);
        crew_run(c, cancel_part, s);
        for (int r = 0; r < 3; r++) {
            assert_int_equal(s->parts[r].status, OTA_CANCELLED);
            assert_true(isnan(s->parts[r].out[0]));
        }
        crew_free(c);
    }
    free(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_ranks_are_refused_on_all),
        cmocka_unit_test(one_rank_cancels_all),
    };
    return cmocka_run_group_tests_name("shards_refusals", tests, NULL, NULL);
}
