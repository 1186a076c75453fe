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

#include "groups.h"
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
static void other_window(setting *now, ota_options *options, int rank) {
    (void)options;
    now->supports[0] =
        (ota_support){.kind = OTA_SUPPORT_WINDOW, .left = rank == 1 ? 9 : 11, .right = 4};
    now->problem.support_count = 1;
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
static void no_problem_first(setting *now, ota_options *options, int rank) {
    (void)options;
    if (rank == 0) now->problem.size = 0;
}
static void other_center(setting *now, ota_options *options, int rank) {
    (void)now;
    options->center = rank == 1 ? OTA_CENTER_MEAN : OTA_CENTER_NONE;
}
static void caps_of_one(setting *now, ota_options *options, int rank) {
    static double caps[N * N];
    (void)options;
    if (rank != 2) return;
    for (int k = 0; k < N * N; k++) caps[k] = 1.0;
    const int64_t rows = now->problem.queries.size[2];
    now->problem.entry_caps = ota_array_of(caps, OTA_F64, 1, 1, rows, N);
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

static void other_key_transport(setting *now, ota_options *options, int rank) {
    ota_communicator *to = (ota_communicator *)(uintptr_t)options->communicator;
    (void)now;
    if (rank == 1) to->keys = OTA_KEYS_GATHERED;
}

static const refusal refusals[] = {
    {other_key_transport, "softmax", "rank 1 has key transport 1 where rank 0 has 0",
     OTA_EMISMATCH},
    {other_temperature, "softmax", "rank 1 has another temperature than rank 0", OTA_EMISMATCH},
    {other_window, "softmax", "rank 1 has another supports than rank 0", OTA_EMISMATCH},
    {other_rounds, "softmax/exact", "rank 2 has max_rounds 7 where rank 0 has 0", OTA_EMISMATCH},
    {other_seed, "softmax", "rank 1 has dropout_seed 4 where rank 0 has 3", OTA_EMISMATCH},
    {wrong_argument, "softmax", "rank 1 has row_mass 1 where rank 0 has 0", OTA_EMISMATCH},
    {no_problem, "softmax", "rank 2 refused the call with 'invalid'", OTA_EMISMATCH},
    {no_problem_first, "softmax", "rank 0 refused the call with 'invalid'", OTA_EMISMATCH},
    {other_center, "softmax/exact", "rank 1 has center 1 where rank 0 has 0", OTA_EMISMATCH},
    {caps_of_one, "softmax/exact", "rank 2 has entry_caps 1 where rank 0 has 0", OTA_EMISMATCH},
    {some_receivers, "softmax/exact", "receiver is present on some ranks and not on others",
     OTA_EMISMATCH},
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

/* ---- derivatives ---------------------------------------------------------------------------------- */

/* What rank 1 does not ask for, or does not move, and the others do. */
typedef struct omission {
    bool tangents; /* tangents, or gradients */
    size_t offset;
    const char *words;
} omission;

static const omission omissions[] = {
    {false, offsetof(ota_gradients, keys),
     "gradients.keys is given on some ranks and not on others"},
    {false, offsetof(ota_gradients, values),
     "gradients.values is given on some ranks and not on others"},
    {false, offsetof(ota_gradients, temperature),
     "gradients.temperature is given on some ranks and not on others"},
    {true, offsetof(ota_tangents, keys), "tangents.keys is given on some ranks and not on others"},
    {true, offsetof(ota_tangents, values),
     "tangents.values is given on some ranks and not on others"},
    {true, offsetof(ota_tangents, temperature),
     "tangents.temperature is given on some ranks and not on others"},
};

static const omission *omitting;
static int cancelling;   /* read by the plan of rank 1 */
static bool without_out; /* keys go round, and nothing comes by way of out */

static void derive(const setting *now, ota_plan *plan, part *p, bool omits, bool tangents) {
    double made[3][ALL * N * VALUES] = {{0}}, along_temperature = 0.1;
    ota_gradients want = {.size = sizeof want};
    ota_tangents move = {.size = sizeof move};
    const ota_array *k = &now->problem.keys, *v = &now->arrays.values;
    want.keys = ota_array_of(made[0], OTA_F64, k->size[0], k->size[1], k->size[2], k->size[3]);
    want.values = ota_array_of(made[1], OTA_F64, v->size[0], v->size[1], v->size[2], v->size[3]);
    want.temperature = ota_array_of(made[2], OTA_F64, 1, 1, 1, 1);
    if (!without_out) want.out_grad = now->arrays.out;
    move.keys = want.keys;
    move.values = want.values;
    move.temperature = ota_array_of(&along_temperature, OTA_F64, 1, 1, 1, 1);
    move.out = ota_array_of(made[2], OTA_F64, BATCH, HEADS, p->n, VALUES);
    char *from = tangents ? (char *)&move : (char *)&want;
    if (omits) memset(from + omitting->offset, 0, sizeof(ota_array));
    if (tangents)
        p->status = ota_jvp(plan, &now->arrays, &move, NULL, &p->error);
    else
        p->status = ota_backward(plan, &now->arrays, &want, NULL, &p->error);
}

static void omit_part(crew_rank *rank, void *context) {
    scene *s = context;
    part *p = &s->parts[rank->to.rank];
    const bool second = rank->to.rank == 1;
    setting now = {0};
    if (without_out) rank->to.keys = OTA_KEYS_IN_RING;
    ota_options options = {.size = sizeof options,
                           .threads = 1,
                           .communicator = &rank->to,
                           .gradients = 1,
                           .cancel = second ? &cancelling : NULL};
    set_part(&now, s, p, &options);
    if (without_out) now.arrays.coupling = (ota_array){0};
    ota_plan *plan = NULL;
    p->status = ota_plan_create(&plan, &now.problem, VALUES, &options, &p->error);
    if (p->status == OTA_OK) p->status = ota_forward(plan, &now.arrays, NULL, &p->error);
    if (p->status == OTA_OK) {
        if (second && omitting == NULL && !without_out) cancelling = 1;
        derive(&now, plan, p, second && omitting != NULL, omitting != NULL && omitting->tangents);
    }
    ota_plan_free(plan);
}

static scene *derivatives_of(int ranks) {
    static const cell one = {.method = "softmax"};
    scene *s = malloc(sizeof *s);
    draw(s, &one, 550);
    share_out(s, ranks, false);
    cut(s, ranks, OTA_SHARES_IN_ORDER);
    crew *c = crew_of(ranks, OTA_SHARES_IN_ORDER);
    cancelling = 0;
    crew_run(c, omit_part, s);
    crew_free(c);
    return s;
}

static void derivatives_of_different_things_are_refused_on_all(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof omissions / sizeof omissions[0]; k++) {
        omitting = &omissions[k];
        scene *s = derivatives_of(3);
        for (int r = 0; r < 3; r++) {
            assert_int_equal(s->parts[r].status, OTA_EMISMATCH);
            assert_non_null(strstr(s->parts[r].error.message, omitting->words));
        }
        free(s);
    }
}

static void one_rank_cancels_the_derivatives_of_all(void **state) {
    (void)state;
    omitting = NULL;
    scene *s = derivatives_of(3);
    for (int r = 0; r < 3; r++) assert_int_equal(s->parts[r].status, OTA_CANCELLED);
    free(s);
}

static void a_ring_has_no_gradients_but_by_way_of_out(void **state) {
    (void)state;
    omitting = NULL;
    without_out = true;
    scene *s = derivatives_of(3);
    without_out = false;
    for (int r = 0; r < 3; r++) {
        assert_int_equal(s->parts[r].status, OTA_UNSUPPORTED);
        assert_non_null(strstr(s->parts[r].error.message, "no gradients but by way of out"));
    }
    free(s);
}

static int64_t late;      /* the message of its call at which rank 1 leaves */
static bool leaves_early; /* that of its forward, else of its jvp */

static void fail_in_a_call(crew_rank *rank, void *context) {
    scene *s = context;
    part *p = &s->parts[rank->to.rank];
    setting now = {0};
    ota_options options = {
        .size = sizeof options, .threads = 1, .communicator = &rank->to, .gradients = 1};
    set_part(&now, s, p, &options);
    ota_plan *plan = NULL;
    p->status = ota_plan_create(&plan, &now.problem, VALUES, &options, &p->error);
    if (leaves_early && rank->to.rank == 1) rank->fail_at = rank->messages + late;
    if (p->status >= OTA_OK) p->status = ota_forward(plan, &now.arrays, NULL, &p->error);
    if (p->status >= OTA_OK && !leaves_early) {
        ota_tangents move = {.size = sizeof move};
        move.queries = ota_array_of(p->s, OTA_F64, BATCH, HEADS, p->n, WIDTH);
        move.out = ota_array_of(p->grads.out, OTA_F64, BATCH, HEADS, p->n, VALUES);
        if (rank->to.rank == 1) rank->fail_at = rank->messages + late;
        p->status = ota_jvp(plan, &now.arrays, &move, NULL, &p->error);
    }
    ota_plan_free(plan);
}

/* Was a sentence said that has `words`, and `beside` just where that is wanted, while rank 1 left later and later? */
static bool is_said(const char *words, const char *beside, bool wanted) {
    static const cell one = {.method = "softmax/exact"};
    scene *s = malloc(sizeof *s);
    bool seen = false;
    ota_status status = OTA_ECOMM;
    for (late = 1; status == OTA_ECOMM; late += leaves_early ? 1 : 3) {
        draw(s, &one, 560);
        share_out(s, 2, false);
        cut(s, 2, OTA_SHARES_IN_ORDER);
        crew *c = crew_of(2, OTA_SHARES_IN_ORDER);
        crew_run(c, fail_in_a_call, s);
        crew_free(c);
        status = s->parts[1].status;
        const char *message = s->parts[1].error.message;
        seen |= status == OTA_ECOMM && strstr(message, words) != NULL &&
                (strstr(message, beside) != NULL) == wanted;
    }
    assert_int_equal(status, OTA_OK);
    free(s);
    return seen;
}

/* A communicator that fails: the sentence says at which head, but for steps of all heads. */
static void a_sentence_says_at_which_head(void **state) {
    (void)state;
    leaves_early = false;
    assert_true(is_said(", head 7", "", true));
    leaves_early = true;
    assert_true(is_said(", head 7", "", true));
    assert_true(is_said("the end of the run", ", head", false));
}

/* ---- runs ----------------------------------------------------------------------------------------- */

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

TEST_FILE(test_shards_refusals) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_ranks_are_refused_on_all),
        cmocka_unit_test(derivatives_of_different_things_are_refused_on_all),
        cmocka_unit_test(one_rank_cancels_the_derivatives_of_all),
        cmocka_unit_test(a_ring_has_no_gradients_but_by_way_of_out),
        cmocka_unit_test(a_sentence_says_at_which_head),
        cmocka_unit_test(one_rank_cancels_all),
    };
    return cmocka_run_group_tests_name("shards_refusals", tests, NULL, NULL);
}
