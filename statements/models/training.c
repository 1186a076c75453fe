/* Group G on a model: what the tables of an analysis say of its layers [TOT-35, 88, 91, 120], against loops
 * over its logits z [layers + 1][count][vocabulary]. A transition leads from layer l to l + 1; R_l is the minimax
 * residual of z^(l+1) - z^l; an event is a transition with both tails below `tail` and TV below `tv`.
 *
 * Table 1: mean of R_l / sqrt(V) by range of layers.  Table 3: mean, deviation, p95 of the R_l / sqrt(V).
 * Table 4: events, positions that have one, longest run. */
#include "models.h"

enum { LAYERS_MOST = 1024, RANGES_MOST = 8, CHECKPOINTS = 5 };

/* ---- what the library says ---- */

typedef struct lens_run {
    int64_t layers, count, vocabulary;
    const float *logits;
    ota_transition *transitions; /* [layers][count] */
} lens_run;

static bool open_lens(trial *t, checkpoint *c, lens_run *r) {
    *r =
        (lens_run){.layers = c->facts.layers, .count = c->count, .vocabulary = c->facts.vocabulary};
    if (r->layers > LAYERS_MOST || !statement_run_checkpoint(t, c)) return false;
    r->logits = statement_probe_checkpoint(t, c, true);
    const float *states[LAYERS_MOST + 1];
    for (int64_t l = 0; l <= r->layers; l++) states[l] = r->logits + l * r->count * r->vocabulary;
    r->transitions = take(t, (size_t)(r->layers * r->count) * sizeof *r->transitions);
    const ota_evolution evolution = {.size = sizeof evolution,
                                     .states = r->layers + 1,
                                     .positions = r->count,
                                     .vocabulary = r->vocabulary,
                                     .logits = states,
                                     .transitions = r->transitions,
                                     .threads = 1};
    return ota_evolve(&evolution, NULL, NULL) == OTA_OK;
}

/* R_l / sqrt(V) [layers]. */
static bool residuals_of(const lens_run *r, double *residuals) {
    for (int64_t l = 0; l < r->layers; l++) {
        const float *before = r->logits + l * r->count * r->vocabulary;
        ota_gauge_result gauge;
        if (ota_gauge(&(ota_gauge_matrix){.a = before + r->count * r->vocabulary,
                                          .b = before,
                                          .type = OTA_F32,
                                          .rows = r->count,
                                          .columns = r->vocabulary},
                      NULL, NULL, &gauge, NULL, NULL) != OTA_OK)
            return false;
        residuals[l] = gauge.per_sqrt_columns;
    }
    return true;
}

/* ---- the same by loops ---- */

/* TV of the transition of position `i`, and whether both tails are below `tail`. */
static double total_variation(const lens_run *r, int64_t l, int64_t i, double tail, bool *sure) {
    const int64_t V = r->vocabulary;
    const float *a = r->logits + (l * r->count + i) * V, *b = a + r->count * V;
    long double sums[2] = {0.0L, 0.0L}, most[2] = {0.0L, 0.0L}, tv = 0.0L;
    const float *const sides[2] = {a, b};
    for (int s = 0; s < 2; s++) {
        for (int64_t j = 0; j < V; j++) {
            const long double x = expl((long double)sides[s][j]);
            sums[s] += x;
            most[s] = x > most[s] ? x : most[s];
        }
    }
    for (int64_t j = 0; j < V; j++)
        tv += fabsl(expl((long double)a[j]) / sums[0] - expl((long double)b[j]) / sums[1]);
    *sure = 1.0L - most[0] / sums[0] < tail && 1.0L - most[1] / sums[1] < tail;
    return (double)(tv / 2.0L);
}

/* Thresholds under which about half of the transitions are events, each between two neighbours. */
static double middle_tv(trial *t, const lens_run *r) {
    const int64_t count = r->layers * r->count;
    double *tv = numbers(t, count);
    bool sure;
    for (int64_t k = 0; k < count; k++)
        tv[k] = total_variation(r, k / r->count, k % r->count, 2.0, &sure);
    qsort(tv, (size_t)count, sizeof *tv, ascending);
    return 0.5 * (tv[count / 2 - 1] + tv[count / 2]);
}

typedef struct event_table {
    double events, positions, longest;
    int64_t lengths[LAYERS_MOST + 1]; /* runs of k events */
} event_table;

static void count_events(const lens_run *r, double tail, double tv, event_table *e) {
    *e = (event_table){.events = 0.0};
    for (int64_t i = 0; i < r->count; i++) {
        int64_t run = 0, hits = 0;
        for (int64_t l = 0; l <= r->layers; l++) {
            bool sure = false;
            const bool event = l < r->layers && total_variation(r, l, i, tail, &sure) < tv && sure;
            hits += event;
            if (!event && run > 0) {
                e->lengths[run]++;
                e->longest = fmax(e->longest, (double)run);
            }
            run = event ? run + 1 : 0;
        }
        e->events += (double)hits;
        e->positions += hits > 0;
    }
}

static uint8_t *events_of(trial *t, const lens_run *r, double tail, double tv) {
    uint8_t *events = take(t, (size_t)(r->layers * r->count));
    for (int64_t k = 0; k < r->layers * r->count; k++)
        events[k] = (uint8_t)ota_transition_saturated(&r->transitions[k], tail, tv);
    return events;
}

/* ---- runs of events ---- */

/* The histogram of their lengths, at tail 1 and at tail 0.9: counts that differ. */
static double run_lengths(trial *t) {
    checkpoint *c = statement_checkpoint(t);
    lens_run r;
    if (c == NULL) return NAN;
    double different = NAN;
    if (open_lens(t, c, &r)) {
        different = 0.0;
        const double tv = middle_tv(t, &r), tails[] = {1.0, 0.9};
        for (int k = 0; k < 2; k++) {
            int64_t lengths[LAYERS_MOST + 1] = {0};
            ota_event_summary summary;
            event_table e;
            if (ota_events_of(events_of(t, &r, tails[k], tv), r.layers, r.count, NULL, lengths,
                              &summary, NULL, NULL) != OTA_OK)
                different = NAN;
            count_events(&r, tails[k], tv, &e);
            for (int64_t length = 1; length <= r.layers; length++)
                different +=
                    fabs(seen_number(t, (double)lengths[length]) - (double)e.lengths[length]);
            different += fabs((double)summary.longest_run - e.longest);
            if (k == 0 && e.events == 0.0) different = NAN;
        }
    }
    return different;
}

/* The same ids twice, once more in a session of two threads: bits of tails and TV that change. */
static double same_events(trial *t) {
    checkpoint *c = statement_checkpoint(t);
    lens_run first, again;
    if (c == NULL) return NAN;
    double changed = NAN;
    if (open_lens(t, c, &first)) {
        const ota_session_options options = {
            .size = sizeof options, .batch = 2, .tokens = c->count, .threads = 2};
        ota_session_free(c->session);
        c->session = NULL;
        if (ota_session_create(&c->session, c->model, &options, NULL) == OTA_OK &&
            open_lens(t, c, &again)) {
            changed = 0.0;
            for (int64_t k = 0; k < first.layers * first.count; k++) {
                const ota_transition *a = &first.transitions[k], *b = &again.transitions[k];
                const double x[3] = {seen_number(t, a->tv), a->tail_before, a->tail_after};
                const double y[3] = {b->tv, b->tail_before, b->tail_after};
                changed += different_bits(x, y, 3);
            }
        }
    }
    return changed;
}

/* ---- residuals over depth ---- */

/* R_l from both sides: residual at the shifts returned, and mean of the walk returned, on f64 differences; the
 * largest distance from the R_l reported, relative. */
static double residuals_certified(trial *t) {
    checkpoint *c = statement_checkpoint(t);
    lens_run r;
    if (c == NULL) return NAN;
    double most = open_lens(t, c, &r) ? 0.0 : NAN;
    for (int64_t l = 0; most == most && l < r.layers; l++) {
        const int64_t n = r.count, V = r.vocabulary, words = n * V;
        const size_t used = t->used;
        const float *before = r.logits + l * words, *after = before + words;
        double *move = numbers(t, words), *row = numbers(t, n), *column = numbers(t, V);
        int64_t *rows = take(t, (size_t)n * sizeof *rows),
                *columns = take(t, (size_t)n * sizeof *columns);
        const ota_gauge_arrays arrays = {
            .row_shift = row, .column_shift = column, .cycle_rows = rows, .cycle_columns = columns};
        ota_gauge_result g;
        if (ota_gauge(
                &(ota_gauge_matrix){
                    .a = after, .b = before, .type = OTA_F32, .rows = n, .columns = V},
                NULL, &arrays, &g, NULL, NULL) != OTA_OK) {
            most = NAN;
            break;
        }
        double residual = 0.0, walk = 0.0;
        for (int64_t k = 0; k < words; k++) {
            move[k] = (double)after[k] - (double)before[k];
            residual = worse(residual, fabs(move[k] - row[k / V] - column[k % V]));
        }
        for (int64_t k = 0; k < g.cycle_length; k++) {
            const int64_t next = rows[(k + 1) % g.cycle_length];
            walk += move[rows[k] * V + columns[k]] - move[next * V + columns[k]];
        }
        walk /= 2.0 * (double)g.cycle_length;
        const double reported = seen_number(t, g.residual);
        most = worse(most, fabs(reported - residual) / residual);
        most = worse(most, fabs(reported - walk) / residual);
        t->used = used;
    }
    return most;
}

/* Steps down, and later-above-earlier pairs less the reverse, of R_l over l: off by. */
static double residual_trend(trial *t) {
    checkpoint *c = statement_checkpoint(t);
    lens_run r;
    double residuals[LAYERS_MOST], off = NAN;
    ota_trend trend;
    if (c == NULL) return NAN;
    if (open_lens(t, c, &r) && residuals_of(&r, residuals) &&
        ota_trend_of(residuals, r.layers, &trend, NULL, NULL) == OTA_OK) {
        double decreases = 0.0, score = 0.0;
        for (int64_t l = 1; l < r.layers; l++) {
            decreases += residuals[l] < residuals[l - 1];
            for (int64_t k = 0; k < l; k++)
                score += (residuals[l] > residuals[k]) - (residuals[l] < residuals[k]);
        }
        off = fabs(seen_number(t, (double)trend.decreases) - decreases);
        off = worse(off, fabs((double)trend.score - score));
    }
    return off;
}

/* ---- training dynamics ---- */

enum { TABLE = RANGES_MOST + 3 + 3 };

/* Numbers of tables 1, 3 and 4 of one checkpoint, by the library and by loops. */
static bool tables_of(trial *t, const lens_run *r, double tv, double *library, double *loops) {
    double x[LAYERS_MOST], mean = 0.0, square = 0.0;
    int64_t first, last;
    ota_summary summary;
    ota_event_summary events;
    event_table e;
    if (!residuals_of(r, x)) return false;
    for (int range = 0; range < RANGES_MOST && ota_depth_range(range, r->layers, &first, &last);
         range++) {
        ota_figure figure;
        if (ota_figure_of(x + first - 1, last - first + 1, 1, 10, 1, &figure, NULL, NULL) != OTA_OK)
            return false;
        library[range] = figure.mean;
        loops[range] = sum_of(x + first - 1, last - first + 1) / (double)(last - first + 1);
    }
    if (ota_summary_of(x, r->layers, &summary, NULL, NULL) != OTA_OK) return false;
    if (ota_events_of(events_of(t, r, 1.0, tv), r->layers, r->count, NULL, NULL, &events, NULL,
                      NULL) != OTA_OK)
        return false;
    count_events(r, 1.0, tv, &e);
    mean = sum_of(x, r->layers) / (double)r->layers;
    for (int64_t l = 0; l < r->layers; l++) square += (x[l] - mean) * (x[l] - mean);
    qsort(x, (size_t)r->layers, sizeof *x, ascending);
    const double at = 0.95 * (double)(r->layers - 1);
    const int64_t k = (int64_t)at < r->layers - 1 ? (int64_t)at : r->layers - 2;
    const double ours[6] = {summary.mean,
                            summary.deviation,
                            summary.p95,
                            (double)events.events,
                            (double)events.positions_hit,
                            (double)events.longest_run};
    const double theirs[6] = {mean,
                              sqrt(square / (double)(r->layers - 1)),
                              x[k] + (at - (double)k) * (x[k + 1] - x[k]),
                              e.events,
                              e.positions,
                              e.longest};
    memcpy(library + RANGES_MOST, ours, sizeof ours);
    memcpy(loops + RANGES_MOST, theirs, sizeof theirs);
    return true;
}

/* Windows [count][c->count] of the demo's text: a token is the place of its byte among the bytes that occur. */
static int64_t *text_windows(trial *t, const checkpoint *c, int64_t count) {
    size_t size = 0;
    const char *text = t->host->file_of("demo/paragraph.txt", &size);
    int64_t place[256] = {0}, known = 0, *ids = take(t, (size_t)(count * c->count) * sizeof *ids);
    for (size_t k = 0; k < size; k++) place[(unsigned char)text[k]] = 1;
    for (int byte = 0; byte < 256; byte++) {
        known += place[byte];
        place[byte] = known - 1;
    }
    for (int64_t w = 0; w < count; w++) {
        const int64_t first = below(t, (int64_t)size - c->count);
        for (int64_t k = 0; k < c->count; k++)
            ids[w * c->count + k] = place[(unsigned char)text[first + k]] % c->facts.vocabulary;
    }
    return ids;
}

/* The mean of the tokens' -log p of their next one, by loops over logits z. */
static double nll_by(const checkpoint *c, const double *z) {
    const int64_t n = c->count, V = c->facts.vocabulary;
    double sum = 0.0;
    for (int64_t i = 0; i + 1 < n; i++)
        sum += log_sum_exp(z + i * V, V, 1.0) - z[i * V + c->ids[i + 1]];
    return sum / (double)(n - 1);
}

/* Mean nll of the windows by the library; c->ids is the first of them again afterwards. */
static double nll_of(trial *t, checkpoint *c, int64_t *ids, int64_t windows) {
    const int64_t n = c->count, V = c->facts.vocabulary;
    float *z = take(t, (size_t)(n * V) * sizeof *z);
    double sum = 0.0;
    for (int64_t w = 0; w < windows; w++) {
        c->ids = ids + w * n;
        if (!statement_run_checkpoint(t, c) ||
            ota_session_logits(c->session, c->final, n, 0, z, NULL) != OTA_OK)
            sum = NAN;
        sum += nll_by(c, statement_widened(t, z, n * V)) / (double)windows;
    }
    c->ids = ids;
    return sum;
}

typedef struct training_run {
    double tables[CHECKPOINTS][TABLE], nll[CHECKPOINTS];
} training_run;

/* Five checkpoints of one training: the weights as they are, and four times a few steps further down the gradient on
 * windows of the demo's text, shorter ones as it goes. Thresholds are those of the first. The largest difference of a
 * table from the loops. A named model may be large, and is trained: one short step on one window. */
static double tables_by_checkpoint(trial *t, training_run *run) {
    checkpoint *c = statement_checkpoint(t);
    const int64_t windows = t->model == NULL ? 2 : 1, steps = windows;
    const double rate = t->model == NULL ? 0.02 : 0.001;
    lens_run r;
    double most = 0.0, tv = 0.0;
    if (c == NULL) return NAN;
    int64_t *ids = text_windows(t, c, windows);
    *run = (training_run){.nll = {0.0}};
    for (int k = 0; most == most && k < CHECKPOINTS; k++) {
        double loops[TABLE] = {0.0};
        const size_t used = t->used;
        bool ready = true;
        for (int64_t step = 0; step < steps && k > 0; step++)
            ready = ready && statement_descend(t, c, ids, windows, rate / k);
        ready = ready && (k == 0 || statement_reopen_checkpoint(t, c));
        if (ready) run->nll[k] = nll_of(t, c, ids, windows);
        ready = ready && open_lens(t, c, &r);
        if (ready && k == 0) tv = middle_tv(t, &r);
        if (ready && tables_of(t, &r, tv, run->tables[k], loops))
            most = worse(most, farthest(seen(t, run->tables[k], TABLE), loops, TABLE));
        else
            most = NAN;
        t->used = used;
    }
    return most;
}

static double tables_right(trial *t) {
    training_run run;
    return tables_by_checkpoint(t, &run);
}

/* Checkpoints whose table 1 no earlier one has, and at which the text is likelier than at the one before. */
static double tables_of_their_own(trial *t) {
    training_run run;
    double own = 0.0;
    /* The fault is for the count below. */
    t->planted = true;
    const double error = tables_by_checkpoint(t, &run);
    if (error != error) return NAN;
    for (int k = 0; k < CHECKPOINTS; k++) {
        bool known = run.tables[k][0] == 0.0 || (k > 0 && !(run.nll[k] < run.nll[k - 1]));
        for (int before = 0; before < k; before++)
            known |= run.tables[k][0] == run.tables[before][0];
        own += !known;
    }
    return seen_too(t, own);
}

/* ---- attention temperature ---- */

/* A run at the session's temperature against the formula at it: states, relative, and nll. */
static double heated_run(trial *t, checkpoint *c, const lens_run *r) {
    const int64_t n = c->count, V = r->vocabulary, size = n * c->facts.width;
    double *h = numbers(t, (r->layers + 1) * size), *final = numbers(t, size), most = 0.0;
    double *z = numbers(t, n * V);
    float *ours = take(t, (size_t)(n * V) * sizeof *ours);
    statement_gpt2_formula(t, c, c->ids, n, NULL, h, final);
    statement_logits_formula(c, final, n, z);
    for (int64_t l = 0; l <= r->layers; l++) {
        double *states = seen(t, statement_widened(t, c->states + l * size, size), size);
        most = worse(most, statement_relative(states, h + l * size, size));
    }
    if (ota_session_logits(c->session, c->final, n, 0, ours, NULL) != OTA_OK) return NAN;
    const double nll = nll_by(c, statement_widened(t, ours, n * V));
    return worse(most, fabs(nll - nll_by(c, z)) / (1.0 + spread_of(z, n * V)));
}

/* Saturated transitions, their share and mean TV by the library less those by loops over the same logits. */
static double heated_tables(trial *t, const lens_run *r, double tail, double tv) {
    const int64_t moves = r->layers * r->count;
    double apart = 0.0, drift = 0.0;
    ota_event_summary summary;
    event_table e;
    bool sure;
    count_events(r, tail, tv, &e);
    if (ota_events_of(events_of(t, r, tail, tv), r->layers, r->count, NULL, NULL, &summary, NULL,
                      NULL) != OTA_OK)
        return NAN;
    for (int64_t k = 0; k < moves; k++) {
        drift += r->transitions[k].tv;
        apart += total_variation(r, k / r->count, k % r->count, tail, &sure);
    }
    return fabs((double)summary.events - e.events) + fabs(drift - apart) / (double)moves;
}

/* The five temperatures of the statement; the share of events at the highest and at the lowest is what it is. */
static double heated_runs(trial *t) {
    static const double temperatures[] = {1.0, 0.5, 0.7, 1.4, 2.0};
    checkpoint *c = statement_checkpoint(t);
    lens_run r;
    double most = 0.0, tv = 0.0;
    if (c == NULL) return NAN;
    for (int k = 0; most == most && k < 5; k++) {
        const size_t used = t->used;
        const bool ready = statement_heat_checkpoint(c, temperatures[k]) && open_lens(t, c, &r);
        if (ready && k == 0) tv = middle_tv(t, &r);
        most = ready ? worse(most, heated_run(t, c, &r)) : (double)NAN;
        if (ready) most = worse(most, heated_tables(t, &r, 1.0, tv));
        t->used = used;
    }
    return most;
}

static const statement_check table[] = {
    AT_MOST("TOT-88", "lengths of runs of events in depth, by loops over the logits: off by",
            run_lengths, 0.0),
    AT_MOST("TOT-88", "the same ids again, on two threads: tails and TV with other bits",
            same_events, 0.0),
    AT_MOST("TOT-91", "R_l between its shifts' residual and its walk's mean, relative",
            residuals_certified, 1e-12),
    AT_MOST("TOT-91", "decreases of R_l over depth and Mann-Kendall's score by loops: off by",
            residual_trend, 0.0),
};
MODEL_CHECK_GROUP(statement_checks_layers_of_model, table, ANY_MODEL);

static const statement_check training_rows[] = {
    AT_MOST("TOT-35", "runs at temperature .5 to 2: states, nll by f64 loops, events, TV by loops",
            heated_runs, 1e-5),
    AT_MOST("TOT-120", "tables 1, 3, 4 of five checkpoints of one training, by loops", tables_right,
            1e-12),
    AT_LEAST("TOT-120", "checkpoints with a table 1 of their own and a smaller nll than the last",
             tables_of_their_own, CHECKPOINTS),
};
MODEL_CHECK_GROUP(statement_checks_training, training_rows, GPT2_MODEL);
