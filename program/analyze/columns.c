/* The table of a window's numbers. A record is one array of doubles: variant by variant, probe by probe,
 * column by column in the order of the table, each of the shape its scope says. */
#include "analyze.h"

#define PROBED true
#define ONCE false
#define EVERY true
#define FIRST false

const run_column_row run_columns[COLUMNS] = {
    [COLUMN_TV] = {"tv", PER_TRANSITION_TOKEN, PROBED, EVERY},
    [COLUMN_KL] = {"kl", PER_TRANSITION_TOKEN, PROBED, FIRST},
    [COLUMN_JS] = {"js", PER_TRANSITION_TOKEN, PROBED, FIRST},
    [COLUMN_ENTROPY_CHANGE] = {"entropy_change", PER_TRANSITION_TOKEN, PROBED, FIRST},
    [COLUMN_TOP1] = {"top1", PER_TRANSITION_TOKEN, PROBED, FIRST},
    [COLUMN_TOP5] = {"top5", PER_TRANSITION_TOKEN, PROBED, FIRST},
    [COLUMN_TOP10] = {"top10", PER_TRANSITION_TOKEN, PROBED, FIRST},
    [COLUMN_TOP100] = {"top100", PER_TRANSITION_TOKEN, PROBED, FIRST},
    [COLUMN_SPEARMAN] = {"spearman", PER_TRANSITION_TOKEN, PROBED, FIRST},
    [COLUMN_MAX_LOGIT_CHANGE] = {"max_logit_change", PER_TRANSITION_TOKEN, PROBED, FIRST},
    [COLUMN_LOGIT_RANGE_HALF] = {"logit_range_half", PER_TRANSITION_TOKEN, PROBED, FIRST},
    [COLUMN_LOGIT_CORRELATION] = {"logit_correlation", PER_TRANSITION_TOKEN, PROBED, FIRST},
    [COLUMN_EFFECTIVE_TEMPERATURE] = {"effective_temperature", PER_TRANSITION_TOKEN, PROBED, FIRST},
    [COLUMN_STEP] = {"step", PER_TRANSITION_TOKEN, PROBED, FIRST},
    [COLUMN_BOUND_RATIO] = {"bound_ratio", PER_TRANSITION_TOKEN, PROBED, FIRST},
    [COLUMN_BOUND_RATIO_SHARP] = {"bound_ratio_sharp", PER_TRANSITION_TOKEN, PROBED, FIRST},
    [COLUMN_ALIGNMENT] = {"alignment", PER_TRANSITION, PROBED, FIRST},
    [COLUMN_ALIGNMENT_LOWER] = {"alignment_lower", PER_TRANSITION, PROBED, FIRST},
    [COLUMN_ALIGNMENT_RMS] = {"alignment_rms", PER_TRANSITION, PROBED, FIRST},
    [COLUMN_NORM_CHANGE] = {"norm_change", PER_TRANSITION_TOKEN, ONCE, EVERY},
    [COLUMN_RELATIVE_L2] = {"relative_l2", PER_TRANSITION_TOKEN, ONCE, EVERY},
    [COLUMN_COSINE] = {"cosine", PER_TRANSITION_TOKEN, ONCE, EVERY},
    [COLUMN_MAX_COORDINATE_CHANGE] = {"max_coordinate_change", PER_TRANSITION_TOKEN, ONCE, FIRST},
    [COLUMN_ENTROPY] = {"entropy", PER_STATE_TOKEN, PROBED, EVERY},
    [COLUMN_TAIL] = {"tail", PER_STATE_TOKEN, PROBED, EVERY},
    [COLUMN_KL_TO_FINAL] = {"kl_to_final", PER_STATE_TOKEN, PROBED, FIRST},
    [COLUMN_DRIFT] = {"drift", PER_STATE_TOKEN, PROBED, FIRST},
    [COLUMN_LENS] = {"lens", PER_STATE_TOKEN, PROBED, FIRST},
    [COLUMN_AGREEMENT] = {"agreement_with_final", PER_STATE_TOKEN, PROBED, FIRST},
    [COLUMN_NORM] = {"norm", PER_STATE_TOKEN, ONCE, FIRST},
    [COLUMN_EFFECTIVE_RANK] = {"effective_rank", PER_STATE, ONCE, FIRST},
    [COLUMN_MEAN_COSINE] = {"mean_cosine", PER_STATE, ONCE, FIRST},
    [COLUMN_SINK_RATE] = {"sink_rate", PER_HEAD, ONCE, EVERY},
    [COLUMN_FIRST_KEY_MASS] = {"first_key_mass", PER_HEAD, ONCE, EVERY},
    [COLUMN_RECEIVER_MAX] = {"receiver_max", PER_HEAD, ONCE, EVERY},
    [COLUMN_GINI] = {"gini", PER_HEAD, ONCE, EVERY},
    [COLUMN_ROW_ENTROPY] = {"row_entropy", PER_HEAD, ONCE, EVERY},
    [COLUMN_MAX_WEIGHT] = {"max_weight", PER_HEAD, ONCE, EVERY},
    [COLUMN_SUPPORT] = {"support", PER_HEAD, ONCE, EVERY},
    [COLUMN_NLL] = {"nll", PER_TOKEN, ONCE, EVERY},
    [COLUMN_COHERENCE_DISTANCE] = {"coherence_distance", PER_TOKEN, PROBED, FIRST},
    [COLUMN_COHERENCE_BOUND] = {"coherence_bound", PER_TOKEN, PROBED, FIRST},
    [COLUMN_OUTPUT_TV] = {"output_tv", PER_TOKEN, ONCE, EVERY},
    [COLUMN_OUTPUT_KL] = {"output_kl", PER_TOKEN, ONCE, EVERY},
    [COLUMN_OUTPUT_AGREEMENT] = {"output_agreement", PER_TOKEN, ONCE, EVERY},
    [COLUMN_OUTPUT_L2] = {"output_l2", PER_TOKEN, ONCE, EVERY},
    [COLUMN_ROUNDS] = {"rounds", PER_PAIR, ONCE, FIRST},
    [COLUMN_ROUNDS_PREDICTED] = {"rounds_predicted", PER_PAIR, ONCE, FIRST},
    [COLUMN_BOUNDS] = {"bounds", PER_BOUND, ONCE, FIRST},
    [COLUMN_RANKS] = {"ranks", PER_RANK, ONCE, FIRST},
    [COLUMN_HEAD_KINDS + KIND_PREVIOUS_TOKEN] = {"previous_token", PER_HEAD, ONCE, FIRST},
    [COLUMN_HEAD_KINDS + KIND_DUPLICATE_TOKEN] = {"duplicate_token", PER_HEAD, ONCE, FIRST},
    [COLUMN_HEAD_KINDS + KIND_INDUCTION] = {"induction", PER_HEAD, ONCE, FIRST},
    [COLUMN_HEAD_KINDS + KIND_POSITIONAL] = {"positional", PER_HEAD, ONCE, FIRST},
    [COLUMN_HEAD_KINDS + KIND_LOCAL] = {"local", PER_HEAD, ONCE, FIRST},
    [COLUMN_HEAD_KINDS + KIND_SINK] = {"sink", PER_HEAD, ONCE, FIRST},
    [COLUMN_HEAD_KINDS + KIND_NOP_SINK] = {"nop_sink", PER_HEAD, ONCE, FIRST},
    [COLUMN_HEAD_KINDS + KIND_BROADCAST_SINK] = {"broadcast_sink", PER_HEAD, ONCE, FIRST},
    [COLUMN_VALUE_RATIO] = {"value_ratio", PER_HEAD, ONCE, FIRST},
    [COLUMN_DISTANCE] = {"distance", PER_HEAD, ONCE, FIRST},
    [COLUMN_SINK_KEY] = {"sink_key", PER_HEAD, ONCE, FIRST},
    [COLUMN_OFFSET] = {"offset", PER_HEAD, ONCE, FIRST},
    [COLUMN_CHANCE] = {"chance", PER_CHANCE, ONCE, FIRST},
    [COLUMN_KURTOSIS] = {"kurtosis", PER_STATE_TOKEN, ONCE, FIRST},
    [COLUMN_MASSIVE_RATIO] = {"massive_ratio", PER_STATE, ONCE, FIRST},
    [COLUMN_MASSIVE] = {"massive", PER_MASSIVE, ONCE, FIRST},
};

int64_t run_column_size(const run_shape *shape, run_column column) {
    const int64_t states = shape->states, moves = states - 1, tokens = shape->tokens;
    switch (run_columns[column].scope) {
    case PER_STATE_TOKEN: return states * tokens;
    case PER_TRANSITION_TOKEN: return moves * tokens;
    case PER_STATE: return states;
    case PER_TRANSITION: return moves;
    case PER_HEAD: return moves * shape->heads;
    case PER_TOKEN: return tokens;
    case PER_PAIR: return (int64_t)PAIRS * PAIR_EPSILONS * PAIR_TOLERANCES;
    case PER_BOUND: return shape->bounds ? moves * BOUND_ROWS * BOUND_NUMBERS : 0;
    case PER_RANK: return shape->bounds ? moves * shape->heads * RANKS : 0;
    case PER_CHANCE: return moves * CHANCE_KINDS;
    case PER_MASSIVE: return states * MASSIVE_MOST * MASSIVE_NUMBERS;
    }
    return 0;
}

static bool is_there(const run_shape *shape, int variant, int probe, run_column column) {
    const run_column_row *row = &run_columns[column];
    const bool aligns = column >= COLUMN_ALIGNMENT && column <= COLUMN_ALIGNMENT_RMS;
    if (shape->alignment && !aligns) return false;
    if (variant > 0 && !row->variant) return false;
    if (probe > 0 && (variant > 0 || !row->probed)) return false;
    return variant < shape->variants && probe < shape->probes;
}

/* The numbers before (variant, probe, column). */
static int64_t count_before(const run_shape *shape, int variant, int probe, run_column column) {
    int64_t sum = 0;
    for (int v = 0; v <= variant; v++)
        for (int p = 0; p < shape->probes; p++)
            for (int c = 0; c < COLUMNS; c++) {
                if (v == variant && (p > probe || (p == probe && c >= (int)column))) return sum;
                if (is_there(shape, v, p, (run_column)c))
                    sum += run_column_size(shape, (run_column)c);
            }
    return sum;
}

int64_t run_column_offset(const run_shape *shape, int variant, int probe, run_column column) {
    return is_there(shape, variant, probe, column) ? count_before(shape, variant, probe, column)
                                                   : -1;
}

int64_t run_record_size(const run_shape *shape) {
    return count_before(shape, shape->variants, 0, COLUMN_TV);
}
