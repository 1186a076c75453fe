/* Runs of a plan whose rows lie on many processes (ranks_plan.h): what all ranks must want alike, keys and values before a run,
 * and afterwards what each rank found out as all are told of it. */
#include "ranks_plan.h"

#include <inttypes.h>
#include <string.h>

#include "base/base.h"
#include "problem/check.h"
#include "problem/fields.h"
#include "ring/ring.h"
#include "solvers/coupled.h"
#include "validation/validation.h"

/* ---- methods ------------------------------------------------------------------------------------ */

/* Does Newton find the columns, whose sums and products are reduced? */
static bool runs_newton(const ota_plan *plan) {
    const ota_resolved *r = &plan->resolved;
    return (plan->solver == &ota_solver_coupled || plan->solver == &ota_solver_newton) &&
           plan->backend == ota_backend_row(0) && !r->settings.prune &&
           ota_tolerance_only(r) == NULL;
}

ota_status ota_ranks_refuse_method(const ota_plan *plan, ota_error *error) {
    const ota_resolved *r = &plan->resolved;
    const char *why = NULL;
    if (r->problem.axis == OTA_AXIS_COLUMNS)
        why = "the columns axis solves keys as rows, and those are shared out as keys";
    else if (plan->strategy.path == OTA_PATH_ORDERED)
        why = "online columns take the rows one after another";
    else if (plan->strategy.path == OTA_PATH_COUPLED && !ota_shards_of(plan)->in_ring &&
             !plan->strategy.on_kernel && !runs_newton(plan))
        why = "coupled columns of rows on many ranks are solved by plain rounds of softmax or by "
              "Newton, to a tolerance, on the cpu backend, without pruning";
    if (why == NULL) return OTA_OK;
    char method[160];
    (void)ota_method_name(&r->problem, method, sizeof method);
    return ota_fail(error, OTA_UNSUPPORTED, "communicator",
                    "give every rank whole heads instead, without a communicator",
                    "%s with these options cannot share out its rows: %s", method, why);
}

/* ---- other arrays -------------------------------------------------------------------------------- */

ota_status ota_ranks_rebind(ota_plan *plan, const ota_problem *given, ota_error *error) {
    ota_shards *shards = ota_shards_of(plan);
    ota_problem problem;
    ota_resolved next;
    const ota_array keys = shards->keys;
    const ota_options none = {.size = sizeof none};
    ota_options unused;
    ota_status status = ota_shards_read(given, &none, &problem, &unused, error);
    problem.size = sizeof problem;
    if (status == OTA_OK && !shards->from_matrix &&
        memcmp(problem.keys.size, keys.size, sizeof keys.size) != 0)
        status =
            ota_fail(error, OTA_EINVAL, "keys", "create a new plan", "keys differ from the plan's");
    if (status == OTA_OK) {
        const ota_shard_sizes sizes = {.all_keys = plan->resolved.keys,
                                       .rows = plan->resolved.share};
        ota_shards_resolve_corner(&problem, &sizes);
        ota_shards_widen_problem(shards, &problem);
        status = ota_resolve_next(&problem, &plan->resolved.settings, &plan->resolved.share, &next,
                                  error);
    }
    if (status == OTA_OK) status = ota_plan_takes(plan, &next, error);
    status = ota_ranks_agree(&shards->ranks, status, error);
    if (status != OTA_OK) {
        shards->keys = keys;
        return status;
    }
    ota_resolved_copy(&plan->resolved, &next);
    return OTA_OK;
}

/* Are all numbers of `type` numbers of `wide`? */
static bool holds(ota_type wide, ota_type type) {
    return type == wide || wide == OTA_F64 || (wide == OTA_F32 && type != OTA_F64);
}

ota_status ota_ranks_widen(const ota_plan *plan, const ota_arrays *given, ota_arrays *wide,
                           ota_error *error) {
    ota_shards *shards = ota_shards_of(plan);
    const ota_resolved *r = &plan->resolved;
    shards->values = (ota_array){0};
    TRY(ota_check_given(wide, sizeof *wide, given, "arrays.size", error));
    wide->size = sizeof *wide;
    if (shards->from_matrix || !ota_array_present(&wide->values)) return OTA_OK;
    TRY(ota_check_array(&wide->values, "values", error));
    const int64_t want[4] = {r->batch, r->key_heads, shards->key_share, plan->values_width};
    TRY(ota_check_shape(&wide->values, "values", want, false, error));
    shards->values = wide->values;
    if (shards->in_ring && !holds(r->type, wide->values.type))
        return ota_fail(error, OTA_UNSUPPORTED, "values",
                        "convert them, or let communicator.keys be OTA_KEYS_GATHERED",
                        "values are of another type than keys, which a ring passes on with them, "
                        "and lose digits in it");
    const ota_array *all = &shards->all_values;
    if (shards->in_ring) {
        const ota_type type = wide->values.type;
        wide->values = *all;
        wide->values.type = type;
        return OTA_OK;
    }
    wide->values = ota_array_of(all->data, wide->values.type, all->size[0], all->size[1],
                                all->size[2], all->size[3]);
    return OTA_OK;
}

ota_status ota_ranks_check_apart(const ota_plan *plan, const ota_arrays *arrays, ota_error *error) {
    const ota_array *const mine[] = {&ota_shards_of(plan)->keys, &ota_shards_of(plan)->values};
    static const char *const names[] = {"keys", "values"};
    for (int k = 0; k < 2; k++) {
        const char *field = ota_arrays_written_on(arrays, mine[k]);
        if (field != NULL)
            return ota_fail(error, OTA_EALIAS, field, "give it memory of its own", "%s overlaps %s",
                            field, names[k]);
    }
    return OTA_OK;
}

/* ---- runs --------------------------------------------------------------------------------------- */

/* Outputs and starts that are sums over the rows, or their beginning, are wanted by all ranks or by none; statistics of rows
 * take a message round of a ring. */
static const char *const wished[] = {"values", "out", "receiver", "start_potential",
                                     "row_entropy, row_support or row_max"};
enum { WISHED = (int)(sizeof wished / sizeof wished[0]) };

/* Beside the wishes of a call. */
enum { TYPES_AT = 40 };
_Static_assert((int)OTA_DERIVATIVES + OTA_MAX_TERMS <= TYPES_AT, "a bit a row and a term");

uint64_t ota_ranks_types(const ota_shards *shards) {
    return (uint64_t)shards->values.type << TYPES_AT;
}

ota_status ota_ranks_refuse_types(uint64_t differ, ota_error *error) {
    if (differ >> TYPES_AT == 0) return OTA_OK;
    return ota_fail(error, OTA_EMISMATCH, "values", "convert them to one type on every rank",
                    "values are of one type on some ranks and of another, or absent, on others");
}

static uint64_t wishes_of(const ota_shards *shards, const ota_arrays *given) {
    const bool wishes[WISHED] = {ota_array_present(&given->values), ota_array_present(&given->out),
                                 ota_array_present(&given->receiver),
                                 ota_array_present(&given->start_potential),
                                 shards->in_ring && ota_ring_wants_statistics(given)};
    uint64_t bits = ota_ranks_types(shards);
    for (int k = 0; k < WISHED; k++) bits |= (uint64_t)wishes[k] << k;
    return bits;
}

ota_status ota_ranks_gather_keys(ota_plan *plan, ota_error *error) {
    ota_shards *shards = ota_shards_of(plan);
    if (shards->from_matrix || shards->in_ring) return OTA_OK;
    ota_array values = shards->all_values;
    values.type = shards->values.type;
    if (!ota_shards_gather(shards, &shards->keys, &shards->all_keys, "gathering the keys") ||
        (ota_array_present(&shards->values) &&
         !ota_shards_gather(shards, &shards->values, &values, "gathering the values")))
        return ota_ranks_refuse(&shards->ranks, error);
    return OTA_OK;
}

ota_status ota_ranks_begin_run(ota_plan *plan, const ota_arrays *given, ota_status checked,
                               ota_error *error) {
    ota_shards *shards = ota_shards_of(plan);
    shards->messages = shards->ranks.messages;
    shards->message_bytes = shards->ranks.bytes;
    ota_arrays mine = {0};
    if (checked == OTA_OK) memcpy(&mine, given, ota_size_min(given->size, sizeof mine));
    uint64_t differ;
    TRY(ota_ranks_agree_on(&plan->resolved.settings, checked, wishes_of(shards, &mine), &differ,
                           error));
    for (int k = 0; k < WISHED; k++) {
        if ((differ >> k & 1) == 0) continue;
        return ota_fail(error, OTA_EMISMATCH, wished[k], "give it on every rank or on none",
                        "%s is present on some ranks and not on others", wished[k]);
    }
    TRY(ota_ranks_refuse_types(differ, error));
    return ota_ranks_gather_keys(plan, error);
}

static bool share_receiver(ota_plan *plan, const ota_arrays *arrays, int64_t index) {
    ota_shards *shards = ota_shards_of(plan);
    const ota_resolved *r = &plan->resolved;
    const int64_t batch = index / r->heads, head = index % r->heads;
    for (int64_t j = 0; j < r->keys; j++)
        shards->line[j] = ota_array_get(&arrays->receiver, batch, head, 0, j);
    if (!ota_ranks_sum(&r->settings, shards->line, r->keys, NULL, 0, "the receivers' sums"))
        return false;
    for (int64_t j = 0; j < r->keys; j++)
        ota_array_set(&arrays->receiver, batch, head, 0, j, shards->line[j]);
    return true;
}

ota_status ota_ranks_found(const ota_settings *settings, ota_status found) {
    const ota_status here = ota_interrupted(settings);
    return here != OTA_OK && found != OTA_ECOMM ? here : found;
}

/* Larger is worse: failures above caveats. */
double ota_severity_of(ota_status status) {
    enum { FAILURES = 100 };
    return status < OTA_OK ? (double)FAILURES - (double)status : (double)status;
}

ota_status ota_status_of_severity(double severity) {
    enum { FAILURES = 100 };
    return severity >= (double)FAILURES ? (ota_status) - (int)(severity - (double)FAILURES)
                                        : (ota_status)(int)severity;
}

/* The worst of all ranks: *stopped, and what became of every head. */
static bool share_statuses(ota_plan *plan, int64_t heads, int *stopped) {
    double *most = ota_shards_of(plan)->statistics;
    most[heads] = ota_severity_of((ota_status)*stopped);
    for (int64_t k = 0; k < heads; k++) most[k] = ota_severity_of(plan->heads[k].result.status);
    if (!ota_ranks_most(&plan->resolved.settings, most, heads + 1, "the end of the run"))
        return false;
    *stopped = ota_status_of_severity(most[heads]);
    for (int64_t k = 0; k < heads; k++)
        plan->heads[k].result.status = ota_status_of_severity(most[k]);
    return true;
}

/* Row errors of coupled heads are in units of the mass of all rows already. */
static bool share_errors(ota_plan *plan, int64_t heads) {
    ota_shards *shards = ota_shards_of(plan);
    const ota_settings *s = &plan->resolved.settings;
    const bool coupled = plan->strategy.path == OTA_PATH_COUPLED;
    double *sums = shards->statistics;
    for (int64_t k = 0; k < heads; k++) {
        const ota_head_status *t = &plan->heads[k];
        double *at = sums + k * OTA_SHARDS_STATISTICS;
        at[0] = coupled ? t->result.row_error : t->result.row_error * t->mass;
        at[1] = t->mass;
        at[2] = (double)t->empty_rows;
        at[3] = (double)t->nonfinite_rows;
    }
    if (!ota_ranks_sum(s, sums, heads * OTA_SHARDS_STATISTICS, NULL, 0, "the rows' errors"))
        return false;
    for (int64_t k = 0; k < heads; k++) {
        ota_head_status *t = &plan->heads[k];
        const double *at = sums + k * OTA_SHARDS_STATISTICS;
        t->result.row_error = coupled || !(at[1] > 0.0) ? at[0] : at[0] / at[1];
        t->empty_rows = (int64_t)at[2];
        t->nonfinite_rows = (int64_t)at[3];
    }
    return true;
}

int ota_ranks_end_run(ota_plan *plan, const ota_arrays *arrays, int stopped) {
    ota_shards *shards = ota_shards_of(plan);
    const ota_resolved *r = &plan->resolved;
    const int64_t heads = r->batch * r->heads;
    ota_ranks_at(&shards->ranks, -1, -1);
    stopped = ota_ranks_found(&r->settings, (ota_status)stopped);
    if (!share_statuses(plan, heads, &stopped)) return OTA_ECOMM;
    if (stopped != OTA_OK) return stopped;
    if (!share_errors(plan, heads)) return OTA_ECOMM;
    for (int64_t k = 0; k < heads; k++) {
        const ota_head_status *t = &plan->heads[k];
        const bool fine = t->result.status >= OTA_OK;
        if (!fine) ota_run_poison(plan->pool, arrays, k / r->heads, k % r->heads);
        if (fine && ota_array_present(&arrays->receiver) && !share_receiver(plan, arrays, k))
            return OTA_ECOMM;
        if (arrays->heads != NULL) arrays->heads[k] = t->result;
    }
    return OTA_OK;
}

void ota_ranks_count_messages(const ota_shards *shards, ota_result *result) {
    result->messages = shards->ranks.messages - shards->messages;
    result->message_bytes = shards->ranks.bytes - shards->message_bytes;
}

ota_status ota_ranks_check_share(const ota_shards *shards, const ota_array *mine, const char *name,
                                 const ota_array *all, ota_error *error) {
    const int64_t want[4] = {all->size[0], all->size[1], shards->key_share, all->size[3]};
    TRY(ota_check_array(mine, name, error));
    if (!ota_is_float(mine->type))
        return ota_wrong_type(name, mine->type, "f64, f32, bf16 or f16", error);
    return ota_check_shape(mine, name, want, false, error);
}

/* ---- drivers -------------------------------------------------------------------------------------- */

static ota_status check(const ota_plan *plan, const ota_arrays *given, const ota_result *result,
                        ota_arrays *arrays, ota_error *error) {
    ota_arrays wide;
    TRY(ota_ranks_widen(plan, given, &wide, error));
    TRY(ota_forward_check(plan, &wide, result, arrays, error));
    TRY(ota_ranks_check_apart(plan, arrays, error));
    return ota_shards_of(plan)->in_ring ? ota_ring_check(arrays, error) : OTA_OK;
}

ota_status ota_ranks_forward(ota_plan *plan, const ota_arrays *given, ota_result *result,
                             ota_error *error) {
    ota_arrays arrays;
    ota_result found;
    const ota_status checked = check(plan, given, result, &arrays, error);
    const ota_status begun = ota_ranks_begin_run(plan, given, checked, error);
    if (begun == OTA_ECOMM && checked == OTA_OK) ota_forward_leave_nothing(plan, &arrays);
    if (begun != OTA_OK) return begun;
    const int stopped = ota_ranks_end_run(plan, &arrays, ota_forward_heads(plan, &arrays));
    ota_forward_sum_up(plan, stopped, &found);
    if (stopped != OTA_OK) ota_forward_leave_nothing(plan, &arrays);
    ota_ranks_count_messages(ota_shards_of(plan), &found);
    const ota_status status = ota_forward_report(&found, result, error);
    return status == OTA_ECOMM ? ota_ranks_refuse(&ota_shards_of(plan)->ranks, error) : status;
}

static size_t bytes_of(const ota_plan *plan) {
    const ota_shards *shards = ota_shards_of(plan);
    return sizeof *shards + shards->bytes +
           (shards->in_ring && plan->device != NULL ? ota_ring_plan_bytes(plan->device) : 0);
}

/* The problem's keys and values are those of all ranks. */
static const ota_array *input(const ota_plan *plan, int k, const char **field) {
    const ota_shards *shards = ota_shards_of(plan);
    *field = k == 0 ? "keys" : "values";
    return k == 0 ? &shards->keys : k == 1 ? &shards->values : NULL;
}

static void describe(const ota_plan *plan, char *text, size_t size) {
    const ota_resolved *r = &plan->resolved;
    const ota_shards *shards = ota_shards_of(plan);
    const ota_communicator *with = &shards->ranks.to;
    const int64_t gathered = r->from_matrix ? 0 : r->batch * r->key_heads * r->keys;
    const int used =
        ota_snprintf(text, size, "rank: %d of %d, %" PRId64 " of %" PRId64 " queries (%s)\n",
                     with->rank, with->ranks, r->queries, r->share.rows,
                     with->shares == OTA_SHARES_ZIGZAG ? "zigzag" : "in order");
    if (used < 0 || (size_t)used >= size) return;
    text += used;
    size -= (size_t)used;
    if (shards->in_ring)
        (void)ota_snprintf(text, size,
                           "ring: %" PRId64 " bytes of keys and values passed on a message round; "
                           "message rounds of a forward: %s\n",
                           ota_ring_bytes(plan->device), ota_ring_message_rounds(plan->device));
    else
        (void)ota_snprintf(
            text, size,
            "gathered: %" PRId64 " bytes of keys and values a run, held on every rank\n",
            gathered * (r->width + plan->values_width) * (int64_t)ota_type_bytes(r->type));
}

static void release(ota_plan *plan) {
    ota_shards_free(plan->driven);
    plan->driven = NULL;
}

const ota_plan_driver ota_gathered_driver = {.bytes = bytes_of,
                                             .input = input,
                                             .rebind = ota_ranks_rebind,
                                             .forward = ota_ranks_forward,
                                             .backward = ota_ranks_backward,
                                             .jvp = ota_ranks_jvp,
                                             .describe = describe,
                                             .release = release};

const ota_plan_driver ota_ring_driver = {.open = ota_ring_open,
                                         .bytes = bytes_of,
                                         .input = input,
                                         .rebind = ota_ranks_rebind,
                                         .forward = ota_ranks_forward,
                                         .backward = ota_ranks_backward,
                                         .jvp = ota_ranks_jvp,
                                         .describe = describe,
                                         .release = release};
