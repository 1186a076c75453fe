/* Makes the calls of a case and folds every byte that they wrote into the hashes of its row: the elements of the
 * outputs, the gaps between them, status and numbers of results. Sentences, descriptions and sizes of plans are left
 * out, because they may be reworded and rearranged. */
#include "calls.h"

#include <inttypes.h>

const char *const dump_part_names[DUMP_PARTS] = {"plan", "forward", "rebind", "backward",
                                                 "jvp",  "decode",  "attend", "other"};

/* What outputs hold before a call. */
enum { PATTERN = 0xa5 };

typedef struct run {
    dump_case *c;
    dump_row *row;
    ota_plan *plan;
    FILE *explain;
    dump_part part;
} run;

/* ---- taking down ------------------------------------------------------------------------------------- */

static uint64_t *hash_of(run *r) { return &r->row->parts[r->part]; }

static void note_whole(run *r, const char *name, int64_t number) {
    dump_add_word(hash_of(r), (uint64_t)number);
    if (r->explain == NULL) return;
    (void)fprintf(r->explain, "%-9s %-18s %" PRId64 "\n", dump_part_names[r->part], name, number);
}

static void note_real(run *r, const char *name, double number) {
    dump_add_number(hash_of(r), number);
    if (r->explain == NULL) return;
    (void)fprintf(r->explain, "%-9s %-18s %.17g\n", dump_part_names[r->part], name, number);
}

static void note_text(run *r, const char *name, const char *text) {
    dump_add_text(hash_of(r), text == NULL ? "" : text);
    if (r->explain == NULL) return;
    (void)fprintf(r->explain, "%-9s %-18s '%s'\n", dump_part_names[r->part], name,
                  text == NULL ? "" : text);
}

static void note_status(run *r, ota_status status) {
    int *kept = &r->row->status[r->part];
    if (*kept == OTA_UNSOLVED || status < *kept) *kept = (int)status;
    note_whole(r, "status", status);
}

static void note_sums(run *r, const dump_output *o, uint64_t digest) {
    double sum = 0.0, size = 0.0;
    int64_t at[4] = {0}, finite = 0, all = 0;
    const bool empty = has_no_elements(&o->array);
    do {
        const double value = empty ? 0.0 : element_get(&o->array, at);
        all++;
        if (!(value - value >= 0.0)) continue;
        finite++;
        sum += value;
        size += value < 0.0 ? -value : value;
    } while (!empty && next_element(&o->array, at));
    (void)fprintf(r->explain,
                  "%-9s %-18s %016" PRIx64 " finite %" PRId64 " of %" PRId64
                  " sum %.17g absolute %.17g\n",
                  dump_part_names[r->part], o->name, digest, finite, all, sum, size);
}

static void note_outputs(run *r, const dump_outputs *outputs) {
    for (int k = 0; k < outputs->count; k++) {
        const dump_output *o = &outputs->list[k];
        uint64_t digest = 0;
        dump_same_nan(&o->array);
        dump_add_bytes(&digest, o->block.start, o->block.bytes);
        dump_add_word(hash_of(r), digest);
        if (r->explain != NULL) note_sums(r, o, digest);
    }
}

static void note_heads(run *r) {
    const ota_head_result *heads = r->c->arrays.heads;
    for (int64_t k = 0; heads != NULL && k < r->c->head_count; k++) {
        note_whole(r, "head.status", heads[k].status);
        note_whole(r, "head.rounds", heads[k].rounds);
        note_real(r, "head.row_error", heads[k].row_error);
        note_real(r, "head.column_error", heads[k].column_error);
    }
}

static void note_result(run *r, const ota_result *result) {
    note_whole(r, "result.status", result->status);
    note_whole(r, "rounds", result->rounds);
    note_real(r, "row_error", result->row_error);
    note_real(r, "column_error", result->column_error);
    note_whole(r, "empty_rows", result->empty_rows);
    note_whole(r, "nonfinite_rows", result->nonfinite_rows);
    note_whole(r, "unusable_pairs", result->unusable_pairs);
    note_whole(r, "pruned_pairs", result->pruned_pairs);
    note_whole(r, "underflowed", result->underflowed);
    note_whole(r, "promoted", result->promoted);
    note_real(r, "temperature", result->temperature_reached);
    note_whole(r, "head", result->head);
    note_real(r, "backward_residual", result->backward_residual);
    note_text(r, "solver", result->solver);
}

static void note_certificate(run *r, const ota_certificate *x) {
    const struct {
        const char *name;
        double number;
    } numbers[] = {{"row_error", x->row_error},
                   {"column_error", x->column_error},
                   {"primal", x->primal},
                   {"dual", x->dual},
                   {"gap", x->gap},
                   {"value", x->value},
                   {"entropy", x->entropy},
                   {"support", x->support},
                   {"receiver_max", x->receiver_max},
                   {"receiver_min", x->receiver_min},
                   {"delta", x->delta},
                   {"minimum", x->minimum},
                   {"outside", x->outside}};
    for (size_t k = 0; k < sizeof numbers / sizeof numbers[0]; k++)
        note_real(r, numbers[k].name, numbers[k].number);
    note_whole(r, "empty_rows", x->empty_rows);
    note_whole(r, "nonfinite_rows", x->nonfinite_rows);
}

/* Every byte of the outputs to the pattern, so that what is left alone shows. */
static void reset_outputs(const run *r, const dump_outputs *outputs) {
    for (int k = 0; k < outputs->count; k++) {
        const dump_output *o = &outputs->list[k];
        if (o->block.bytes > 0) memset(o->block.start, PATTERN, o->block.bytes);
    }
    const dump_case *c = r->c;
    if (outputs == &c->forward && c->arrays.heads != NULL && c->head_count > 0)
        memset(c->arrays.heads, PATTERN, (size_t)c->head_count * sizeof(ota_head_result));
}

/* ---- calls ------------------------------------------------------------------------------------------- */

/* Full capacities for keys [first, last), where the case has them. */
static void refill(run *r, int64_t first, int64_t last) {
    const ota_array *remaining = &r->c->arrays.remaining;
    if (remaining->type == OTA_NO_TYPE) return;
    note_whole(r, "capacity", ota_decode_capacity(r->plan, remaining, first, last, NULL));
}

static ota_status forward(run *r, dump_part part) {
    dump_case *c = r->c;
    ota_result result = {.size = sizeof result};
    r->part = part;
    reset_outputs(r, &c->forward);
    refill(r, 0, c->keys);
    const ota_status status = ota_forward(r->plan, &c->arrays, &result, NULL);
    note_status(r, status);
    note_result(r, &result);
    note_outputs(r, &c->forward);
    note_heads(r);
    return status;
}

static void decode(run *r) {
    dump_case *c = r->c;
    r->part = DUMP_PART_DECODE;
    reset_outputs(r, &c->forward);
    for (int k = 0; k < DUMP_STEPS; k++) {
        const int64_t before = k == 0 ? 0 : c->key_counts[k - 1];
        ota_result result = {.size = sizeof result};
        refill(r, before, c->key_counts[k]);
        note_status(r, ota_decode(r->plan, &c->arrays, c->key_counts[k], &result, NULL));
        note_result(r, &result);
        note_outputs(r, &c->forward);
        note_heads(r);
    }
}

/* Follows forward, whose arrays it reads. */
static void differentiate(run *r, ota_status solved) {
    dump_case *c = r->c;
    if ((c->calls & DUMP_BACKWARD) != 0) {
        ota_result result = {.size = sizeof result};
        ota_gradients gradients = c->gradients;
        if (solved < OTA_OK) gradients.solved = 0;
        r->part = DUMP_PART_BACKWARD;
        reset_outputs(r, &c->backward);
        note_status(r, ota_backward(r->plan, &c->arrays, &gradients, &result, NULL));
        note_result(r, &result);
        note_outputs(r, &c->backward);
    }
    if ((c->calls & DUMP_JVP) != 0) {
        ota_result result = {.size = sizeof result};
        r->part = DUMP_PART_JVP;
        reset_outputs(r, &c->jvp);
        note_status(r, ota_jvp(r->plan, &c->arrays, &c->tangents, &result, NULL));
        note_result(r, &result);
        note_outputs(r, &c->jvp);
    }
}

static void attend(run *r) {
    dump_case *c = r->c;
    ota_result result = {.size = sizeof result};
    r->part = DUMP_PART_ATTEND;
    reset_outputs(r, &c->forward);
    refill(r, 0, c->keys);
    note_status(r, ota_attend(&c->problem, &c->options, &c->arrays, &result, NULL));
    note_result(r, &result);
    note_outputs(r, &c->forward);
    note_heads(r);
}

static void certify(run *r, const ota_problem *problem) {
    dump_case *c = r->c;
    ota_certificate whole = {.size = sizeof whole};
    r->part = DUMP_PART_OTHER;
    note_status(r, ota_certify(problem, &c->options, &c->arrays, &whole, NULL, NULL));
    note_certificate(r, &whole);
}

static void rotate(run *r) {
    r->part = DUMP_PART_OTHER;
    note_status(r, ota_rope(&r->c->rope.list[0].array, r->c->number % 5, 0.0, NULL));
    note_outputs(r, &r->c->rope);
}

/* The method's name, and what the parser makes of it. */
static void spell(run *r) {
    const ota_problem *p = &r->c->problem;
    char name[160];
    ota_problem read = {.size = sizeof read};
    ota_options options = {.size = sizeof options};
    note_whole(r, "name length", (int64_t)ota_method_name(p, name, sizeof name));
    note_text(r, "name", name);
    note_whole(r, "parse", ota_method_parse(name, &read, &options, NULL));
    note_whole(r, "regulariser", read.regulariser);
    note_whole(r, "columns", read.columns);
    note_real(r, "order", read.order);
    note_real(r, "strength", read.strength);
    note_real(r, "cap", read.cap);
    note_real(r, "lambda", read.lambda);
    note_whole(r, "steps", read.steps);
}

/* ---- plans ------------------------------------------------------------------------------------------- */

/* The path, and what else tells strategies apart. */
static void describe(run *r) {
    static const struct {
        const char *found, *said;
    } words[] = {{"read where they lie", "in place"},
                 {" (promoted, on scores in f32)", "on f32"},
                 {"products of bf16", "products of bf16"},
                 {" (f64 where a head needs it)", "f64 by head"},
                 {" (rounds in f32 warm-start it)", "begins in f32"},
                 {" (promoted)", "promoted"}};
    char text[4096];
    dump_row *row = r->row;
    (void)ota_plan_describe(r->plan, text, sizeof text);
    const char *path = strstr(text, "\npath: ");
    if (path != NULL) path += strlen("\npath: ");
    (void)snprintf(row->path, sizeof row->path, "%.*s",
                   path == NULL ? 0 : (int)strcspn(path, "(\n"), path == NULL ? "" : path);
    for (size_t k = 0; k < sizeof words / sizeof words[0]; k++) {
        const size_t used = strlen(row->path);
        if (strstr(text, words[k].found) != NULL)
            (void)snprintf(row->path + used, sizeof row->path - used, "(%s)", words[k].said);
    }
    (void)snprintf(row->solver, sizeof row->solver, "%s", ota_plan_solver(r->plan));
}

static ota_status create(run *r, size_t limit, ota_plan **plan) {
    dump_case *c = r->c;
    ota_error error = {.message = ""};
    c->options.workspace_limit = limit;
    const ota_status status =
        ota_plan_create(plan, &c->problem, c->values_width, &c->options, &error);
    if (r->explain != NULL && status != OTA_OK)
        (void)fprintf(r->explain, "(refused: %s)\n", error.message);
    return status;
}

/* A second plan in less memory than the first took: half-way between what it takes and what the first took, so that
 * a few bytes more or less in either choose the same strategy. Where there is none, the first is kept. */
static void create_limited(run *r) {
    const size_t most = ota_plan_bytes(r->plan);
    const size_t limit = (size_t)((double)most * r->c->limit_share);
    ota_plan *less = NULL;
    note_status(r, create(r, DUMP_REFUSED_LIMIT, &less));
    ota_plan_free(less);
    r->row->status[r->part] = OTA_OK;
    if (create(r, limit, &less) == OTA_OK) {
        const size_t least = ota_plan_bytes(less);
        ota_plan_free(less);
        less = NULL;
        if (create(r, least / 2 + most / 2, &less) == OTA_OK) {
            ota_plan_free(r->plan);
            r->plan = less;
        }
    }
    if (less == NULL) r->c->options.workspace_limit = 0;
    note_whole(r, "limited", less != NULL);
}

static void run_calls(run *r) {
    dump_case *c = r->c;
    const ota_problem *problem = &c->problem;
    r->part = DUMP_PART_PLAN;
    spell(r);
    note_whole(r, "check", ota_check(&c->problem, &c->options, NULL));
    note_status(r, create(r, 0, &r->plan));
    if (r->plan != NULL && (c->calls & DUMP_LIMIT) != 0) create_limited(r);
    if (r->plan != NULL) {
        describe(r);
        note_text(r, "solver", ota_plan_solver(r->plan));
        ota_status solved = forward(r, DUMP_PART_FORWARD);
        if ((c->calls & DUMP_REBIND) != 0) {
            r->part = DUMP_PART_REBIND;
            const ota_status bound = ota_plan_rebind(r->plan, &c->second, NULL);
            note_status(r, bound);
            if (bound == OTA_OK) {
                solved = forward(r, DUMP_PART_REBIND);
                problem = &c->second;
            }
        }
        differentiate(r, solved);
        if ((c->calls & DUMP_CERTIFY) != 0) certify(r, problem);
        if ((c->calls & DUMP_DECODE) != 0) decode(r);
    }
    if ((c->calls & DUMP_ATTEND) != 0 && c->arrays.remaining.type == OTA_NO_TYPE) attend(r);
    if ((c->calls & DUMP_ROPE) != 0) rotate(r);
    ota_plan_free(r->plan);
}

void dump_run(dump_case *c, dump_memory *memory, int64_t number, const char *level, int threads,
              FILE *explain, dump_row *row) {
    memset(row, 0, sizeof *row);
    for (int k = 0; k < DUMP_PARTS; k++) row->status[k] = OTA_UNSOLVED;
    dump_draw(c, memory, number);
    c->options.cpu = level;
    if (threads > 0 && (c->calls & DUMP_LIMIT) == 0) c->options.threads = threads;
    run r = {.c = c, .row = row, .explain = explain};
    run_calls(&r);
}

/* ---- folding ------------------------------------------------------------------------------------------- */

static uint32_t half(uint64_t hash) { return (uint32_t)(hash ^ hash >> 32); }

uint32_t dump_fold(const dump_row *row) {
    uint64_t all = 0;
    for (int k = 0; k < DUMP_PARTS; k++) dump_add_word(&all, row->parts[k]);
    dump_add_word(&all, (uint64_t)row->died);
    return half(all);
}

uint32_t dump_fold_part(const dump_row *row, int part) { return half(row->parts[part]); }
