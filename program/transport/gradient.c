/* `--grad`: the derivatives of a number L that the caller's program makes from out (attend) or from the
 * coupling (plan), given as dL/dout [...,n,w] or dL/dP [...,n,m]. Every gradient has the name, shape and
 * type of what it belongs to; all go into one file.
 *
 *     query key value bias scores       temperature alpha cap strength row_mass column_mass sink alibi ...
 *     advantage_ij = u_ij - sum_k P_ik u_ik / sum_k P_ik,   u = -dL/dP                             [LIT-19] */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "program/program.h"
#include "rows.h"
#include "shard.h"
#include "src/problem/fields.h"

/* Arrays are owned; `shapes` hold name, rank, shape and type of the file. */
struct cli_gradients {
    ota_gradients want;
    ota_array terms[CLI_MAX_TERMS];
    cli_rows rows[CLI_MAX_GRADIENTS];
    cli_array shapes[CLI_MAX_GRADIENTS];
    int count;
};

/* Which dimension of a gradient has the lines of this process of --shard alone, where it has all `total` of them. */
typedef struct sharing {
    int dimension;
    int64_t total;
} sharing;

static const sharing whole = {-1, 0};

/* How a gradient is written. */
typedef struct file_form {
    ota_type type;
    int rank;
    const int64_t *shape;
} file_form;

/* A gradient like `like`, named `name`. `slot` of the library's struct gets it. */
static int add(cli_context *context, cli_gradients *g, const char *name, const ota_array *like,
               file_form form, sharing of, ota_array *slot) {
    const ota_type type = form.type;
    cli_rows *rows = &g->rows[g->count];
    cli_array *file = &g->shapes[g->count];
    ota_array array =
        ota_array_of(NULL, type, like->size[0], like->size[1], like->size[2], like->size[3]);
    const bool shared = of.dimension >= 0 && array.size[of.dimension] == of.total;
    *file = (cli_array){.type = type, .rank = form.rank, .count = 1};
    for (int k = 0; k < 4; k++) file->count *= (size_t)array.size[k];
    for (int k = 0; k < form.rank; k++) file->shape[k] = form.shape[k];
    (void)snprintf(file->name, sizeof file->name, "%s", name);
    if (shared) array.size[of.dimension] = cli_share_held(&context->share, of.total);
    size_t count = ota_type_bytes(type);
    for (int k = 0; k < 4; k++) count *= (size_t)array.size[k];
    void *data = NULL;
    const int code = cli_memory(context, count, "a gradient", &data);
    if (code != 0) return code;
    array = ota_array_of(data, type, array.size[0], array.size[1], array.size[2], array.size[3]);
    *rows = (cli_rows){.mine = array, .dimension = shared ? of.dimension : -1, .total = of.total};
    *slot = array;
    g->count++;
    return 0;
}

/* Of something that was read from a file: its shape and type. */
static int add_like_file(cli_context *context, cli_gradients *g, const char *name,
                         const char *field, const char *spec, const ota_array *like, sharing of,
                         ota_array *slot) {
    const cli_array *file = cli_loaded(context, spec);
    const int code = file == NULL ? cli_load(context, field, spec, OTA_NO_TYPE, &file) : 0;
    if (code != 0) return code;
    const ota_type type = file->type == OTA_I64 || file->type == OTA_BOOL ? OTA_F64 : file->type;
    return add(context, g, name, like, (file_form){type, file->rank, file->shape}, of, slot);
}

/* Of numbers that were written on the command line: one, or one per head. */
static int add_numbers(cli_context *context, cli_gradients *g, const char *name, int64_t count,
                       ota_array *slot) {
    const ota_array like = ota_array_of(NULL, OTA_F64, 1, 1, 1, count);
    return add(context, g, name, &like, (file_form){OTA_F64, count > 1 ? 1 : 0, &count}, whole,
               slot);
}

/* ---- members of ota_gradients ---- */

static bool is_plan(const cli_problem *p) { return p->problem.scores.type != OTA_NO_TYPE; }
static bool is_attention(const cli_problem *p) { return !is_plan(p); }
static bool wants_scores(const cli_problem *p) {
    return is_attention(p) && p->settings.gradients.scores;
}
static bool is_entmax(const cli_problem *p) { return p->problem.regulariser == OTA_ENTMAX; }
static bool has_cap(const cli_problem *p) {
    return p->problem.columns == OTA_COLUMNS_CAPPED || p->problem.columns == OTA_COLUMNS_ONLINE;
}
static bool is_bounded(const cli_problem *p) { return p->problem.columns == OTA_COLUMNS_BOUNDED; }
static bool has_strength(const cli_problem *p) {
    const ota_problem *problem = &p->problem;
    return problem->columns == OTA_COLUMNS_RELAXED ||
           (problem->columns == OTA_COLUMNS_ELASTIC && p->settings.solver.elastic_lambda == NULL &&
            (problem->lambda > 0.0 || problem->steps == 0));
}
static bool has_relaxed_rows(const cli_problem *p) { return p->problem.rows == OTA_ROWS_RELAXED; }
static bool has_row_mass(const cli_problem *p) { return p->settings.masses.row != NULL; }
static bool has_column_mass(const cli_problem *p) { return p->settings.masses.column != NULL; }

/* What is written of a row of ota_derivatives, whose shape says how; `applies` NULL: always. */
typedef struct gradient_row {
    enum ota_derivative_index derivative;
    const char *name,
        *field; /* in the file; flag or operand that the array was read for, or NULL */
    bool (*applies)(const cli_problem *p);
    int operand;  /* from 1 on: that one; 0: none */
    size_t flag;  /* the file's place in cli_settings where it was no operand */
    bool by_wish; /* by --grad-parameters alone */
} gradient_row;

#define FILE_OF(member) .flag = offsetof(cli_settings, member)
static const gradient_row table[] = {
    {OTA_D_MATRIX, "scores", "scores", is_plan, .operand = 1},
    {OTA_D_QUERIES, "query", "queries", is_attention, .operand = 1},
    {OTA_D_KEYS, "key", "keys", is_attention, .operand = 2},
    {OTA_D_VALUES, "value", "values", is_attention, .operand = 3},
    {OTA_D_SCORES, "scores", NULL, .applies = wants_scores},
    {OTA_D_TEMPERATURE, "temperature", NULL, NULL, .by_wish = true},
    {OTA_D_ORDER, "alpha", NULL, is_entmax, .by_wish = true},
    {OTA_D_CAP, "cap", NULL, has_cap, .by_wish = true},
    {OTA_D_LOWER, "lower", NULL, is_bounded, .by_wish = true},
    {OTA_D_UPPER, "upper", NULL, is_bounded, .by_wish = true},
    {OTA_D_STRENGTH, "strength", NULL, has_strength, .by_wish = true},
    {OTA_D_ROW_STRENGTH, "row_strength", NULL, has_relaxed_rows, .by_wish = true},
    {OTA_D_ROW_MASS, "row_mass", "row-mass", has_row_mass, FILE_OF(masses.row), .by_wish = true},
    {OTA_D_COLUMN_MASS, "column_mass", "column-mass", has_column_mass, FILE_OF(masses.column),
     .by_wish = true},
};
enum { ROWS = (int)(sizeof table / sizeof table[0]) };
_Static_assert(ROWS == OTA_DERIVATIVES - 4, "all but out, coupling, terms and solved");

/* The array that a row's gradient looks like, where it was read from a file. */
static const ota_array *read_array(const cli_problem *p, enum ota_derivative_index k) {
    if (k == OTA_D_VALUES) return &p->values;
    if (k == OTA_D_MATRIX) return &p->problem.scores;
    return ota_field_in(ota_field_named(ota_problem_fields, ota_derivatives[k].gradient),
                        &p->problem);
}

static sharing sharing_of(const cli_problem *p, ota_derivative_shape shape) {
    switch (shape) {
    case OTA_SHAPE_QUERIES:
    case OTA_SHAPE_PAIRS: return (sharing){2, p->queries};
    case OTA_SHAPE_KEYS:
    case OTA_SHAPE_VALUES: return (sharing){2, p->keys};
    case OTA_SHAPE_OF_QUERIES: return (sharing){3, p->queries};
    case OTA_SHAPE_OUT:
    case OTA_SHAPE_OF_KEYS:
    case OTA_SHAPE_PER_HEAD:
    case OTA_SHAPE_NUMBER:
    case OTA_SHAPE_TERMS:
    case OTA_SHAPE_FLAG:
    default: return whole;
    }
}

static int add_row(cli_context *context, const cli_problem *p, cli_gradients *g,
                   const gradient_row *row) {
    const ota_derivative_shape shape = ota_derivatives[row->derivative].shape;
    const sharing of = sharing_of(p, shape);
    const bool each = shape == OTA_SHAPE_PER_HEAD && p->problem.temperatures.type != OTA_NO_TYPE;
    ota_array *slot =
        (ota_array *)(void *)((char *)&g->want + ota_derivatives[row->derivative].gradient_at);
    if (row->applies != NULL && !row->applies(p)) return 0;
    if (row->field != NULL) {
        const char *spec;
        memcpy(&spec, (const char *)&p->settings + row->flag, sizeof spec);
        if (row->operand > 0) spec = context->operands[row->operand - 1];
        return add_like_file(context, g, row->name, row->field, spec,
                             read_array(p, row->derivative), of, slot);
    }
    if (shape != OTA_SHAPE_PAIRS)
        return add_numbers(context, g, row->name, each ? p->heads : 1, slot);
    const ota_array like =
        ota_array_of(NULL, p->file_type, p->batch, p->heads, p->queries, p->keys);
    const int rank = p->rank > 2 ? p->rank : 2;
    return add(context, g, row->name, &like, (file_form){p->file_type, rank, like.size + 4 - rank},
               of, slot);
}

static int add_rows(cli_context *context, const cli_problem *p, cli_gradients *g, bool by_wish) {
    int code = 0;
    for (int k = 0; k < ROWS && code == 0; k++) {
        if (table[k].by_wish == by_wish) code = add_row(context, p, g, &table[k]);
    }
    return code;
}

/* The terms in the problem's order: biases always, numbers and relative biases among the parameters. */
static int add_terms(cli_context *context, cli_problem *p, cli_gradients *g) {
    const cli_settings *s = &p->settings;
    int bias = 0, code = 0;
    for (int64_t k = 0; k < p->problem.term_count && code == 0; k++) {
        const ota_term *term = &p->terms[k];
        const int64_t numbers = term->array.type == OTA_NO_TYPE ? 1 : term->array.size[3];
        char name[32] = "bias";
        if (term->kind == OTA_TERM_DENSE) {
            if (bias > 0) (void)snprintf(name, sizeof name, "bias_%d", bias + 1);
            code = add_like_file(context, g, name, "bias", s->scores.biases.items[bias++],
                                 &term->array, (sharing){2, p->queries}, &g->terms[k]);
            continue;
        }
        if (!s->gradients.parameters) continue;
        switch (term->kind) {
        case OTA_TERM_ALIBI: code = add_numbers(context, g, "alibi", numbers, &g->terms[k]); break;
        case OTA_TERM_SINK: code = add_numbers(context, g, "sink", numbers, &g->terms[k]); break;
        case OTA_TERM_SOFTCAP: code = add_numbers(context, g, "softcap", 1, &g->terms[k]); break;
        case OTA_TERM_RELATIVE:
        case OTA_TERM_RELATIVE_INSIDE: {
            const int64_t shape[2] = {term->array.size[1], term->array.size[3]};
            const bool heads = shape[0] > 1;
            code = add(context, g, "relative_bias", &term->array,
                       (file_form){term->array.type, heads ? 2 : 1, heads ? shape : shape + 1},
                       whole, &g->terms[k]);
            break;
        }
        case OTA_TERM_DENSE:
        default: break;
        }
    }
    g->want.terms = g->terms;
    return code;
}

int cli_gradients_prepare(cli_context *context, cli_problem *p, cli_gradients **out) {
    const cli_settings *s = &p->settings;
    const bool plan = p->problem.scores.type != OTA_NO_TYPE;
    const cli_array *file;
    int code = cli_load_share(context, "grad", s->gradients.of, OTA_NO_TYPE, p->queries, &file);
    if (code == 0 && (file->type == OTA_I64 || file->type == OTA_BOOL))
        code = cli_load_share(context, "grad", s->gradients.of, OTA_F64, p->queries, &file);
    if (code != 0) return code;
    if (file->rank > 4) {
        return cli_refuse_flag(context, "grad", NULL, "--grad has %d dimensions, at most 4 fit",
                               file->rank);
    }
    cli_gradients *g = calloc(1, sizeof *g);
    *out = g;
    if (g == NULL) return cli_fail(&context->error, CLI_EXIT_LIMIT, "there is no memory left");
    g->want.size = sizeof g->want;
    ota_array given = cli_aligned(file);
    cli_shard_cut(context, &given, 2, p->queries);
    *(plan ? &g->want.coupling_grad : &g->want.out_grad) = given;
    if (s->gradients.out == NULL) {
        /* The advantage alone: the library still wants something to derive. */
        return 0;
    }
    code = add_rows(context, p, g, false);
    if (code == 0) code = add_terms(context, p, g);
    if (code == 0 && s->gradients.parameters) code = add_rows(context, p, g, true);
    return code;
}

/* With queries and keys rotated by --rope, what belongs to the files is R^T times the gradient; turning back
 * by an angle is turning by it between two reflections. */
static void reflect(const ota_array *x) {
    const int64_t count = x->size[0] * x->size[1] * x->size[2] * x->size[3];
    const size_t bytes = ota_type_bytes(x->type);
    for (int64_t k = 1; k < count; k += 2) {
        /* The sign is the highest bit of every one of the types. */
        unsigned char *element = (unsigned char *)x->data + (size_t)k * bytes;
        const uint16_t probe = 1;
        element[*(const unsigned char *)&probe == 1 ? bytes - 1 : 0] ^= 0x80u;
    }
}

static int turn_back(cli_context *context, const cli_problem *p, const ota_array *x,
                     int64_t first) {
    double base = 10000.0;
    ota_error error = {.message = ""};
    if (p->settings.scores.rope[0] != '\0') (void)cli_number(p->settings.scores.rope, &base);
    reflect(x);
    const ota_status status = ota_rope(x, first, base, &error);
    reflect(x);
    return status < 0 ? cli_fail_status(context, status, &error) : 0;
}

int cli_gradients_run(cli_context *context, const cli_problem *p, ota_plan *plan,
                      const ota_arrays *arrays, cli_gradients *g, ota_result *result) {
    ota_error error = {.message = ""};
    result->size = sizeof *result;
    const ota_status status = ota_backward(plan, arrays, &g->want, result, &error);
    if (status < 0) {
        if (strcmp(error.field, "out_grad") == 0 || strcmp(error.field, "coupling_grad") == 0)
            (void)snprintf(error.field, sizeof error.field, "grad");
        return cli_fail_status(context, status, &error);
    }
    if (p->settings.scores.rope == NULL || g->want.queries.type == OTA_NO_TYPE) return 0;
    const bool corner = p->problem.corner == OTA_BOTTOM_RIGHT;
    const cli_share *share = &context->share;
    const bool all = share->ranks <= 1;
    const int64_t query = all ? 0 : cli_share_begin(p->queries, share->rank, share->ranks);
    const int64_t key = all ? 0 : cli_share_begin(p->keys, share->rank, share->ranks);
    const int code =
        turn_back(context, p, &g->want.queries, query + (corner ? p->keys - p->queries : 0));
    return code != 0 ? code : turn_back(context, p, &g->want.keys, key);
}

/* dL/dP of one pair. */
static double upstream(const cli_problem *p, const cli_gradients *g, int64_t batch, int64_t head,
                       int64_t i, int64_t j) {
    const ota_array *out = &g->want.out_grad, *plan = &g->want.coupling_grad;
    if (plan->type != OTA_NO_TYPE) {
        return cli_element(plan->data, plan->type,
                           (size_t)(((batch * p->heads + head) * p->queries + i) * p->keys + j));
    }
    const int64_t key_heads = p->values.size[1], width = p->values_width;
    const int64_t row = ((batch * p->heads + head) * p->queries + i) * width;
    const int64_t key_head = head / (p->heads / key_heads);
    const int64_t value = ((batch * key_heads + key_head) * p->keys + j) * width;
    double sum = 0.0;
    for (int64_t k = 0; k < width; k++) {
        sum += cli_element(out->data, out->type, (size_t)(row + k)) *
               cli_element(p->values.data, p->values.type, (size_t)(value + k));
    }
    return sum;
}

void cli_advantage(const cli_problem *p, const cli_gradients *g, const ota_array *coupling,
                   ota_array *advantage) {
    double *to = advantage->data;
    const double *weights = coupling->data;
    for (int64_t row = 0; row < p->batch * p->heads * p->queries; row++) {
        const int64_t index = row / p->queries;
        const double *weight = weights + row * p->keys;
        double *line = to + row * p->keys, mean = 0.0, mass = 0.0;
        for (int64_t j = 0; j < p->keys; j++) {
            line[j] = -upstream(p, g, index / p->heads, index % p->heads, row % p->queries, j);
            if (!(weight[j] > 0.0)) continue;
            mean += weight[j] * line[j];
            mass += weight[j];
        }
        for (int64_t j = 0; j < p->keys; j++) {
            /* What lies under a mask is not used, whatever it is. */
            if (!(weight[j] > 0.0) && !isfinite(line[j])) line[j] = 0.0;
            line[j] -= mass > 0.0 ? mean / mass : 0.0;
        }
    }
}

int cli_gradients_rows(const cli_gradients *g, cli_rows *rows) {
    if (g == NULL) return 0;
    memcpy(rows, g->rows, (size_t)g->count * sizeof *rows);
    return g->count;
}

int cli_gradients_write(cli_context *context, const cli_gradients *g, const cli_rows *rows,
                        int first, const char *path, cli_output *output) {
    const size_t length = strlen(path);
    const bool bf16 = length >= 12 && strcmp(path + length - 12, ".safetensors") == 0;
    cli_array files[CLI_MAX_GRADIENTS];
    cli_elements elements[CLI_MAX_GRADIENTS];
    cli_rows_reader readers[CLI_MAX_GRADIENTS];
    for (int k = 0; k < g->count; k++) {
        files[k] = g->shapes[k];
        /* npy knows no bf16; f32 holds every one of its numbers. */
        if (files[k].type == OTA_BF16 && !bf16) files[k].type = OTA_F32;
        readers[k] = (cli_rows_reader){.rows = rows, .number = first + k, .type = files[k].type};
        elements[k] = (cli_elements){cli_rows_next, &readers[k]};
        files[k].elements = &elements[k];
    }
    return cli_write_arrays(output, files, (size_t)g->count, &context->error);
}

void cli_gradients_free(cli_gradients *g) {
    for (int k = 0; g != NULL && k < g->count; k++) free(g->rows[k].mine.data);
    free(g);
}
