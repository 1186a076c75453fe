/* Saturation events of transitions [layers][positions]: when, for how long, at which tokens.
 *
 *     event      1 - max b < tail,  1 - max a < tail,  TV(a, b) < tv                       [TOT-29]
 *     run        neighbouring transitions of one position that are all events              [TOT-88]
 *     phi        (n n11 - n1. n.1) / sqrt(n1. (n - n1.) n.1 (n - n.1))                     [TOT-87]
 */
#include "analysis/analysis.h"
#include "base/integers.h"

int ota_transition_saturated(const ota_transition *transition, double tail, double tv) {
    return transition->tail_before < tail && transition->tail_after < tail && transition->tv < tv;
}

static void count_run(int64_t length, int64_t *run_lengths, ota_event_summary *s) {
    if (length == 0) return;
    s->runs++;
    s->longest_run = ota_int_max(length, s->longest_run);
    if (run_lengths != NULL) run_lengths[length]++;
}

static void count_layer(const uint8_t *events, int64_t layer, int64_t transitions,
                        int64_t positions, int64_t *by_layer, int64_t *most, ota_event_summary *s,
                        const analysis_call *call) {
    const int64_t edge = ota_int_ceil_div(transitions, 10);
    int64_t here = 0;
    for (int64_t i = 0; i < positions && analysis_goes_on(call, i); i++)
        here += events[layer * positions + i] != 0;
    if (by_layer != NULL) by_layer[layer] = here;
    if (here == 0) return;
    s->events += here;
    if (s->first_layer == 0) s->first_layer = layer + 1;
    s->last_layer = layer + 1;
    if (here > *most) {
        *most = here;
        s->peak_layer = layer + 1;
    }
    if (layer < edge || layer >= transitions - edge) s->outer += here;
}

ota_status ota_events_of(const uint8_t *events, int64_t transitions, int64_t positions,
                         int64_t *by_layer, int64_t *run_lengths, ota_event_summary *summary,
                         const ota_analysis_options *options, ota_error *error) {
    const analysis_call call = ota_analysis_begin(options, error);
    ota_status status = analysis_check_size(transitions, 1, "transitions", &call);
    if (status == OTA_OK) status = analysis_check_size(positions, 1, "positions", &call);
    if (status != OTA_OK) return status;
    memset(summary, 0, sizeof *summary);
    int64_t most = 0;
    for (int64_t l = 0; l < transitions && ota_analysis_goes_on(&call); l++)
        count_layer(events, l, transitions, positions, by_layer, &most, summary, &call);
    for (int64_t k = 0; k <= transitions && run_lengths != NULL; k++) run_lengths[k] = 0;
    for (int64_t i = 0; i < positions && ota_analysis_goes_on(&call); i++) {
        int64_t length = 0, hits = 0;
        for (int64_t l = 0; l < transitions && analysis_goes_on(&call, l); l++) {
            const bool event = events[l * positions + i] != 0;
            hits += event;
            if (!event) count_run(length, run_lengths, summary);
            length = event ? length + 1 : 0;
        }
        count_run(length, run_lengths, summary);
        summary->positions_hit += hits > 0;
    }
    summary->frequency = (double)summary->events / ((double)transitions * (double)positions);
    summary->position_frequency = (double)summary->positions_hit / (double)positions;
    summary->mean_run =
        summary->runs > 0 ? (double)summary->events / (double)summary->runs : (double)NAN;
    return ota_analysis_end(OTA_OK, &call);
}

ota_status ota_phi_of(const uint8_t *a, const uint8_t *b, int64_t count, double *phi,
                      const ota_analysis_options *options, ota_error *error) {
    const analysis_call call = ota_analysis_begin(options, error);
    ota_status status = analysis_check_size(count, 1, "count", &call);
    if (status != OTA_OK) return status;
    double both = 0.0, first = 0.0, second = 0.0;
    for (int64_t i = 0; i < count && analysis_goes_on(&call, i); i++) {
        first += a[i] != 0;
        second += b[i] != 0;
        both += a[i] != 0 && b[i] != 0;
    }
    const double n = (double)count;
    const double spread = sqrt(first * (n - first)) * sqrt(second * (n - second));
    *phi = spread > 0.0 ? (n * both - first * second) / spread : (double)NAN;
    return ota_analysis_end(OTA_OK, &call);
}

/* ---- token classes --------------------------------------------------------------------------- */

/* One character of UTF-8, or one byte of what is none. */
static uint32_t next_character(const unsigned char *text, int64_t length, int64_t *at) {
    const unsigned char lead = text[*at];
    const int more = lead >= 0xf0 && lead < 0xf8   ? 3
                     : lead >= 0xe0 && lead < 0xf0 ? 2
                     : lead >= 0xc0 && lead < 0xe0 ? 1
                                                   : 0;
    uint32_t character = more == 0 ? lead : lead & (0x3fU >> more);
    if (length - *at <= more) {
        *at = length;
        return lead;
    }
    for (int k = 1; k <= more; k++) {
        if ((text[*at + k] & 0xc0) != 0x80) {
            *at += 1;
            return lead;
        }
        character = character << 6 | (text[*at + k] & 0x3fU);
    }
    *at += more + 1;
    return character;
}

static bool is_space(uint32_t c) {
    return (c >= 9 && c <= 13) || c == ' ' || c == 0xa0 || (c >= 0x2000 && c <= 0x200b) ||
           c == 0x3000;
}

static bool is_mark(uint32_t c) {
    const bool ascii = (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') ||
                       (c >= '{' && c <= '~');
    return ascii || (c >= 0x2010 && c <= 0x205e) || (c >= 0x3001 && c <= 0x3003);
}

static bool ends_sentence(uint32_t c) {
    return c == '.' || c == '!' || c == '?' || c == 0x2026 || c == 0x3002;
}

int ota_token_class(const char *text, int64_t length) {
    const unsigned char *const bytes = (const unsigned char *)text;
    bool seen = false, leading = false, letters = false, digits = false, end = false, mark = true;
    for (int64_t at = 0; at < length;) {
        const uint32_t c = next_character(bytes, length, &at);
        if (is_space(c)) {
            leading = leading || !seen;
            continue;
        }
        seen = true;
        mark = mark && is_mark(c);
        end = end || ends_sentence(c);
        digits = digits || (c >= '0' && c <= '9');
        letters = letters || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
                  (c > 0x7f && !is_mark(c));
    }
    if (!seen) return OTA_TOKEN_SPACE;
    return (leading ? OTA_TOKEN_WORD_START : 0) | (letters ? OTA_TOKEN_LETTERS : 0) |
           (digits ? OTA_TOKEN_DIGITS : 0) | (mark ? OTA_TOKEN_PUNCTUATION : 0) |
           (mark && end ? OTA_TOKEN_SENTENCE_END : 0);
}
