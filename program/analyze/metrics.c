/* metrics.json: every figure of every layer, transition and head; keys as the program's contract says. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "window_tables.h"

typedef struct key {
    const char *name;
    run_column column;
    double factor, offset; /* what is shown: factor x + offset */
    bool per_root;         /* and divided by sqrt(V) */
} key;

static const key transition_keys[] = {
    {"tv", COLUMN_TV, 1, 0, false},
    {"w1", COLUMN_TV, 1, 0, false},
    {"kl", COLUMN_KL, 1, 0, false},
    {"js", COLUMN_JS, 1, 0, false},
    {"entropy_change", COLUMN_ENTROPY_CHANGE, 1, 0, false},
    {"top1", COLUMN_TOP1, 1, 0, false},
    {"top5", COLUMN_TOP5, 1, 0, false},
    {"top10", COLUMN_TOP10, 1, 0, false},
    {"top100", COLUMN_TOP100, 1, 0, false},
    {"spearman", COLUMN_SPEARMAN, 1, 0, false},
    {"relative_l2", COLUMN_RELATIVE_L2, 1, 0, false},
    {"cosine", COLUMN_COSINE, 1, 0, false},
    {"max_coordinate_change", COLUMN_MAX_COORDINATE_CHANGE, 1, 0, false},
    {"norm_change", COLUMN_NORM_CHANGE, 1, 0, false},
    {"max_logit_change", COLUMN_MAX_LOGIT_CHANGE, 1, 0, false},
    {"logit_range_half", COLUMN_LOGIT_RANGE_HALF, 1, 0, false},
    {"logit_correlation", COLUMN_LOGIT_CORRELATION, 1, 0, false},
    {"effective_temperature", COLUMN_EFFECTIVE_TEMPERATURE, 1, 0, false},
    {"bound_ratio", COLUMN_BOUND_RATIO, 1, 0, false},
    {"bound_ratio_sharp", COLUMN_BOUND_RATIO_SHARP, 1, 0, false},
    {"alignment", COLUMN_ALIGNMENT, 1, 0, false},
    {"alignment_per_sqrt_vocabulary", COLUMN_ALIGNMENT, 1, 0, true},
    {"alignment_rms", COLUMN_ALIGNMENT_RMS, 1, 0, false},
};

static const key layer_keys[] = {
    {"norm", COLUMN_NORM, 1, 0, false},
    {"entropy", COLUMN_ENTROPY, 1, 0, false},
    {"max_probability", COLUMN_TAIL, -1, 1, false},
    {"agreement_with_final", COLUMN_AGREEMENT, 1, 0, false},
    {"kl_to_final", COLUMN_KL_TO_FINAL, 1, 0, false},
    {"drift_l1", COLUMN_DRIFT, 1, 0, false},
    {"effective_rank", COLUMN_EFFECTIVE_RANK, 1, 0, false},
    {"mean_cosine", COLUMN_MEAN_COSINE, 1, 0, false},
    {"kurtosis", COLUMN_KURTOSIS, 1, 0, false},
    {"massive_ratio", COLUMN_MASSIVE_RATIO, 1, 0, false},
};

static const key head_keys[] = {
    {"sink_rate", COLUMN_SINK_RATE, 1, 0, false},
    {"first_key_mass", COLUMN_FIRST_KEY_MASS, 1, 0, false},
    {"receiver_max", COLUMN_RECEIVER_MAX, 1, 0, false},
    {"gini", COLUMN_GINI, 1, 0, false},
    {"row_entropy", COLUMN_ROW_ENTROPY, 1, 0, false},
    {"max_weight", COLUMN_MAX_WEIGHT, 1, 0, false},
    {"support", COLUMN_SUPPORT, 1, 0, false},
    {"previous_token", COLUMN_HEAD_KINDS + KIND_PREVIOUS_TOKEN, 1, 0, false},
    {"duplicate_token", COLUMN_HEAD_KINDS + KIND_DUPLICATE_TOKEN, 1, 0, false},
    {"induction", COLUMN_HEAD_KINDS + KIND_INDUCTION, 1, 0, false},
    {"positional", COLUMN_HEAD_KINDS + KIND_POSITIONAL, 1, 0, false},
    {"local", COLUMN_HEAD_KINDS + KIND_LOCAL, 1, 0, false},
    {"sink", COLUMN_HEAD_KINDS + KIND_SINK, 1, 0, false},
    {"nop_sink", COLUMN_HEAD_KINDS + KIND_NOP_SINK, 1, 0, false},
    {"broadcast_sink", COLUMN_HEAD_KINDS + KIND_BROADCAST_SINK, 1, 0, false},
    {"value_ratio", COLUMN_VALUE_RATIO, 1, 0, false},
    {"distance", COLUMN_DISTANCE, 1, 0, false},
};

#define COUNT(keys) (sizeof(keys) / sizeof *(keys))

/* The figures of one key into the objects of `list`, one a layer; those of the raw probe under "raw". */
static int add_key(run *r, int probe, const key *k, json_t *list) {
    ota_figure *figures;
    int64_t parts;
    const double root = k->per_root ? 1 / sqrt((double)r->facts.vocabulary) : 1;
    const int code =
        run_column_figures(r, 0, probe, k->column, k->factor * root, k->offset, &figures, &parts);
    for (int64_t l = 0; code == 0 && l < parts; l++) {
        json_t *object = json_array_get(list, (size_t)l);
        if (probe > 0) object = json_object_get(object, "raw");
        (void)json_object_set_new(object, k->name, run_figure_json(&figures[l]));
    }
    free(figures);
    return code;
}

static int fill_list(run *r, int64_t count, const key *keys, size_t key_count, json_t *list) {
    int code = 0;
    for (int64_t l = 0; l < count; l++) {
        json_t *object = json_pack("{s:I}", "layer", (json_int_t)(r->settings.first + l));
        if (r->probes > 1) (void)json_object_set_new(object, "raw", json_object());
        (void)json_array_append_new(list, object);
    }
    for (size_t k = 0; code == 0 && k < key_count; k++)
        for (int probe = 0; code == 0 && probe < r->probes; probe++)
            if (probe == 0 || run_columns[keys[k].column].probed)
                code = add_key(r, probe, &keys[k], list);
    return code;
}

static int fill_heads(run *r, json_t *list) {
    const int64_t heads = r->facts.heads, layers = r->settings.last - r->settings.first;
    int code = 0;
    for (int64_t l = 0; l < layers; l++) {
        json_t *row = json_array();
        for (int64_t h = 0; h < heads; h++) (void)json_array_append_new(row, json_object());
        (void)json_array_append_new(list, row);
    }
    for (size_t k = 0; code == 0 && k < COUNT(head_keys); k++) {
        ota_figure *figures;
        int64_t parts;
        code = run_column_figures(r, 0, 0, head_keys[k].column, 1, 0, &figures, &parts);
        for (int64_t at = 0; code == 0 && at < parts; at++)
            (void)json_object_set_new(
                json_array_get(json_array_get(list, (size_t)(at / heads)), (size_t)(at % heads)),
                head_keys[k].name, run_figure_json(&figures[at]));
        free(figures);
    }
    return code;
}

/* ||p' - p||_1 <= ||W|| ||x' - x||_2 for every transition of every token and probe [TOT-24, 89], and
 * ||softmax(z^0 + sum v) - p^L||_1 <= sum ||r||_inf [TOT-42]. */
static int count_violations(run *r, json_t *bounds) {
    const double allowance = 1e-6;
    int64_t checked = 0, violations = 0, coherent = 0, broken = 0;
    double largest = 0;
    int code = 0;
    for (int probe = 0; code == 0 && probe < r->probes; probe++) {
        run_table_of ratios = {.values = NULL}, distance = {.values = NULL}, bound = distance;
        code = run_table_load(r, 0, probe, COLUMN_BOUND_RATIO, &ratios);
        if (code == 0) code = run_table_load(r, 0, probe, COLUMN_COHERENCE_DISTANCE, &distance);
        if (code == 0) code = run_table_load(r, 0, probe, COLUMN_COHERENCE_BOUND, &bound);
        const int64_t count = code == 0 ? ratios.windows * ratios.parts * ratios.unit : 0;
        const int64_t tokens = code == 0 ? bound.windows * bound.unit : 0;
        for (int64_t k = 0; k < count; k++) {
            largest = fmax(largest, ratios.values[k]);
            violations += !(ratios.values[k] <= 1 + allowance);
        }
        for (int64_t k = 0; k < tokens; k++)
            broken += !(distance.values[k] <= bound.values[k] * (1 + allowance) + allowance);
        checked += count;
        coherent += tokens;
        run_table_free(&ratios);
        run_table_free(&distance);
        run_table_free(&bound);
    }
    (void)cli_json_put(bounds,
                       "checked:I violations:I largest:r allowance:o probe_norm:r "
                       "coherence_checked:I coherence_violations:I",
                       checked, violations, largest, json_real(allowance), r->probe.norm, coherent,
                       broken);
    return code;
}

static int add_perplexity(run *r, json_t *metrics) {
    ota_figure *nll = NULL;
    int64_t parts;
    const int code = run_column_figures(r, 0, 0, COLUMN_NLL, 1, 0, &nll, &parts);
    if (code == 0) {
        (void)cli_json_put(metrics, "nll_per_token:o perplexity:r", run_figure_json(&nll[0]),
                           exp(nll[0].mean));
    }
    free(nll);
    return code;
}

int run_write_metrics(run *r, json_t *events) {
    const int64_t moves = r->settings.last - r->settings.first;
    const int64_t tokens = r->text.window_count * r->text.windows[0].count;
    json_t *transitions = json_array(), *layers = json_array(), *attention = json_array();
    json_t *bounds = json_object();
    json_t *metrics = json_pack(
        "{s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:O, s:o}", "model",
        r->context->operands[0], "model_sha256", r->model_sha256, "text_sha256", r->text.sha256,
        "probe", "final_norm", "windows", (json_int_t)r->text.window_count, "tokens",
        (json_int_t)tokens, "transition_count", (json_int_t)(tokens * moves), "first_layer",
        (json_int_t)r->settings.first, "vocabulary", (json_int_t)r->facts.vocabulary, "transitions",
        transitions, "layers", layers, "attention", attention, "events", events, "bounds", bounds);
    int code = fill_list(r, moves, transition_keys, COUNT(transition_keys), transitions);
    if (code == 0) code = fill_list(r, moves + 1, layer_keys, COUNT(layer_keys), layers);
    if (code == 0) code = fill_heads(r, attention);
    if (code == 0) code = run_name_heads(r, attention);
    if (code == 0) code = count_violations(r, bounds);
    if (code == 0) code = add_perplexity(r, metrics);
    if (code == 0) code = run_folder_write_json(r->context, &r->folder, "metrics.json", metrics);
    json_decref(metrics);
    return code;
}
