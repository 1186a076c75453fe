/* Group G on a model: its forward pass and its probes against plain loops, its size, its states in a file, and
 * tokens that leave early [TOT-64, 67, 68, 93, 119]. h [layers + 1][count][width], W [vocabulary][width],
 * raw probe z = W h, lens z = W LN_f(h). */
#include "models.h"

#include "src/base/program/system_program.h"

/* ---- forward ---- */

static double forward_error(trial *t, bool logits) {
    checkpoint *c = statement_checkpoint(t);
    if (c == NULL) return NAN;
    const int64_t size = c->count * c->facts.width, states = c->facts.layers + 1;
    double *h = numbers(t, states * size), *final = numbers(t, size), most = 0.0;
    statement_gpt2_formula(t, c, c->ids, c->count, NULL, h, final);
    if (!statement_run_checkpoint(t, c)) return NAN;
    for (int64_t l = 0; l < states && !logits; l++) {
        double *ours = statement_widened(t, c->states + l * size, size);
        most = worse(most, statement_relative(seen(t, ours, size), h + l * size, size));
    }
    const int64_t words = c->count * c->facts.vocabulary;
    double *z = numbers(t, words);
    float *z32 = take(t, (size_t)words * sizeof *z32);
    statement_logits_formula(c, final, c->count, z);
    (void)ota_session_logits(c->session, c->final, c->count, 0, z32, NULL);
    if (logits)
        most = statement_relative(seen(t, statement_widened(t, z32, words), words), z, words);
    return most;
}

static double forward_states(trial *t) { return forward_error(t, false); }
static double forward_logits(trial *t) { return forward_error(t, true); }

/* ---- probes ---- */

/* Both probes of all states against loops on the same states. */
static double probes(trial *t) {
    checkpoint *c = statement_checkpoint(t);
    if (c == NULL) return NAN;
    double most = 0.0;
    if (!statement_run_checkpoint(t, c)) return NAN;
    const int64_t rows = (c->facts.layers + 1) * c->count, words = rows * c->facts.vocabulary;
    double *h = statement_widened(t, c->states, rows * c->facts.width), *z = numbers(t, words),
           *normed = numbers(t, rows * c->facts.width);
    statement_final_norm_formula(c, h, rows, normed);
    for (int lens = 0; lens < 2; lens++) {
        statement_logits_formula(c, lens == 1 ? normed : h, rows, z);
        double *ours = statement_widened(t, statement_probe_checkpoint(t, c, lens == 1), words);
        most = worse(most, statement_relative(seen(t, ours, words), z, words));
    }
    return most;
}

/* Common exports hold LN_f(h) as the last state. By the raw probe their first layers - 1 transitions are those
 * of the states; the last one is not: transitions that differ where they should not, and the reverse. */
static double exported_transitions(trial *t) {
    checkpoint *c = statement_checkpoint(t);
    if (c == NULL) return NAN;
    double wrong = NAN;
    if (statement_run_checkpoint(t, c)) {
        const int64_t V = c->facts.vocabulary, n = c->count, layers = c->facts.layers;
        float *raw = statement_probe_checkpoint(t, c, false);
        memcpy(c->states + layers * n * c->facts.width, c->final,
               (size_t)(n * c->facts.width) * sizeof(float));
        float *exported = statement_probe_checkpoint(t, c, false);
        wrong = 0.0;
        for (int64_t l = 0; l < layers; l++) {
            double tv[2] = {0.0, 0.0};
            for (int side = 0; side < 2; side++) {
                const float *z = (side == 0 ? raw : exported) + l * n * V;
                for (int64_t i = 0; i < n; i++) {
                    ota_divergence x;
                    if (ota_divergence_of_logits(z + i * V, z + (n + i) * V, OTA_F32, V, 1.0, &x,
                                                 NULL, NULL) < 0)
                        wrong = NAN;
                    tv[side] += x.tv;
                }
            }
            wrong += (seen_number(t, tv[1]) == tv[0]) != (l + 1 < layers);
        }
    }
    return wrong;
}

/* ---- size ---- */

/* The four models of table 2, opened from files whose tensors are one hole each. */
static double parameters_counted(trial *t) {
    static const struct {
        model_sizes sizes;
        double parameters;
    } models[] = {{{12, 12, 768, 50257, 1024}, 124439808.0},
                  {{24, 16, 1024, 50257, 1024}, 354823168.0},
                  {{36, 20, 1280, 50257, 1024}, 774030080.0},
                  {{48, 25, 1600, 50257, 1024}, 1557611200.0}};
    double most = 0.0;
    for (int k = 0; k < 4; k++) {
        char folder[OTA_PATH_ROOM];
        ota_model *model = NULL;
        ota_model_facts facts = {.size = sizeof facts};
        int count;
        weight *tensors = statement_gpt2_tensors(&models[k].sizes, &count);
        if (tensors == NULL || !statement_make_folder(folder)) {
            free(tensors);
            return NAN;
        }
        if (statement_write_gpt2(t, folder, &models[k].sizes, tensors, count) &&
            ota_model_open(&model, folder, NULL, NULL) == OTA_OK)
            (void)ota_model_describe(model, &facts, NULL);
        most = worse(most, fabs(seen_number(t, (double)facts.parameters) - models[k].parameters));
        ota_model_free(model);
        statement_remove_folder(folder);
        free(tensors);
    }
    return most;
}

/* Parameters the library counts less V d + C d + layers (12 d^2 + 13 d) + 2 d. */
static double parameters_of_checkpoint(trial *t) {
    checkpoint *c = statement_checkpoint(t);
    if (c == NULL) return NAN;
    const double d = (double)c->facts.width;
    const double formula = (double)(c->facts.vocabulary + c->facts.positions) * d +
                           (double)c->facts.layers * (12.0 * d * d + 13.0 * d) + 2.0 * d;
    const double counted = (double)c->facts.parameters;
    return fabs(seen_number(t, counted) - formula);
}

/* ---- the container of states ---- */

enum { ARRAYS = 3 };

/* States, W, and which positions count, as capture writes them. */
static bool write_container(trial *t, checkpoint *c, const char *path, statement_tensor *arrays) {
    const int64_t V = c->facts.vocabulary, d = c->facts.width, states = c->facts.layers + 1;
    float *words = take(t, (size_t)(V * d) * sizeof *words);
    int64_t *mask = take(t, (size_t)c->count * sizeof *mask);
    for (int64_t i = 0; i < c->count; i++) mask[i] = i % 3 != 2;
    if (ota_model_probe_rows(c->model, 0, V, words, NULL) != OTA_OK) return false;
    arrays[0] = (statement_tensor){.data = c->states,
                                   .type = OTA_F32,
                                   .rank = 3,
                                   .shape = {states, c->count, d},
                                   .count = (size_t)(states * c->count * d),
                                   .name = "states"};
    arrays[1] = (statement_tensor){.data = words,
                                   .type = OTA_F32,
                                   .rank = 2,
                                   .shape = {V, d},
                                   .count = (size_t)(V * d),
                                   .name = "probe"};
    arrays[2] = (statement_tensor){.data = mask,
                                   .type = OTA_I64,
                                   .rank = 1,
                                   .shape = {c->count},
                                   .count = (size_t)c->count,
                                   .name = "mask"};
    return t->host->write_tensors(path, arrays, ARRAYS, false);
}

/* Elements that come back with other bits, or all where an array does not come back. */
static double changed_elements(trial *t, const char *path, const statement_tensor *arrays) {
    double changed = 0.0;
    for (int k = 0; k < ARRAYS; k++) {
        statement_tensor back;
        if (!t->host->read_tensor(path, arrays[k].name, &back)) return NAN;
        const size_t one = arrays[k].type == OTA_I64 ? sizeof(int64_t) : sizeof(float);
        bool same = back.type == arrays[k].type && back.count == arrays[k].count &&
                    back.rank == arrays[k].rank;
        for (int r = 0; r < arrays[k].rank; r++) same &= back.shape[r] == arrays[k].shape[r];
        for (size_t j = 0; same && j < back.count; j++)
            changed +=
                memcmp((char *)back.data + j * one, (char *)arrays[k].data + j * one, one) != 0;
        if (!same) changed += (double)arrays[k].count;
        free(back.data);
    }
    return seen_number(t, changed);
}

static bool is_accepted(const char *path) {
    ota_path_kind kind;
    int64_t size;
    ota_tensors *table = NULL;
    const int descriptor = ota_file_descriptor(path, true, &kind, &size);
    if (descriptor < 0) return true;
    const ota_status status = ota_safetensors_open(&table, descriptor, size, path, NULL, NULL);
    ota_tensors_free(table);
    ota_descriptor_close(descriptor);
    return status == OTA_OK;
}

/* Byte `at` of the file becomes `byte`; what was there. */
static int put_byte(const char *path, int64_t at, int byte) {
    FILE *file = ota_file_stream(path, "r+b");
    if (file == NULL) return EOF;
    (void)fseek(file, (long)at, SEEK_SET);
    const int old = fgetc(file);
    (void)fseek(file, (long)at, SEEK_SET);
    (void)fputc(byte, file);
    (void)fclose(file);
    return old;
}

/* Headers that are accepted with one byte of them wrong: each of the length's, each digit by its neighbour, each
 * brace, bracket, quote, colon and comma; and with the file's last byte missing. A changed letter may be another
 * valid name. */
static double accepted_damage(trial *t, const char *path, int64_t header) {
    double accepted = 0.0;
    for (int64_t at = 0; at < 8 + header; at++) {
        const int old = put_byte(path, at, '!');
        const bool digit = at >= 8 && old >= '0' && old <= '9';
        if (digit) (void)put_byte(path, at, old ^ 1);
        if (at < 8 || digit || strchr("{}[]\":,", old) != NULL) accepted += is_accepted(path);
        (void)put_byte(path, at, old);
    }
    if (!is_accepted(path) || !statement_resize(path, -1)) return NAN;
    accepted += is_accepted(path);
    return seen_number(t, accepted);
}

static double container(trial *t, bool damage) {
    checkpoint *c = statement_checkpoint(t);
    char folder[OTA_PATH_ROOM], path[OTA_PATH_ROOM + 32];
    double value = NAN;
    if (c == NULL) return NAN;
    statement_tensor *arrays = take(t, ARRAYS * sizeof *arrays);
    if (statement_run_checkpoint(t, c) && statement_make_folder(folder)) {
        (void)snprintf(path, sizeof path, "%s/states.safetensors", folder);
        if (write_container(t, c, path, arrays)) {
            int64_t header = 0;
            for (int64_t k = 0; k < 8; k++) {
                const int byte = put_byte(path, k, 0);
                header += (int64_t)byte << (8 * k);
                (void)put_byte(path, k, byte);
            }
            value = damage ? accepted_damage(t, path, header) : changed_elements(t, path, arrays);
        }
        statement_remove_folder(folder);
    }
    return value;
}

static double container_round_trip(trial *t) { return container(t, false); }
static double container_damage(trial *t) { return container(t, true); }

/* ---- leaving early ---- */

static bool run_with_exit(checkpoint *c, double threshold, int64_t transitions, float *final,
                          int64_t *layers) {
    const ota_model_run run = {.size = sizeof run,
                               .ids = c->ids,
                               .batch = 1,
                               .count = c->count,
                               .states = final,
                               .exit_threshold = threshold,
                               .exit_transitions = transitions,
                               .layers = layers};
    return ota_session_run(c->session, &run, NULL) == OTA_OK;
}

/* theta = 1: bits of final states that change, and tokens that miss a layer. */
static double exit_at_one(trial *t) {
    checkpoint *c = statement_checkpoint(t);
    if (c == NULL) return NAN;
    const int64_t size = c->count * c->facts.width;
    float *plain = take(t, (size_t)size * sizeof *plain),
          *ours = take(t, (size_t)size * sizeof *ours);
    int64_t *layers = take(t, (size_t)c->count * sizeof *layers);
    double changed = NAN;
    if (run_with_exit(c, 0.0, 0, plain, NULL) && run_with_exit(c, 1.0, 1, ours, layers)) {
        changed = different_bits(seen(t, statement_widened(t, ours, size), size),
                                 statement_widened(t, plain, size), size);
        for (int64_t i = 0; i < c->count; i++) changed += layers[i] != c->facts.layers;
    }
    return changed;
}

/* What leaving costs over the positions that predict one: layers used, share of top-1 kept, nll. */
typedef struct exit_cost {
    double layers, agreement, nll;
} exit_cost;

static exit_cost cost_of(const checkpoint *c, const double *z, const double *whole,
                         const int64_t *layers) {
    const int64_t V = c->facts.vocabulary, count = c->count - 1;
    exit_cost cost = {0.0, 0.0, 0.0};
    for (int64_t i = 0; i < count; i++) {
        const double *a = z + i * V, *b = whole + i * V;
        int64_t best = 0, other = 0;
        for (int64_t j = 1; j < V; j++) {
            best = a[j] > a[best] ? j : best;
            other = b[j] > b[other] ? j : other;
        }
        const int64_t next = c->ids[i + 1];
        cost.layers += (double)layers[i] / (double)count;
        cost.agreement += (double)(best == other) / (double)count;
        cost.nll +=
            (log_sum_exp(a, V, 1.0) - a[next] - log_sum_exp(b, V, 1.0) + b[next]) / (double)count;
    }
    return cost;
}

/* A threshold that about half of the tokens are above behind the first block. */
static double middle_threshold(trial *t, const checkpoint *c, const double *h) {
    const int64_t d = c->facts.width;
    double *most = numbers(t, c->count), *normed = numbers(t, c->count * d),
           *z = numbers(t, c->count * c->facts.vocabulary);
    statement_final_norm_formula(c, h + c->count * d, c->count, normed);
    statement_logits_formula(c, normed, c->count, z);
    for (int64_t i = 0; i < c->count; i++)
        most[i] = statement_most_probable(z + i * c->facts.vocabulary, c->facts.vocabulary);
    qsort(most, (size_t)c->count, sizeof *most, ascending);
    return 0.5 * (most[c->count / 2 - 1] + most[c->count / 2]);
}

/* Layers used, agreement and change of nll of a run against those of the formula; NaN where no token left. */
static double exit_by_formula(trial *t) {
    enum { TRANSITIONS = 2 };
    checkpoint *c = statement_checkpoint(t);
    if (c == NULL) return NAN;
    const int64_t size = c->count * c->facts.width, words = c->count * c->facts.vocabulary;
    double *h = numbers(t, (c->facts.layers + 1) * size), *final = numbers(t, size), most = NAN,
           *z[3] = {numbers(t, words), numbers(t, words), NULL};
    int64_t *layers = take(t, (size_t)c->count * sizeof *layers);
    float *ours = take(t, (size_t)size * sizeof *ours), *z32 = take(t, (size_t)words * sizeof *z32);
    statement_gpt2_formula(t, c, c->ids, c->count, NULL, h, final);
    statement_logits_formula(c, final, c->count, z[0]);
    formula_exit exit = {middle_threshold(t, c, h), TRANSITIONS,
                         take(t, (size_t)c->count * sizeof *layers)};
    statement_gpt2_formula(t, c, c->ids, c->count, &exit, h, final);
    statement_logits_formula(c, final, c->count, z[1]);
    if (run_with_exit(c, exit.threshold, TRANSITIONS, ours, layers) &&
        ota_session_logits(c->session, ours, c->count, 0, z32, NULL) == OTA_OK) {
        z[2] = seen(t, statement_widened(t, z32, words), words);
        const exit_cost is = cost_of(c, z[2], z[0], layers);
        const exit_cost should = cost_of(c, z[1], z[0], exit.layers);
        most = worse(fabs(is.layers - should.layers), fabs(is.agreement - should.agreement));
        most = worse(most, fabs(is.nll - should.nll));
        most = worse(most, statement_relative(z[2], z[1], words));
        if (should.layers >= (double)c->facts.layers) most = NAN;
    }
    return most;
}

static const statement_check table[] = {
    AT_MOST("TOT-67", "124439808, 354823168, 774030080, 1557611200 parameters: off by",
            parameters_counted, 0.0),
    AT_MOST("TOT-93", "states, probe, mask through a file: elements with other bits",
            container_round_trip, 0.0),
    AT_MOST("TOT-93", "headers accepted with one structural byte wrong or the file cut short",
            container_damage, 0.0),
};
MODEL_CHECK_GROUP(statement_checks_models, table, ANY_MODEL);

static const statement_check gpt2_rows[] = {
    AT_MOST("TOT-64", "raw probe W h and lens W LN_f(h) of every state against loops, relative",
            probes, 1e-5),
    AT_MOST("TOT-67", "V d + C d + layers (12 d^2 + 13 d) + 2 d of a checkpoint: off by",
            parameters_of_checkpoint, 0.0),
    AT_MOST("TOT-68", "GPT-2's states at every layer against f64 loops, relative", forward_states,
            1e-5),
    AT_MOST("TOT-68", "... and its logits, by the tied table", forward_logits, 1e-5),
    AT_MOST("TOT-119", "theta < 1: layers used, top-1 kept, change of nll against the formula",
            exit_by_formula, 1e-5),
};
MODEL_CHECK_GROUP(statement_checks_gpt2, gpt2_rows, GPT2_MODEL);

static const statement_check causal_rows[] = {
    AT_MOST("TOT-64", "exported states: the last transition differs by the raw probe, no other",
            exported_transitions, 0.0),
    AT_MOST("TOT-119", "leaving at theta = 1: states that change, tokens that miss a layer",
            exit_at_one, 0.0),
};
MODEL_CHECK_GROUP(statement_checks_exits, causal_rows, CAUSAL_MODEL);
