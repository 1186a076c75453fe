/* test_events.c: saturation events on drawn matrices [layers][positions] against their definitions, phi against
 * Pearson's correlation, token classes of texts that are known. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "analysis_random.h"
#include "groups.h"
#include "otattn_analysis.h"
#include "spec.h"

enum { MOST_LAYERS = 23, MOST_POSITIONS = 9 };

typedef struct drawn {
    int layers, positions;
    uint8_t events[MOST_LAYERS * MOST_POSITIONS];
} drawn;

static bool at(const drawn *d, int layer, int position) {
    return d->events[layer * d->positions + position] != 0;
}

/* Is [first, last] a stretch of events that no neighbour lengthens? */
static bool is_run(const drawn *d, int position, int first, int last) {
    for (int l = first; l <= last; l++) {
        if (!at(d, l, position)) return false;
    }
    return (first == 0 || !at(d, first - 1, position)) &&
           (last == d->layers - 1 || !at(d, last + 1, position));
}

static void judge(const drawn *d) {
    int64_t by_layer[MOST_LAYERS], lengths[MOST_LAYERS + 1], runs[MOST_LAYERS + 1] = {0};
    ota_event_summary s, bare;
    assert_int_equal(
        ota_events_of(d->events, d->layers, d->positions, by_layer, lengths, &s, NULL, NULL),
        OTA_OK);
    assert_int_equal(
        ota_events_of(d->events, d->layers, d->positions, NULL, NULL, &bare, NULL, NULL), OTA_OK);
    assert_true(bare.events == s.events && bare.runs == s.runs &&
                bare.longest_run == s.longest_run && bare.peak_layer == s.peak_layer);
    int64_t events = 0, hit = 0, outer = 0, first = 0, last = 0, peak = 0, count = 0, longest = 0;
    const int edge = (int)ceil(d->layers / 10.0);
    for (int l = 0; l < d->layers; l++) {
        int64_t here = 0;
        for (int i = 0; i < d->positions; i++) here += at(d, l, i);
        assert_int_equal(by_layer[l], here);
        events += here;
        if (l < edge || l >= d->layers - edge) outer += here;
        if (here > 0 && first == 0) first = l + 1;
        if (here > 0) last = l + 1;
        if (here > (peak > 0 ? by_layer[peak - 1] : 0)) peak = l + 1;
    }
    for (int i = 0; i < d->positions; i++) {
        bool any = false;
        for (int from = 0; from < d->layers; from++) {
            any = any || at(d, from, i);
            for (int to = from; to < d->layers; to++) {
                if (!is_run(d, i, from, to)) continue;
                runs[to - from + 1]++;
                count++;
                if (to - from + 1 > longest) longest = to - from + 1;
            }
        }
        hit += any;
    }
    for (int k = 0; k <= d->layers; k++) assert_int_equal(lengths[k], runs[k]);
    assert_int_equal(s.events, events);
    assert_int_equal(s.positions_hit, hit);
    assert_int_equal(s.outer, outer);
    assert_int_equal(s.first_layer, first);
    assert_int_equal(s.last_layer, last);
    assert_int_equal(s.peak_layer, peak);
    assert_int_equal(s.runs, count);
    assert_int_equal(s.longest_run, longest);
    const double all = (double)(d->layers * d->positions);
    spec_check("TOT-87", fabs(s.frequency * all - (double)events), 1e-12);
    spec_check("TOT-87", fabs(s.position_frequency * d->positions - (double)hit), 1e-12);
    if (count == 0)
        assert_true(isnan(s.mean_run));
    else
        spec_check("TOT-88", fabs(s.mean_run * (double)count - (double)events), 1e-10);
}

static void events_are_counted(void **unused) {
    (void)unused;
    uint64_t state = 31;
    for (int trial = 0; trial < 400; trial++) {
        drawn d = {.layers = whole(&state, 1, MOST_LAYERS),
                   .positions = whole(&state, 1, MOST_POSITIONS)};
        const double share = trial % 20 == 0 ? 0.0 : trial % 20 == 1 ? 1.0 : uniform(&state);
        for (int k = 0; k < d.layers * d.positions; k++)
            d.events[k] = uniform(&state) < share ? (uint8_t)whole(&state, 1, 255) : 0;
        judge(&d);
    }
}

static void all_three_must_be_small(void **unused) {
    (void)unused;
    const ota_transition small = {.tail_before = 0.5e-4, .tail_after = 0.5e-4, .tv = 0.5e-10};
    assert_int_equal(ota_transition_saturated(&small, 1e-4, 1e-10), 1);
    ota_transition one = small;
    one.tail_before = 1e-4;
    assert_int_equal(ota_transition_saturated(&one, 1e-4, 1e-10), 0);
    one = small;
    one.tail_after = 1e-4;
    assert_int_equal(ota_transition_saturated(&one, 1e-4, 1e-10), 0);
    one = small;
    one.tv = 1e-10;
    assert_int_equal(ota_transition_saturated(&one, 1e-4, 1e-10), 0);
}

static void phi_is_a_correlation(void **unused) {
    (void)unused;
    uint64_t state = 32;
    uint8_t a[60], b[60];
    for (int trial = 0; trial < 200; trial++) {
        const int count = whole(&state, 1, 60);
        const double share = uniform(&state), alike = uniform(&state);
        double mean_a = 0.0, mean_b = 0.0, aa = 0.0, bb = 0.0, ab = 0.0, phi;
        for (int i = 0; i < count; i++) {
            a[i] = uniform(&state) < share ? (uint8_t)whole(&state, 1, 255) : 0;
            b[i] = uniform(&state) < alike ? a[i] : (uint8_t)(uniform(&state) < 0.5);
            mean_a += (a[i] != 0) / (double)count;
            mean_b += (b[i] != 0) / (double)count;
        }
        for (int i = 0; i < count; i++) {
            const double x = (a[i] != 0) - mean_a, y = (b[i] != 0) - mean_b;
            aa += x * x;
            bb += y * y;
            ab += x * y;
        }
        assert_int_equal(ota_phi_of(a, b, count, &phi, NULL, NULL), OTA_OK);
        const bool varies = aa > 1e-9 && bb > 1e-9;
        assert_int_equal(isnan(phi), !varies);
        if (varies) spec_check("TOT-87", fabs(phi - ab / sqrt(aa * bb)), 1e-12);
    }
}

/* ---- token classes ----------------------------------------------------------------------------- */

enum {
    SPACE = OTA_TOKEN_SPACE,
    START = OTA_TOKEN_WORD_START,
    LETTERS = OTA_TOKEN_LETTERS,
    DIGITS = OTA_TOKEN_DIGITS,
    MARKS = OTA_TOKEN_PUNCTUATION,
    END = OTA_TOKEN_SENTENCE_END
};

static void classes_of_texts(void **unused) {
    (void)unused;
    static const struct {
        const char *text;
        int set;
    } table[] = {
        {"", SPACE},
        {" ", SPACE},
        {"\t\n\v\f\r\xc2\xa0\xe2\x80\x80\xe2\x80\x8b\xe3\x80\x80", SPACE},
        {"the", LETTERS},
        {" the", LETTERS | START},
        {"the ", LETTERS},
        {"a1", LETTERS | DIGITS},
        {"0", DIGITS},
        {" 9", DIGITS | START},
        {"A", LETTERS},
        {"Z", LETTERS},
        {"z", LETTERS},
        {".", MARKS | END},
        {" !", MARKS | END | START},
        {"?)", MARKS | END},
        {",", MARKS},
        {"/", MARKS},
        {":", MARKS},
        {"@", MARKS},
        {"[", MARKS},
        {"`", MARKS},
        {"{", MARKS},
        {"~", MARKS},
        {"\x7f", 0},
        {"\x08", 0},
        {"\x0e", 0},
        {"a.", LETTERS},
        {"3.5", DIGITS},
        /* an ellipsis, an ideographic comma and full stop, dashes at both ends of the block */
        {"\xe2\x80\xa6", MARKS | END},
        {"\xe3\x80\x81", MARKS},
        {"\xe3\x80\x82", MARKS | END},
        {"\xe3\x80\x83", MARKS},
        {"\xe3\x80\x84", LETTERS},
        {"\xe2\x80\x8f", LETTERS},
        {"\xe2\x80\x90", MARKS},
        {"\xe2\x81\x9e", MARKS},
        {"\xe2\x81\x9f", LETTERS},
        {"\xe2\x80\x8c", LETTERS},
        /* e with acute, an emoji, a snowman after a space */
        {"\xc3\xa9", LETTERS},
        {"\xf0\x9f\x98\x80", LETTERS},
        {" \xe2\x98\x83", LETTERS | START},
        /* Bytes that are no text count one by one; a character that is cut off is its first byte. */
        {"\x80.", LETTERS},
        {"\xe2.5", LETTERS | DIGITS},
        {"\xc3.", LETTERS},
        {"\xf0\x9f\x98", LETTERS},
        {"\xff", LETTERS},
        {"\xf8\x82\x80\x90", LETTERS},
        {"\xe0\xa0\x80", LETTERS},
    };
    for (size_t k = 0; k < sizeof table / sizeof table[0]; k++) {
        const int set = ota_token_class(table[k].text, (int64_t)strlen(table[k].text));
        if (set != table[k].set) print_error("'%s': %d\n", table[k].text, set);
        assert_int_equal(set, table[k].set);
    }
    /* Not a byte beyond the length is looked at. */
    assert_int_equal(ota_token_class("ab 1", 2), LETTERS);
    assert_int_equal(ota_token_class("\xc3\xa9", 1), LETTERS);
    assert_int_equal(ota_token_class("\xe2\x80\xa6", 2), LETTERS);
}

static void refusals(void **unused) {
    (void)unused;
    const uint8_t events[4] = {0, 1, 1, 0};
    ota_event_summary s;
    ota_error error;
    double phi;
    assert_int_equal(ota_events_of(events, 0, 4, NULL, NULL, &s, NULL, &error), OTA_EINVAL);
    assert_string_equal(error.field, "transitions");
    assert_int_equal(ota_events_of(events, 4, 0, NULL, NULL, &s, NULL, &error), OTA_EINVAL);
    assert_string_equal(error.field, "positions");
    assert_int_equal(ota_phi_of(events, events, 0, &phi, NULL, &error), OTA_EINVAL);
    assert_string_equal(error.field, "count");
}

TEST_FILE(test_events) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_are_counted),
        cmocka_unit_test(all_three_must_be_small),
        cmocka_unit_test(phi_is_a_correlation),
        cmocka_unit_test(classes_of_texts),
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
