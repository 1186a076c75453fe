/* Settings and files become an ota_problem and ota_options. Arrays keep the shapes of their files and
 * are read as strided 4-d arrays, aligned from the right:
 *
 *     [n,d] -> [1,1,n,d]    [heads,n,d] -> [1,heads,n,d]    vectors [heads,m] -> [1,heads,1,m]
 *
 * Ranges that the library checks are left to it; what it cannot see (0 stands for its defaults, the
 * spelling of flags) is checked here. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "program/program.h"

#define TRY(call)                                                                                  \
    do {                                                                                           \
        const int try_code = (call);                                                               \
        if (try_code != 0) return try_code;                                                        \
    } while (0)

/* ---- arrays ---- */

/* `vector`: the last dimension is a list over queries or keys, so a dimension of 1 goes before it. */
static int as_array(cli_context *context, const char *field, const cli_array *array, bool vector,
                    ota_array *out) {
    const int most = vector ? 3 : 4;
    if (array->rank > most || (vector && array->rank == 0)) {
        return cli_refuse_flag(context, field, NULL, "%s has %d dimensions, at most %d fit", field,
                               array->rank, most);
    }
    *out = cli_aligned(array);
    if (vector)
        *out = ota_array_of(array->data, array->type, out->size[1], out->size[2], 1, out->size[3]);
    return 0;
}

static bool is_float(ota_type type) {
    return type == OTA_F64 || type == OTA_F32 || type == OTA_F16 || type == OTA_BF16;
}

/* An array with `rows` lines (-1: any number), of which this process of --shard needs only its own. */
static int load_rows(cli_context *context, const char *field, const char *spec, ota_type type,
                     const cli_problem *problem, int64_t rows, const cli_array **array) {
    /* What --rope turns it turns from the first line on. */
    return problem->settings.scores.rope != NULL && rows < 0
               ? cli_load(context, field, spec, type, array)
               : cli_load_share(context, field, spec, type, rows, array);
}

/* An operand: whole numbers count as f64. */
static int load_operand(cli_context *context, const char *field, const char *spec,
                        cli_problem *problem, ota_array *out) {
    const cli_array *array;
    ota_type type = problem->settings.output.dtype != NULL
                        ? cli_type_of(problem->settings.output.dtype)
                        : OTA_NO_TYPE;
    TRY(load_rows(context, field, spec, OTA_NO_TYPE, problem, -1, &array));
    if (array->type == OTA_BOOL) {
        return cli_refuse_flag(context, field, "store it as f32 or f64",
                               "%s '%.200s' holds %s, not numbers", field, spec,
                               cli_type_name(array->type));
    }
    if (problem->file_type == OTA_NO_TYPE) {
        problem->file_type = array->type == OTA_I64 ? OTA_F64 : array->type;
        problem->rank = array->rank;
    }
    if (array->type == OTA_I64 && type == OTA_NO_TYPE) type = OTA_F64;
    if (type != OTA_NO_TYPE && type != array->type)
        TRY(load_rows(context, field, spec, type, problem, -1, &array));
    if (array->rank < 1) {
        return cli_refuse_flag(context, field, NULL, "%s '%.200s' is a single number, not an array",
                               field, spec);
    }
    if (problem->type == OTA_NO_TYPE) problem->type = array->type;
    if (array->type != problem->type) {
        char hint[64];
        (void)snprintf(hint, sizeof hint, "give --dtype %s to convert all of them",
                       cli_type_name(problem->type));
        return cli_refuse_flag(context, field, hint,
                               "%s '%.200s' holds %s but the first operand holds %s", field, spec,
                               cli_type_name(array->type), cli_type_name(problem->type));
    }
    return as_array(context, field, array, false, out);
}

int cli_load_vector(cli_context *context, const char *field, const char *spec, ota_array *out) {
    const cli_array *array;
    TRY(cli_load(context, field, spec, OTA_NO_TYPE, &array));
    if (array->type != OTA_F64 && array->type != OTA_F32) {
        TRY(cli_load(context, field, spec, OTA_F64, &array));
    }
    return as_array(context, field, array, true, out);
}

static int load_integers(cli_context *context, const char *field, const char *spec,
                         ota_array *out) {
    const cli_array *array;
    TRY(cli_load(context, field, spec, OTA_NO_TYPE, &array));
    if (array->type != OTA_I64 || array->rank != 1) {
        return cli_refuse_flag(context, field, "store it as a 1-d int64 array",
                               "%s '%.200s' is a %d-d array of %s", field, spec, array->rank,
                               cli_type_name(array->type));
    }
    return as_array(context, field, array, true, out);
}

/* Memory that lives as long as the problem. */
static void *own(cli_problem *problem, size_t size) {
    const int room = (int)(sizeof problem->owned / sizeof *problem->owned);
    if (problem->owned_count == room) return NULL;
    void *memory = malloc(size > 0 ? size : 1);
    if (memory != NULL) problem->owned[problem->owned_count++] = memory;
    return memory;
}

static int out_of_memory(cli_context *context) {
    return cli_fail(&context->error, CLI_EXIT_LIMIT, "there is no memory left");
}

/* "a,b,c" as {1,1,1,count}: one number, or one per head. */
static int head_numbers(cli_context *context, const char *field, const char *text,
                        cli_problem *problem,
                        int (*read)(const char *text, double *values, int most), ota_array *out) {
    size_t most = 1;
    for (const char *at = text; *at != '\0'; at++) most += *at == ',' ? 1 : 0;
    double *numbers = own(problem, most * sizeof *numbers);
    if (numbers == NULL || most > INT32_MAX) return out_of_memory(context);
    const int count = read(text, numbers, (int)most);
    if (count < 0) {
        return cli_refuse_flag(context, field, NULL, "--%s '%.80s' is not a list of numbers", field,
                               text);
    }
    if (count != 1 && count != problem->heads) {
        return cli_refuse_flag(context, field, "give one number, or one per head",
                               "--%s has %d numbers for %" PRId64 " heads", field, count,
                               problem->heads);
    }
    *out = ota_array_of(numbers, OTA_F64, 1, 1, 1, count);
    return 0;
}

int cli_head_numbers(cli_context *context, const char *field, const char *text,
                     cli_problem *problem, ota_array *out) {
    TRY(head_numbers(context, field, text, problem, cli_numbers, out));
    for (int64_t k = 0; k < out->size[3]; k++) {
        const double value = ((const double *)out->data)[k];
        if (value > 0.0) continue;
        return cli_refuse_flag(context, field, "choose a number above 0", "--%s is %g", field,
                               value);
    }
    return 0;
}

/* ---- rules ---- */

static int apply_rules(cli_context *context, cli_problem *problem) {
    const cli_settings *s = &problem->settings;
    ota_problem *p = &problem->problem;
    if (p->end == OTA_SIDE_COLUMNS) {
        cli_warn(context, "%s ends with a column update, so its rows are not exact",
                 problem->method);
    }
    if (s->solver.dropout.given)
        p->dropout_seed = s->machine.seed.given ? (uint64_t)s->machine.seed.value : 1;
    if (s->solver.start_potential != NULL) {
        TRY(cli_load_vector(context, "start-potential", s->solver.start_potential,
                            &problem->start_potential));
    }
    return 0;
}

/* ---- terms and supports ---- */

static ota_term *add_term(cli_problem *problem, ota_term_kind kind) {
    ota_term *term = &problem->terms[problem->problem.term_count++];
    term->kind = kind;
    return term;
}

static ota_support *add_support(cli_problem *problem, ota_support_kind kind) {
    ota_support *support = &problem->supports[problem->problem.support_count++];
    support->kind = kind;
    return support;
}

static int load_relative(cli_context *context, const char *text, cli_problem *problem) {
    static const char suffix[] = ":inside";
    const size_t length = strlen(text), tail = sizeof suffix - 1;
    const bool inside = length > tail && strcmp(text + length - tail, suffix) == 0;
    char *spec = own(problem, length + 1);
    if (spec == NULL) return out_of_memory(context);
    memcpy(spec, text, length + 1);
    if (inside) spec[length - tail] = '\0';
    ota_term *term = add_term(problem, inside ? OTA_TERM_RELATIVE_INSIDE : OTA_TERM_RELATIVE);
    return cli_load_vector(context, "relative-bias", spec, &term->array);
}

static int apply_caps(cli_context *context, cli_problem *problem) {
    const char *text = problem->settings.masses.entry_cap;
    ota_problem *p = &problem->problem;
    const cli_array *array;
    if (text == NULL) return 0;
    if (cli_number(text, &p->entry_cap)) {
        if (p->entry_cap > 0.0) return 0;
        return cli_refuse_flag(context, "entry-cap", "choose a mass above 0", "--entry-cap is %g",
                               p->entry_cap);
    }
    p->entry_cap = 0.0;
    TRY(load_rows(context, "entry-cap", text, OTA_F64, problem, problem->queries, &array));
    return as_array(context, "entry-cap", array, false, &p->entry_caps);
}

static int apply_terms(cli_context *context, cli_problem *problem) {
    const cli_settings *s = &problem->settings;
    for (int k = 0; k < s->scores.biases.count; k++) {
        const cli_array *array;
        const char *spec = s->scores.biases.items[k];
        const int64_t n = problem->queries;
        TRY(load_rows(context, "bias", spec, OTA_NO_TYPE, problem, n, &array));
        if (!is_float(array->type))
            TRY(load_rows(context, "bias", spec, OTA_F64, problem, n, &array));
        TRY(as_array(context, "bias", array, false, &add_term(problem, OTA_TERM_DENSE)->array));
    }
    if (s->scores.relative_bias != NULL)
        TRY(load_relative(context, s->scores.relative_bias, problem));
    if (s->scores.alibi != NULL && strcmp(s->scores.alibi, "auto") == 0) {
        double *slopes = own(problem, (size_t)problem->heads * sizeof *slopes);
        if (slopes == NULL) return out_of_memory(context);
        ota_alibi_slopes(problem->heads, slopes);
        add_term(problem, OTA_TERM_ALIBI)->array =
            ota_array_of(slopes, OTA_F64, 1, 1, 1, problem->heads);
    } else if (s->scores.alibi != NULL) {
        ota_term *term = add_term(problem, OTA_TERM_ALIBI);
        TRY(head_numbers(context, "alibi", s->scores.alibi, problem, cli_numbers, &term->array));
        if (term->array.size[3] == 1) {
            term->value = ((const double *)term->array.data)[0];
            term->array = (ota_array){.data = NULL};
        }
    }
    if (s->scores.softcap.given)
        add_term(problem, OTA_TERM_SOFTCAP)->value = s->scores.softcap.value;
    if (s->scores.sink != NULL) {
        ota_term *term = add_term(problem, OTA_TERM_SINK);
        TRY(head_numbers(context, "sink", s->scores.sink, problem, cli_logits, &term->array));
        if (term->array.size[3] == 1) {
            term->value = ((const double *)term->array.data)[0];
            term->array = (ota_array){.data = NULL};
        }
    }
    problem->problem.terms = problem->terms;
    return 0;
}

static int apply_corner(cli_context *context, cli_problem *problem) {
    const cli_settings *s = &problem->settings;
    const char *causal =
        s->pairs.causal != NULL && s->pairs.causal[0] != '\0' ? s->pairs.causal : NULL;
    if (causal != NULL && s->pairs.corner != NULL && strcmp(causal, s->pairs.corner) != 0) {
        return cli_refuse_flag(context, "corner", "say the same in both, or leave one out",
                               "--causal=%s and --corner %s contradict each other", causal,
                               s->pairs.corner);
    }
    const char *word = causal != NULL ? causal : s->pairs.corner;
    if (s->pairs.causal != NULL && word == NULL && problem->queries != problem->keys) {
        return cli_refuse_flag(
            context, "causal", "write --causal=top-left or --causal=bottom-right",
            "--causal must say its corner when there are %" PRId64 " queries and %" PRId64 " keys",
            problem->queries, problem->keys);
    }
    if (word != NULL) {
        problem->problem.corner =
            strcmp(word, "bottom-right") == 0 ? OTA_BOTTOM_RIGHT : OTA_TOP_LEFT;
    } else if (s->pairs.causal != NULL) {
        problem->problem.corner = OTA_TOP_LEFT;
    }
    return 0;
}

static int load_mask(cli_context *context, const char *spec, cli_problem *problem) {
    const cli_array *array;
    TRY(load_rows(context, "mask", spec, OTA_NO_TYPE, problem, problem->queries, &array));
    if (array->type == OTA_I64) {
        return cli_refuse_flag(context, "mask",
                               "store it as bool (true takes part) or as float (added)",
                               "mask '%.200s' holds whole numbers", spec);
    }
    const ota_support_kind kind =
        array->type == OTA_BOOL ? OTA_SUPPORT_BOOLEAN : OTA_SUPPORT_ADDITIVE;
    return as_array(context, "mask", array, false, &add_support(problem, kind)->array);
}

static int apply_window(cli_context *context, const char *text, cli_problem *problem) {
    char left[32], right[32];
    const size_t comma = strcspn(text, ",");
    ota_support *support = add_support(problem, OTA_SUPPORT_WINDOW);
    const bool fits =
        text[comma] == ',' && comma < sizeof left && strlen(text + comma + 1) < sizeof right;
    (void)snprintf(left, sizeof left, "%.*s", fits ? (int)comma : 0, text);
    (void)snprintf(right, sizeof right, "%s", fits ? text + comma + 1 : "");
    if (!cli_integer(left, &support->left) || !cli_integer(right, &support->right) ||
        support->left < -1 || support->right < -1) {
        return cli_refuse_flag(context, "window",
                               "write --window L,R with whole numbers, -1 = no limit",
                               "--window '%.60s' is no window", text);
    }
    return 0;
}

static int apply_supports(cli_context *context, cli_problem *problem) {
    const cli_settings *s = &problem->settings;
    TRY(apply_corner(context, problem));
    if (s->pairs.causal != NULL) (void)add_support(problem, OTA_SUPPORT_CAUSAL);
    if (s->pairs.window != NULL) TRY(apply_window(context, s->pairs.window, problem));
    if (s->pairs.strided.given)
        add_support(problem, OTA_SUPPORT_STRIDED)->left = s->pairs.strided.value;
    if (s->pairs.block != NULL) {
        ota_support *support = add_support(problem, OTA_SUPPORT_BLOCK);
        if (!cli_integer(s->pairs.block, &support->left)) {
            support->left = 0;
            TRY(load_integers(context, "block", s->pairs.block, &support->array));
        } else if (support->left < 1) {
            return cli_refuse_flag(context, "block", "use a whole number above 0",
                                   "--block is %" PRId64, support->left);
        }
    }
    for (int k = 0; k < s->pairs.masks.count; k++)
        TRY(load_mask(context, s->pairs.masks.items[k], problem));
    if (s->pairs.lengths != NULL) {
        TRY(load_integers(context, "lengths", s->pairs.lengths,
                          &add_support(problem, OTA_SUPPORT_LENGTHS)->array));
    }
    problem->problem.supports = problem->supports;
    return 0;
}

/* ---- options ---- */

static int check_solver(cli_context *context, const char *name) {
    const char *words[64] = {"auto"};
    int count = 1;
    for (; count < 64 && ota_solver_name(count - 1) != NULL; count++)
        words[count] = ota_solver_name(count - 1);
    for (int k = 0; k < count; k++) {
        if (name == NULL || strcmp(name, words[k]) == 0) return 0;
    }
    const char *nearest = cli_nearest(name, strlen(name), words, count);
    char hint[80] = "'otattn doctor' lists the solvers";
    if (nearest != NULL) (void)snprintf(hint, sizeof hint, "did you mean '%s'?", nearest);
    return cli_refuse_flag(context, "solver", hint, "there is no solver '%.40s'", name);
}

static int apply_options(cli_context *context, cli_problem *problem) {
    const cli_settings *s = &problem->settings;
    ota_options *o = &problem->options;
    if (s->solver.rounds.given && s->solver.rounds.value == 0) o->rounds = OTA_NO_ROUNDS;
    /* Always: a plan that did not converge still gets its certificate; cli_solve judges the status. */
    o->allow_partial = 1;
    TRY(check_solver(context, s->solver.name));
    o->cancel = context->cancel;
    o->gradients = s->gradients.of != NULL ? 1 : 0;
    return 0;
}

/* ---- all together ---- */

static int rotate(cli_context *context, const char *field, double base, int64_t first,
                  cli_problem *problem, ota_array *array) {
    const size_t count =
        (size_t)(array->size[0] * array->size[1] * array->size[2] * array->size[3]);
    const size_t bytes = count * ota_type_bytes(array->type);
    void *copy = own(problem, bytes);
    if (copy == NULL) return out_of_memory(context);
    if (bytes > 0) memcpy(copy, array->data, bytes);
    array->data = copy;
    ota_error error = {.message = ""};
    const ota_status status = ota_rope(array, first, base, &error);
    if (status >= 0) return 0;
    (void)snprintf(error.field, sizeof error.field, "%s", field);
    return cli_fail_status(context, status, &error);
}

static int apply_rope(cli_context *context, cli_problem *problem) {
    double base = 10000.0;
    const char *text = problem->settings.scores.rope;
    if (text == NULL) return 0;
    if (text[0] != '\0' && (!cli_number(text, &base) || !(base > 0.0))) {
        return cli_refuse_flag(context, "rope", "write --rope or --rope=BASE with BASE > 0",
                               "--rope '%.60s' is no base", text);
    }
    ota_problem *p = &problem->problem;
    const int64_t first = p->corner == OTA_BOTTOM_RIGHT ? problem->keys - problem->queries : 0;
    TRY(rotate(context, "rope", base, first, problem, &p->queries));
    return rotate(context, "rope", base, 0, problem, &p->keys);
}

static int load_inputs(cli_context *context, const char *scores, const char *queries,
                       const char *keys, const char *values, cli_problem *problem) {
    ota_problem *p = &problem->problem;
    if (scores != NULL) {
        TRY(load_operand(context, "scores", scores, problem, &p->scores));
        problem->batch = p->scores.size[0];
        problem->heads = p->scores.size[1];
        problem->queries = p->scores.size[2];
        problem->keys = p->scores.size[3];
        return 0;
    }
    TRY(load_operand(context, "queries", queries, problem, &p->queries));
    TRY(load_operand(context, "keys", keys, problem, &p->keys));
    problem->batch = p->queries.size[0];
    problem->heads = p->queries.size[1];
    problem->queries = p->queries.size[2];
    problem->width = p->queries.size[3];
    problem->keys = p->keys.size[2];
    if (values == NULL) return 0;
    TRY(load_operand(context, "values", values, problem, &problem->values));
    problem->values_width = problem->values.size[3];
    for (int k = 0; k < 3; k++) {
        static const char *const sizes[] = {"batch", "heads", "rows"};
        if (problem->values.size[k] == p->keys.size[k]) continue;
        return cli_refuse_flag(context, "values", "there is one value per key",
                               "values have %s %" PRId64 " but keys have %" PRId64, sizes[k],
                               problem->values.size[k], p->keys.size[k]);
    }
    return 0;
}

int cli_problem_build(cli_context *context, const char *method, const char *scores,
                      const char *queries, const char *keys, const char *values,
                      cli_problem *problem) {
    memset(problem, 0, sizeof *problem);
    problem->problem.size = sizeof problem->problem;
    problem->options.size = sizeof problem->options;
    problem->settings = context->settings;
    TRY(cli_apply_method(context, method, problem));
    TRY(load_inputs(context, scores, queries, keys, values, problem));
    TRY(cli_set_members(context, problem));
    TRY(apply_rules(context, problem));
    TRY(apply_terms(context, problem));
    TRY(apply_caps(context, problem));
    TRY(apply_supports(context, problem));
    TRY(apply_options(context, problem));
    TRY(apply_rope(context, problem));
    ota_error error = {.message = ""};
    const ota_status status = ota_check(&problem->problem, &problem->options, &error);
    return status < 0 ? cli_fail_status(context, status, &error) : 0;
}

void cli_problem_free(cli_problem *problem) {
    for (int k = 0; k < problem->owned_count; k++) free(problem->owned[k]);
    problem->owned_count = 0;
}
