/* test_limits.c: every call of the analysis ends soon after its deadline, at sizes where it takes many times
 * longer, and after the flag.
 *
 * The clock counts computation of the one thread that there is (work_clock.h). */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "draw/random.h"
#include "groups.h"
#include "otattn_analysis.h"
#include "work_clock.h"

static dice dice_state;

/* MOST = WIDE x WIDE. */
enum { WIDE = 2048, MOST = WIDE * WIDE, SOME = 512, FEW = 16 };
/* Looks are some microseconds apart; memory that is new takes up to 25 ms, and ota_gauge up to 30 to judge what it has
 * (seventeen deadlines from 0.1 to 46 ms on a busy machine). */
enum { ALLOWED = 40000000, ALLOWED_GAUGE = 60000000 };

/* numbers: normal; share: one distribution; rows: WIDE of them; even: doubly stochastic. */
static double numbers[MOST], share[MOST], rows[MOST], even[MOST], out[2 * MOST];
static float narrow[MOST / 2];
static int64_t places[2 * MOST];
static ota_error error;
/* What the calls below are told: of the analysis, of a plan. */
static ota_analysis_options limits = {.size = sizeof limits};
static ota_options one_thread = {.size = sizeof one_thread, .threads = 1};
static void limit(const int *cancel, int64_t deadline_ns) {
    limits.cancel = one_thread.cancel = cancel;
    limits.deadline_ns = one_thread.deadline_ns = deadline_ns;
}

/* ---- one row ---------------------------------------------------------------------------------- */

static ota_status hamming(void) {
    ota_hamming_result r;
    return ota_hamming(share, share, MOST, 0.5, NULL, &r, &limits, &error);
}
static ota_status hamming_sinkhorn(void) {
    const ota_hamming_options o = {.size = sizeof o,
                                   .solver = OTA_HAMMING_SINKHORN,
                                   .tolerance = 1e-300,
                                   .u = out,
                                   .v = out + MOST};
    ota_hamming_result r;
    return ota_hamming(rows, rows + WIDE, WIDE, 0.05, &o, &r, &limits, &error);
}
static ota_status divergence(void) {
    ota_divergence d;
    return ota_divergence_of(share, share, MOST, &d, &limits, &error);
}
static ota_status divergence_of_logits(void) {
    ota_divergence d;
    return ota_divergence_of_logits(numbers, share, OTA_F64, MOST, 1.0, &d, &limits, &error);
}
static ota_status tail(void) {
    ota_tail t;
    return ota_tail_of(numbers, OTA_F64, MOST, 1.0, &t, &limits, &error);
}
static ota_status logit_change(void) {
    ota_logit_change c;
    return ota_logit_change_of(numbers, share, OTA_F64, MOST, &c, &limits, &error);
}
static ota_status rank_change(void) {
    double spearman;
    ota_rank_change c = {.spearman = &spearman};
    return ota_rank_change_of(numbers, rows, OTA_F64, MOST, &c, &limits, &error);
}
static ota_status state_change(void) {
    ota_state_change c;
    return ota_state_change_of(numbers, share, OTA_F64, MOST, &c, &limits, &error);
}
static ota_status summary(void) {
    ota_summary s;
    return ota_summary_of(numbers, MOST, &s, &limits, &error);
}
static ota_status potential(void) {
    return ota_softmax_potential(numbers, MOST, 1.0, out, out + 1, &limits, &error);
}
static ota_status objective(void) {
    return ota_softmax_objective(share, numbers, MOST, 1.0, out, &limits, &error);
}
static ota_status dual(void) {
    return ota_softmax_dual(numbers, MOST, 1.0, 0.5, out, &limits, &error);
}
static ota_status fenchel(void) {
    ota_fenchel f;
    return ota_fenchel_of(share, numbers, MOST, 1.0, &f, &limits, &error);
}
static ota_status advantage(void) {
    return ota_advantage(share, numbers, MOST, 1.0, out, out + MOST, &limits, &error);
}
static ota_status fisher_product(void) {
    return ota_fisher_product(share, numbers, MOST, 1.0, out, &limits, &error);
}
static ota_status fisher_matrix(void) {
    return ota_fisher_matrix(rows, WIDE, 1.0, out, NULL, &limits, &error);
}
static ota_status jacobian(void) {
    return ota_softmax_jacobian(rows, WIDE, 1.0, out, &limits, &error);
}
static ota_status natural_gradient(void) {
    return ota_natural_gradient(share, numbers, MOST, 1.0, out, &limits, &error);
}
static ota_status lipschitz(void) {
    ota_lipschitz l;
    return ota_lipschitz_of(numbers, share, OTA_F64, MOST, 1.0, &l, &limits, &error);
}
static ota_status jacobian_norm(void) {
    double lower, upper;
    return ota_jacobian_norm(share, MOST, &lower, &upper, &limits, &error);
}
static ota_status probe(void) {
    ota_probe p;
    return ota_probe_of(numbers, OTA_F64, WIDE, WIDE, &p, &limits, &error);
}
static ota_status saturation(void) {
    ota_saturation s;
    return ota_saturation_of(numbers, share, OTA_F64, MOST, 1.0, &s, &limits, &error);
}
static ota_status saturated_fraction(void) {
    return ota_saturated_fraction(&(ota_matrix){numbers, OTA_F64, WIDE, WIDE}, 1.0, 1e-4, out,
                                  &limits, &error);
}
static ota_status uniformity(void) {
    ota_uniformity u;
    return ota_uniformity_of(numbers, OTA_F64, MOST, 1.0, &u, &limits, &error);
}

/* ---- couplings -------------------------------------------------------------------------------- */

static const ota_gauge_matrix square = {
    .a = numbers, .b = rows, .type = OTA_F64, .rows = WIDE, .columns = WIDE};
static ota_status gauge_of(ota_gauge_rule rule, int64_t n, int64_t m) {
    const ota_gauge_options o = {.size = sizeof o, .rule = rule, .tolerance = 1e-300};
    const ota_gauge_matrix d = {.a = numbers, .type = OTA_F64, .rows = n, .columns = m};
    ota_gauge_result r;
    return ota_gauge(&d, &o, NULL, &r, &limits, &error);
}
static ota_status howard(void) { return gauge_of(OTA_GAUGE_HOWARD, WIDE, WIDE); }
static ota_status howard_tall(void) { return gauge_of(OTA_GAUGE_HOWARD, MOST / FEW, FEW); }
static ota_status howard_wide(void) { return gauge_of(OTA_GAUGE_HOWARD, FEW, MOST / FEW); }
static ota_status midrange(void) { return gauge_of(OTA_GAUGE_MIDRANGE, WIDE, WIDE); }
static ota_status rest(void) {
    return ota_gauge_rest(&square, numbers, share, out, &limits, &error);
}
static ota_status four_cycle(void) { return ota_gauge_four_cycle(&square, out, &limits, &error); }
static ota_status coherence(void) {
    const ota_gauge_chain c = {.layers = 8,
                               .rows = SOME,
                               .columns = SOME,
                               .start = numbers,
                               .moves = rows,
                               .row_shift = share,
                               .column_shift = share};
    return ota_gauge_coherence(&c, out, out + SOME, &limits, &error);
}
static ota_status compose(void) {
    return ota_compose(rows, rows, WIDE, WIDE, WIDE, out, &limits, &error);
}
static ota_status log_ratios(void) {
    return ota_log_ratios(rows, WIDE, WIDE, out, &limits, &error);
}
static ota_status rank(void) {
    int64_t found;
    return ota_rank(out, WIDE, WIDE, 1e-300, out + MOST, &found, &limits, &error);
}
static ota_status hilbert(void) { return ota_hilbert(share, share, MOST, out, &limits, &error); }
static ota_status hilbert_log(void) {
    return ota_hilbert_log(numbers, share, MOST, out, &limits, &error);
}
static ota_status contraction(void) {
    ota_contraction c;
    return ota_contraction_of(numbers, WIDE, WIDE, &c, &limits, &error);
}
static ota_status scaling(void) {
    ota_scaling_run run = {.most = 100, .f = out, .g = out + MOST};
    return ota_scaling(numbers, rows, rows, WIDE, WIDE, &run, &limits, &error);
}
static ota_status rate(void) { return ota_rate_measured(share, MOST, out, &limits, &error); }
static ota_status coupling_spectrum(void) {
    ota_coupling_spectrum s;
    return ota_coupling_spectrum_of(rows, WIDE, WIDE, 0, &s, &limits, &error);
}
static const ota_score_pair moved = {
    .scores = numbers, .perturbed = rows, .rows = WIDE, .columns = WIDE, .temperature = 1.0};
static ota_status score_bounds(void) {
    ota_score_bounds b;
    return ota_score_bounds_of(&moved, 1.0, NULL, &b, &limits, &error);
}
static ota_status score_change(void) {
    ota_score_change c;
    return ota_score_change_of(&moved, rows, even, &c, &limits, &error);
}
static ota_status output_bounds(void) {
    const ota_score_bounds b = {.sharp = 1.0};
    ota_output_bounds o;
    return ota_output_bounds_of(&b, numbers, rows, MOST / FEW, FEW, &o, &limits, &error);
}
static ota_status row_norm(void) {
    return ota_row_norm(numbers, rows, WIDE, WIDE, out, &limits, &error);
}
static ota_status hull(void) {
    return ota_hull_excess(numbers, rows, WIDE, WIDE, WIDE, out, &limits, &error);
}
static ota_status nonexpansion(void) {
    const ota_mixing mixing = {.coupling = rows, .rows = WIDE, .keys = WIDE, .alpha = 0.5};
    return ota_nonexpansion(&mixing, numbers, even, WIDE, out, &limits, &error);
}
static ota_status receiver(void) {
    ota_receiver r;
    return ota_receiver_of(rows, WIDE, WIDE, out, &r, &limits, &error);
}
static ota_status mean_shift(void) {
    return ota_mean_shift(share, numbers, WIDE, WIDE, WIDE, out, &limits, &error);
}
static ota_status birkhoff(void) {
    ota_permutations terms = {.capacity = WIDE, .weights = out, .columns = places};
    return ota_birkhoff(even, WIDE, &terms, &limits, &error);
}
static ota_problem problem(void) {
    ota_problem p = {.size = sizeof p, .columns = OTA_COLUMNS_EXACT};
    p.scores = ota_array_of(numbers, OTA_F64, 1, 1, WIDE, WIDE);
    return p;
}
static ota_status leak(void) {
    const ota_problem p = problem();
    return ota_causality_leak(&p, &one_thread, WIDE - 1, 1.0, out, &error);
}
static ota_status identify(void) {
    const ota_problem p = problem();
    ota_fit fit;
    int64_t count;
    return ota_identify(&p, &one_thread, rows, &fit, 1, &count, &error);
}

/* ---- layers ----------------------------------------------------------------------------------- */

static const ota_norm plain_norm = {.epsilon = 1e-5};
static ota_status layernorm(void) {
    return ota_layernorm(numbers, WIDE, WIDE, &plain_norm, out, NULL, &limits, &error);
}
static ota_status layernorm_backward(void) {
    const ota_norm_gradients g = {.dy = rows, .du = out};
    return ota_layernorm_backward(numbers, WIDE, WIDE, &plain_norm, &g, &limits, &error);
}
static ota_status layernorm_jacobian(void) {
    return ota_layernorm_jacobian(numbers, WIDE, 1e-5, out, &limits, &error);
}
static ota_status layernorm_geometry(void) {
    ota_layernorm_spectrum s;
    return ota_layernorm_geometry(numbers, MOST, &(ota_norm){.gamma = rows, .epsilon = 1e-5}, out,
                                  &s, &limits, &error);
}
static ota_status layernorm_change(void) {
    ota_change c;
    return ota_layernorm_change(numbers, rows, MOST, &(ota_norm){.gamma = share, .epsilon = 1e-5},
                                out, &c, &limits, &error);
}
static ota_status rmsnorm(void) {
    return ota_rmsnorm(numbers, WIDE, WIDE, &plain_norm, out, NULL, &limits, &error);
}
static ota_status rmsnorm_geometry(void) {
    ota_layernorm_spectrum s;
    return ota_rmsnorm_geometry(numbers, MOST, &(ota_norm){.gamma = rows, .epsilon = 1e-5}, &s,
                                &limits, &error);
}
static ota_status rmsnorm_change(void) {
    ota_change c;
    return ota_rmsnorm_change(numbers, rows, MOST, &(ota_norm){.gamma = share, .epsilon = 1e-5}, &c,
                              &limits, &error);
}
static ota_status absolute_costs(void) {
    const ota_absolute_positions of = {.tokens = 1024,
                                       .width = 64,
                                       .head_width = 1024,
                                       .x = numbers,
                                       .positions = rows,
                                       .query_weights = numbers,
                                       .key_weights = rows,
                                       .temperature = 1.0};
    return ota_absolute_costs(&of, out, out + MOST, NULL, &limits, &error);
}
static ota_status relative_costs(void) {
    const ota_relative_positions of = {.queries = 1024,
                                       .keys = 1024,
                                       .head_width = 1024,
                                       .q = numbers,
                                       .k = rows,
                                       .bias = share,
                                       .temperature = 1.0};
    return ota_relative_costs(&of, out, &limits, &error);
}
static ota_status alibi(void) {
    return ota_alibi_bias(0.5, WIDE, WIDE, 0, 1, out, &limits, &error);
}
static ota_status rope_matrix(void) {
    return ota_rope_matrix(WIDE, 3.0, 0.0, out, &limits, &error);
}
static ota_status context(void) {
    return ota_context(rows, numbers, WIDE, WIDE, out, &limits, &error);
}
static ota_status chain_rule(void) {
    const ota_head_chain chain = {.queries = 1024,
                                  .keys = 1024,
                                  .width = 1024,
                                  .values_width = 1024,
                                  .q = numbers,
                                  .k = numbers,
                                  .v = numbers,
                                  .p = rows,
                                  .dout = numbers,
                                  .dscores = rows,
                                  .dp = out,
                                  .dv = out + MOST};
    return ota_head_chain_rule(&chain, &limits, &error);
}
static const ota_attention_layer layer = {.size = sizeof layer,
                                          .width = WIDE,
                                          .heads = 8,
                                          .query_weights = rows,
                                          .key_weights = rows,
                                          .value_weights = rows,
                                          .output_weights = rows,
                                          .options = &one_thread};
enum { TOKENS = 128 };
static double *room(void) {
    static double space[16 * MOST];
    assert_true(ota_attention_change_workspace(&layer, TOKENS, TOKENS) <= 16 * MOST);
    return space;
}
static const ota_attention_input first_input = {.queries = TOKENS, .keys = TOKENS, .x = numbers},
                                 second_input = {.queries = TOKENS, .keys = TOKENS, .x = share};
static ota_status attention(void) {
    const ota_attention_outputs o = {.size = sizeof o, .out = out};
    return ota_attention_forward(&layer, &first_input, &o, room(), NULL, &error);
}
static ota_status attention_change(void) {
    ota_change output, weights;
    return ota_attention_change(&layer, &first_input, &second_input, room(), &output, &weights,
                                &error);
}
static ota_status block(void) {
    const ota_residual_block b = {&layer, &plain_norm, 1.0};
    return ota_attention_block(&b, numbers, TOKENS, out, room(), NULL, &error);
}
static ota_status block_change(void) {
    const ota_residual_block b = {&layer, &plain_norm, 1.0};
    ota_change c;
    return ota_block_change(&b, numbers, share, TOKENS, room(), &c, &error);
}
static ota_status identity_core(void) {
    return ota_identity_core(rows, numbers, WIDE, WIDE, 0.5, out, &limits, &error);
}
static ota_status spectral_norm(void) {
    return isnan(ota_spectral_norm(numbers, WIDE, WIDE, WIDE, out, &limits)) ? OTA_TIMEOUT : OTA_OK;
}

/* ---- evolution -------------------------------------------------------------------------------- */

static ota_status evolve(void) {
    enum { STATES = 3, POSITIONS = 8 };
    const float *states[STATES] = {narrow, narrow + MOST / 4, narrow};
    static ota_transition transitions[(STATES - 1) * POSITIONS];
    const ota_evolution e = {.size = sizeof e,
                             .states = STATES,
                             .positions = POSITIONS,
                             .vocabulary = 1 << 17,
                             .logits = states,
                             .transitions = transitions};
    return ota_evolve(&e, &limits, &error);
}
static ota_status state_cloud(void) {
    ota_state_cloud c;
    return ota_state_cloud_of(&(ota_matrix){numbers, OTA_F64, WIDE, WIDE}, 1, NULL, &c, &limits,
                              &error);
}
static ota_status pattern(void) {
    ota_pattern p;
    return ota_pattern_of(&(ota_matrix){rows, OTA_F64, WIDE, WIDE}, 0.0, NULL, &p, &limits, &error);
}
static ota_status head_scores(void) {
    static int64_t ids[WIDE];
    const ota_head_view view = {
        .size = sizeof view, .weights = rows, .type = OTA_F64, .tokens = WIDE, .ids = ids};
    ota_head_scores scores;
    return ota_head_scores_of(&view, &scores, &limits, &error);
}
static ota_status outliers(void) {
    ota_outlier largest[3];
    return ota_outliers_of(&(ota_matrix){numbers, OTA_F64, WIDE, WIDE}, 3, largest, NULL, &limits,
                           &error);
}
static ota_status figure(void) {
    ota_figure f;
    return ota_figure_of(numbers, MOST, 1, 100, 1, &f, &limits, &error);
}
static ota_status tightness(void) {
    const ota_measured_changes c = {.l1 = share, .steps = rows, .count = MOST, .norm = 1.0};
    ota_tightness t;
    return ota_tightness_of(&c, 1, 100, 1, NULL, &t, &limits, &error);
}
static ota_status power_law(void) {
    ota_power_law law;
    return ota_power_law_of(share, rows, MOST, &law, &limits, &error);
}
static ota_status trend(void) {
    ota_trend t;
    return ota_trend_of(numbers, MOST, &t, &limits, &error);
}
static ota_status events(void) {
    ota_event_summary s;
    return ota_events_of((const uint8_t *)(const void *)numbers, WIDE, 4 * WIDE, NULL, NULL, &s,
                         &limits, &error);
}
static ota_status phi(void) {
    const uint8_t *const bytes = (const uint8_t *)(const void *)numbers;
    return ota_phi_of(bytes, bytes + 1, MOST, out, &limits, &error);
}

/* ---- all of them ------------------------------------------------------------------------------ */

typedef struct call {
    const char *name;
    ota_status (*run)(void);
} call;

#define CALL(name)                                                                                 \
    { #name, name }
static const call calls[] = {CALL(hamming),
                             CALL(hamming_sinkhorn),
                             CALL(divergence),
                             CALL(divergence_of_logits),
                             CALL(tail),
                             CALL(logit_change),
                             CALL(rank_change),
                             CALL(state_change),
                             CALL(summary),
                             CALL(potential),
                             CALL(objective),
                             CALL(dual),
                             CALL(fenchel),
                             CALL(advantage),
                             CALL(fisher_product),
                             CALL(fisher_matrix),
                             CALL(jacobian),
                             CALL(natural_gradient),
                             CALL(lipschitz),
                             CALL(jacobian_norm),
                             CALL(probe),
                             CALL(saturation),
                             CALL(saturated_fraction),
                             CALL(uniformity),
                             CALL(howard),
                             CALL(howard_tall),
                             CALL(howard_wide),
                             CALL(midrange),
                             CALL(rest),
                             CALL(four_cycle),
                             CALL(coherence),
                             CALL(compose),
                             CALL(log_ratios),
                             CALL(rank),
                             CALL(hilbert),
                             CALL(hilbert_log),
                             CALL(contraction),
                             CALL(scaling),
                             CALL(rate),
                             CALL(coupling_spectrum),
                             CALL(score_bounds),
                             CALL(score_change),
                             CALL(output_bounds),
                             CALL(row_norm),
                             CALL(hull),
                             CALL(nonexpansion),
                             CALL(receiver),
                             CALL(mean_shift),
                             CALL(birkhoff),
                             CALL(leak),
                             CALL(identify),
                             CALL(layernorm),
                             CALL(layernorm_backward),
                             CALL(layernorm_jacobian),
                             CALL(layernorm_geometry),
                             CALL(layernorm_change),
                             CALL(rmsnorm),
                             CALL(rmsnorm_geometry),
                             CALL(rmsnorm_change),
                             CALL(absolute_costs),
                             CALL(relative_costs),
                             CALL(alibi),
                             CALL(rope_matrix),
                             CALL(context),
                             CALL(chain_rule),
                             CALL(attention),
                             CALL(attention_change),
                             CALL(block),
                             CALL(block_change),
                             CALL(identity_core),
                             CALL(spectral_norm),
                             CALL(evolve),
                             CALL(state_cloud),
                             CALL(pattern),
                             CALL(head_scores),
                             CALL(outliers),
                             CALL(figure),
                             CALL(tightness),
                             CALL(power_law),
                             CALL(trend),
                             CALL(events),
                             CALL(phi)};
enum { CALLS = sizeof calls / sizeof calls[0] };

/* Deadlines that reach what comes late in a call, too: checks of the input come first. */
static void calls_end_at_the_deadline(void **unused) {
    (void)unused;
    static const int64_t befores[] = {100000, 4000000, 30000000};
    enum { TRIALS = 3 };
    int slow = 0;
    for (int k = 0; k < CALLS; k++) {
        int64_t worst = 0;
        for (int b = 0; b < 3; b++) {
            int64_t best = INT64_MAX;
            for (int trial = 0; trial < TRIALS && best > work_allowed(ALLOWED); trial++) {
                memcpy(out, numbers, sizeof numbers);
                const int64_t deadline = __wrap_ota_now_ns() + befores[b];
                limit(NULL, deadline);
                const ota_status status = calls[k].run();
                const int64_t late = __wrap_ota_now_ns() - deadline;
                /* The shortest deadline must end every call; before a longer one a call may be all but done, and what
                 * it answers then is an end like others. */
                if (late > 0 && b == 0 && status != OTA_TIMEOUT)
                    fail_msg("%s: status %d: %s", calls[k].name, (int)status, error.message);
                if (late < best) best = late;
            }
            if (best > worst) worst = best;
        }
        const bool is_gauge = k >= 24 && k <= 27;
        if (worst > work_allowed(is_gauge ? ALLOWED_GAUGE : ALLOWED)) {
            print_error("%s: %.1f ms late\n", calls[k].name, (double)worst / 1e6);
            slow++;
        }
    }
    limit(NULL, 0);
    assert_int_equal(slow, 0);
}

static void calls_end_at_the_flag(void **unused) {
    (void)unused;
    const int up = 1;
    limit(&up, 0);
    for (int k = 0; k < CALLS; k++) {
        if (calls[k].run == spectral_norm) continue;
        memset(&error, 0, sizeof error);
        const ota_status status = calls[k].run();
        if (status != OTA_CANCELLED) fail_msg("%s: status %d", calls[k].name, (int)status);
        if (error.message[0] == '\0') fail_msg("%s: no sentence", calls[k].name);
    }
    limit(NULL, 0);
}

/* Options of another library's size, or with a field that this one does not know, end a call before it begins. */
static void sizes_are_checked(void **unused) {
    (void)unused;
    static const struct {
        ota_analysis_options options;
        int later;
    } newer = {{.size = sizeof newer}, 1}, none = {{.size = 0}, 0},
      longer = {{.size = sizeof longer}, 0};
    double found;
    assert_int_equal(ota_softmax_dual(share, WIDE, 1.0, 0.5, &found, &newer.options, &error),
                     OTA_EINVAL);
    assert_string_equal(error.field, "options.size");
    assert_int_equal(ota_softmax_dual(share, WIDE, 1.0, 0.5, &found, &none.options, &error),
                     OTA_EINVAL);
    assert_string_equal(error.field, "options.size");
    assert_int_equal(ota_softmax_dual(share, WIDE, 1.0, 0.5, &found, &longer.options, NULL),
                     OTA_OK);
}

static void scale_to_one(double *x, int count) {
    double sum = 0.0;
    for (int k = 0; k < count; k++) sum += x[k];
    for (int k = 0; k < count; k++) x[k] /= sum;
}

TEST_FILE(test_limits) {
    dice_state = 11;
    for (int k = 0; k < MOST; k++) {
        numbers[k] = normal(&dice_state);
        narrow[k / 2] = (float)numbers[k];
        share[k] = rows[k] = exp(0.1 * numbers[k]);
        even[k] = ((k % WIDE - k / WIDE + WIDE) % WIDE + 1) * 2.0 / (WIDE * (WIDE + 1.0));
    }
    scale_to_one(share, MOST);
    for (int i = 0; i < WIDE; i++) scale_to_one(rows + i * WIDE, WIDE);
    const struct CMUnitTest tests[] = {cmocka_unit_test(calls_end_at_the_deadline),
                                       cmocka_unit_test(calls_end_at_the_flag),
                                       cmocka_unit_test(sizes_are_checked)};
    return cmocka_run_group_tests_name("limits", tests, NULL, NULL);
}
