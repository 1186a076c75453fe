/* `otattn bench --random N`: N random problems in f64 over every method, mask and mass, temperature
 * from 1e-6 to 1e6 of the score range, sizes 1 to 64 and once in 50,000 problems 512; every answer
 * judged in double precision. Problem number k is a function of (seed, k) alone, so one that went
 * wrong is repeated by --random 1 --first k with the same seed.
 *
 * A wrong ok is a status ok whose judged plan is not finite, not positive, not on its support, has a
 * residual above the tolerance (plus the rounding of the judge), or, where the problem is convex, a
 * duality gap that the residual cannot explain. A wrong infeasible is a refusal of a problem that was
 * built to have a plan. */
#define _POSIX_C_SOURCE 200809L

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "draw.h"
#include "src/base/system.h"

enum { MOST_SHOWN = 20, STATUSES = 32 };

static const double default_tolerance = 1e-9;

/* ---- judging ---- */

typedef enum verdict { RIGHT, WRONG_OK, WRONG_INFEASIBLE, NUMBER_OF_VERDICTS } verdict;

typedef struct answer {
    ota_status status;
    ota_certificate certificate;
    double seconds;
    verdict verdict;
    char reason[160];
} answer;

static double largest(const double *numbers, int64_t count) {
    double most = 0.0;
    for (int64_t k = 0; k < count; k++) {
        if (isfinite(numbers[k])) most = fmax(most, fabs(numbers[k]));
    }
    return most;
}

const char *cli_draw_wrong(const cli_draw *d, const cli_draw_memory *s, const ota_certificate *c) {
    const double u = 0x1p-53;
    /* The judge recomputes exp((S + f + g) / tau) from rounded potentials, and the conditions of relaxed
     * sides from exp(-f / RHO) and exp(-g / rho): the rounding of those exponents is its own. */
    const double reach =
        largest(s->row_potential, d->n) + largest(s->column_potential, d->m) + d->range;
    double exponent = reach / d->tau;
    if (d->problem.rows == OTA_ROWS_RELAXED) exponent += reach / d->problem.row_strength;
    if (d->problem.columns == OTA_COLUMNS_RELAXED) exponent += reach / d->problem.strength;
    /* Relaxed plans may carry far more mass than was asked for, and all of it is rounded. */
    const double rounding = (8.0 * u + u * exponent) * fmax(1.0, c->receiver_max);
    const double allowed = default_tolerance + 4.0 * rounding;
    const ota_column_rule columns = d->problem.columns;
    if (c->nonfinite_rows > 0) return "nonfinite rows";
    if (!(c->row_error <= allowed)) return "row error";
    const bool bound = columns == OTA_COLUMNS_EXACT || columns == OTA_COLUMNS_CAPPED ||
                       columns == OTA_COLUMNS_ONLINE || columns == OTA_COLUMNS_RELAXED ||
                       columns == OTA_COLUMNS_BOUNDED;
    if (bound && !(c->column_error <= allowed)) return "column error";
    if (!(c->minimum >= 0.0)) return "negative weight";
    if (!(c->outside <= 0.0)) return "weight outside the support";
    if (!isfinite(c->gap) || columns == OTA_COLUMNS_PREFIX || columns == OTA_COLUMNS_ONLINE)
        return NULL;
    /* A residual r moves primal - dual by at most r times the largest potential; the sums themselves
     * round to a few units in the last place of their terms. */
    const double levels = reach + (d->problem.regulariser == OTA_HARD ? 0.0 : d->tau);
    const double sums = 64.0 * u * (fabs(c->primal) + fabs(c->dual) + fabs(c->value));
    double mass = 0.0;
    for (int64_t i = 0; i < d->n; i++)
        mass += d->problem.row_mass.type != OTA_NO_TYPE ? d->row_mass[i] : 1.0;
    if (!(fabs(c->gap) <= 4.0 * allowed * mass * levels + sums)) return "duality gap";
    return NULL;
}

static void solve_and_judge(const cli_draw *d, cli_draw_memory *s, answer *a) {
    const ota_problem *p = &d->problem;
    ota_arrays arrays = {.size = sizeof arrays,
                         .row_potential = ota_array_of(s->row_potential, OTA_F64, 1, 1, 1, d->n),
                         .column_potential =
                             ota_array_of(s->column_potential, OTA_F64, 1, 1, 1, d->m)};
    if (!cli_potentials_tell(p)) {
        arrays.coupling = ota_array_of(s->coupling, OTA_F64, 1, 1, d->n, d->m);
        arrays.sink = ota_array_of(s->sink, OTA_F64, 1, 1, 1, d->n);
    }
    ota_result result = {.size = sizeof result};
    ota_error error = {.message = ""};
    memset(a, 0, sizeof *a);
    const int64_t begun = cli_now_ns();
    a->status = ota_attend(p, &d->options, &arrays, &result, &error);
    a->seconds = (double)(cli_now_ns() - begun) / 1e9;
    if (a->status == OTA_INFEASIBLE && d->feasible) {
        a->verdict = WRONG_INFEASIBLE;
        (void)snprintf(a->reason, sizeof a->reason, "%.150s", error.message);
    }
    if (a->status < OTA_OK) return;
    a->certificate.size = sizeof a->certificate;
    const ota_status judged = ota_certify(p, &d->options, &arrays, &a->certificate, NULL, &error);
    /* An answer that nobody could judge is neither right nor wrong. */
    if (judged == OTA_ENOMEM) {
        a->status = judged;
        return;
    }
    if (judged < OTA_OK) {
        a->verdict = WRONG_OK;
        (void)snprintf(a->reason, sizeof a->reason, "the judge refuses: %.120s", error.message);
        return;
    }
    const char *why = a->status == OTA_OK ? cli_draw_wrong(d, s, &a->certificate) : NULL;
    if (why == NULL) return;
    a->verdict = WRONG_OK;
    (void)snprintf(a->reason, sizeof a->reason, "%s", why);
}

/* ---- counting ---- */

typedef struct counts {
    int64_t problems, counted, counted_ok;
    double seconds;
    int64_t statuses[STATUSES]; /* row of status_list */
} counts;

/* Every status that can come back, in the order of the report. */
static const ota_status status_list[] = {
    OTA_OK,        OTA_FIXED_ITERS,    OTA_NOT_CONVERGED, OTA_INFEASIBLE, OTA_TOL_UNREACHABLE,
    OTA_NONFINITE, OTA_NONFINITE_ROWS, OTA_PARTIAL,       OTA_EINVAL,     OTA_UNSUPPORTED,
    OTA_EOVERFLOW, OTA_ENOMEM,         OTA_EINTERNAL,     OTA_CANCELLED,
};
enum { LISTED = (int)(sizeof status_list / sizeof status_list[0]) };

typedef struct campaign {
    uint64_t seed;
    int64_t first, count;
    const char *cpu; /* NULL: the newest level */
    const int *cancel;
    cli_progress progress;
    int64_t next, finished; /* under the lock, like everything below */
    ota_mutex lock;
    counts all, decades[CLI_DRAW_DECADES], by_cell[CLI_DRAW_CELLS];
    int64_t verdicts[NUMBER_OF_VERDICTS];
    json_t *shown;
    bool memory; /* a worker had none */
} campaign;

static void count_one(counts *t, const cli_draw *d, double seconds, int row) {
    t->problems++;
    t->seconds += seconds;
    t->statuses[row]++;
    if (!d->counted) return;
    t->counted++;
    if (row == 0) t->counted_ok++;
}

static bool has_sink(const ota_problem *problem) {
    return problem->term_count > 0 && problem->terms[0].kind == OTA_TERM_SINK;
}

static void record(campaign *c, const cli_draw *d, const answer *a) {
    int row = LISTED;
    for (int k = 0; k < LISTED; k++) {
        if (status_list[k] == a->status) row = k;
    }
    count_one(&c->all, d, a->seconds, row);
    count_one(&c->decades[d->decade], d, a->seconds, row);
    count_one(&c->by_cell[d->cell], d, a->seconds, row);
    c->verdicts[a->verdict]++;
    if (a->verdict == RIGHT || json_array_size(c->shown) >= MOST_SHOWN) return;
    json_t *object = cli_json_put(
        json_object(),
        "index:I verdict:s reason:s method:s queries:I keys:I temperature_over_range:r mask:s "
        "sink:b row_mass:b column_mass:b certificate:o",
        d->index, a->verdict == WRONG_OK ? "wrong_ok" : "wrong_infeasible", a->reason, d->method,
        d->n, d->m, d->ratio, cli_draw_masks[d->mask_drawn], has_sink(&d->problem),
        d->problem.row_mass.type != OTA_NO_TYPE, d->problem.column_mass.type != OTA_NO_TYPE,
        cli_certificate_json(&a->certificate));
    (void)json_array_append_new(c->shown, object);
}

static void work(void *user) {
    campaign *c = user;
    cli_draw_memory *s = malloc(sizeof *s);
    for (;;) {
        ota_mutex_lock(&c->lock);
        if (s == NULL) c->memory = true;
        const int64_t index = c->next;
        const bool stop = s == NULL || index >= c->first + c->count || *c->cancel != 0;
        if (!stop) c->next++;
        ota_mutex_unlock(&c->lock);
        if (stop) break;
        cli_draw d;
        answer a;
        cli_draw_problem(&d, s, c->seed, index, c->cancel);
        d.options.cpu = c->cpu;
        solve_and_judge(&d, s, &a);
        ota_mutex_lock(&c->lock);
        /* Judging may have been stopped, too, and then says anything. */
        if (a.status != OTA_CANCELLED && *c->cancel == 0) {
            record(c, &d, &a);
            c->finished++;
        }
        cli_progress_update(&c->progress, (double)c->finished, (double)c->count, "problems");
        ota_mutex_unlock(&c->lock);
    }
    free(s);
}

/* ---- report ---- */

static json_t *counts_json(const counts *t) {
    json_t *object = json_object(), *statuses = json_object();
    (void)json_object_set_new(object, "problems", json_integer(t->problems));
    for (int k = 0; k <= LISTED; k++) {
        if (t->statuses[k] == 0) continue;
        const char *word = k < LISTED ? ota_status_word(status_list[k]) : "other";
        (void)json_object_set_new(statuses, word, json_integer(t->statuses[k]));
    }
    (void)cli_json_put(object, "statuses:o seconds:r counted:I counted_ok:I share_ok:r", statuses,
                       t->seconds, t->counted, t->counted_ok,
                       (double)t->counted_ok / (double)t->counted);
    return object;
}

static json_t *campaign_json(const cli_context *context, const campaign *c, double seconds) {
    json_t *decades = json_array(), *by_cell = json_array();
    const bool wrong = c->verdicts[WRONG_OK] + c->verdicts[WRONG_INFEASIBLE] > 0;
    const char *word =
        wrong ? "wrong" : ota_status_word(context->interrupted ? OTA_CANCELLED : OTA_OK);
    json_t *object = cli_json_put(
        cli_json_result(context, word),
        "random:I first:I seed:I seconds:r wrong_ok:I wrong_infeasible:I wrong:o all:o", c->count,
        c->first, (int64_t)c->seed, seconds, c->verdicts[WRONG_OK], c->verdicts[WRONG_INFEASIBLE],
        json_incref(c->shown), counts_json(&c->all));
    for (int k = 0; k < CLI_DRAW_DECADES; k++) {
        if (c->decades[k].problems == 0) continue;
        json_t *row = counts_json(&c->decades[k]);
        (void)json_object_set_new(row, "decade", json_integer(k - 6));
        (void)json_array_append_new(decades, row);
    }
    for (int k = 0; k < CLI_DRAW_CELLS; k++) {
        if (c->by_cell[k].problems == 0) continue;
        json_t *row = counts_json(&c->by_cell[k]);
        char name[80];
        (void)snprintf(name, sizeof name, "%s%s", cli_draw_cells[k].method,
                       cli_draw_cells[k].relaxed_rows ? ", relaxed rows" : "");
        (void)json_object_set_new(row, "method", json_string(name));
        (void)json_array_append_new(by_cell, row);
    }
    (void)cli_json_put(object, "decades:o methods:o", decades, by_cell);
    return object;
}

static void print_counts(const char *name, const json_t *row) {
    static const char *const columns[] = {"ok", "fixed_iters", "not_converged", "infeasible",
                                          "tolerance_unreachable"};
    const json_t *statuses = json_object_get(row, "statuses");
    json_int_t rest = json_integer_value(json_object_get(row, "problems"));
    (void)printf("%-30s %9lld", name, (long long)rest);
    for (int k = 0; k < 5; k++) {
        const json_int_t count = json_integer_value(json_object_get(statuses, columns[k]));
        rest -= count;
        (void)printf(" %9lld", (long long)count);
    }
    (void)printf(" %9lld %9.4g", (long long)rest,
                 json_number_value(json_object_get(row, "seconds")));
    const json_t *share = json_object_get(row, "share_ok");
    if (json_is_real(share)) {
        (void)printf("  %8.4f%% of %lld\n", 100.0 * json_real_value(share),
                     (long long)json_integer_value(json_object_get(row, "counted")));
    } else {
        (void)putchar('\n');
    }
}

static void print_campaign(const json_t *object) {
    (void)printf("%-30s %9s %9s %9s %9s %9s %9s %9s %9s  %s\n", "temperature / range", "problems",
                 "ok", "fixed", "not conv.", "infeas.", "unreach.", "other", "seconds",
                 "ok where a plan exists and T/range >= 1e-3");
    for (int part = 0; part < 2; part++) {
        const json_t *rows = json_object_get(object, part == 0 ? "decades" : "methods");
        for (size_t k = 0; k < json_array_size(rows); k++) {
            const json_t *row = json_array_get(rows, k);
            char name[80];
            const int decade = (int)json_integer_value(json_object_get(row, "decade"));
            if (part == 0)
                (void)snprintf(name, sizeof name, "1e%d to 1e%d", decade, decade + 1);
            else
                (void)snprintf(name, sizeof name, "%s",
                               json_string_value(json_object_get(row, "method")));
            print_counts(name, row);
        }
        (void)putchar('\n');
    }
    print_counts("all", json_object_get(object, "all"));
    const json_t *wrong = json_object_get(object, "wrong");
    for (size_t k = 0; k < json_array_size(wrong); k++) {
        const json_t *row = json_array_get(wrong, k);
        (void)printf("%s: problem %lld, %s, %lld x %lld, T/range %.3g: %s\n",
                     json_string_value(json_object_get(row, "verdict")),
                     (long long)json_integer_value(json_object_get(row, "index")),
                     json_string_value(json_object_get(row, "method")),
                     (long long)json_integer_value(json_object_get(row, "queries")),
                     (long long)json_integer_value(json_object_get(row, "keys")),
                     json_number_value(json_object_get(row, "temperature_over_range")),
                     json_string_value(json_object_get(row, "reason")));
    }
    (void)printf("\nwrong ok: %lld    wrong infeasible: %lld    %.3g s\n",
                 (long long)json_integer_value(json_object_get(object, "wrong_ok")),
                 (long long)json_integer_value(json_object_get(object, "wrong_infeasible")),
                 json_number_value(json_object_get(object, "seconds")));
}

/* What plans say of a level that there is not, said once. */
static int check_level(cli_context *context, const char *cpu) {
    for (int k = 0; cpu != NULL; k++) {
        const char *name = ota_kernel_name(k);
        if (name == NULL)
            return cli_refuse_flag(context, "cpu", "doctor lists the levels of this machine",
                                   "--cpu is '%s', which this processor cannot run", cpu);
        if (strcmp(name, cpu) == 0) break;
    }
    return 0;
}

int cli_bench_random(cli_context *context) {
    const cli_settings *settings = &context->settings;
    enum { MOST_WORKERS = 256 };
    int code = check_level(context, settings->machine.cpu);
    if (code != 0) return code;
    campaign *c = calloc(1, sizeof *c);
    if (c == NULL) return cli_fail(&context->error, CLI_EXIT_LIMIT, "there is no memory left");
    c->seed = settings->machine.seed.given ? (uint64_t)settings->machine.seed.value : 1;
    c->first = c->next = settings->bench.first.value;
    c->count = settings->bench.random.value;
    c->cpu = settings->machine.cpu;
    c->cancel = context->cancel;
    c->shown = json_array();
    ota_mutex_begin(&c->lock);
    cli_progress_begin(&c->progress, context, "bench");
    ota_thread workers[MOST_WORKERS];
    int running = 0;
    const int64_t wanted = settings->machine.threads.given ? settings->machine.threads.value : 2;
    const int64_t begun = cli_now_ns();
    for (int64_t k = 1; k < wanted && k < MOST_WORKERS; k++) {
        if (ota_thread_start(&workers[running], 0, work, c)) running++;
    }
    work(c);
    for (int k = 0; k < running; k++) ota_thread_join(&workers[k]);
    cli_progress_end(&c->progress);
    const double seconds = (double)(cli_now_ns() - begun) / 1e9;
    code = c->memory ? cli_fail(&context->error, CLI_EXIT_LIMIT, "there is no memory left") : 0;
    if (code == 0) {
        context->interrupted = c->finished < c->count;
        json_t *object = campaign_json(context, c, seconds);
        const int64_t wrong = c->verdicts[WRONG_OK] + c->verdicts[WRONG_INFEASIBLE];
        if (wrong > 0) {
            context->status = "wrong";
            (void)snprintf(context->error.field, sizeof context->error.field, "random");
            code = cli_fail(&context->error, CLI_EXIT_NUMERIC,
                            "%" PRId64 " of %" PRId64 " answers are wrong", wrong, c->finished);
        }
        if (!settings->output.json) print_campaign(object);
        if (settings->output.json && code == 0)
            code = cli_print_json(stdout, json_incref(object));
        else if (settings->output.json)
            context->failure = json_incref(object);
        json_decref(object);
    }
    json_decref(c->shown);
    ota_mutex_end(&c->lock);
    free(c);
    return code;
}
