/* Numbers as a page's sentences tell them: three digits, thousands apart, a mean with its interval behind it.
 *
 *     0.954 [0.945, 0.961]     93 % [91, 95]     24,576 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "run_parts.h"

enum { GROUP = 3 };

void cli_run_count(double value, char word[RUN_WORD]) {
    char digits[RUN_WORD];
    (void)snprintf(digits, sizeof digits, "%.0f", value);
    const size_t sign = *digits == '-', length = strlen(digits);
    size_t to = 0;
    for (size_t at = 0; at < length && to + 2 < RUN_WORD; at++) {
        if (at > sign && (length - at) % GROUP == 0) word[to++] = ',';
        word[to++] = digits[at];
    }
    word[to] = '\0';
}

void cli_run_counted(double value, const char *one, const char *many, char word[RUN_WORD]) {
    char number[RUN_WORD];
    cli_run_count(value, number);
    (void)snprintf(word, RUN_WORD, "%.24s %.32s", number, value >= 1 && value <= 1 ? one : many);
}

void cli_run_value(double value, char word[RUN_WORD]) {
    enum { GROUPED = 1000, WHOLE = 1000000 };
    if (!isfinite(value))
        (void)snprintf(word, RUN_WORD, "-");
    else if (fabs(value) >= (double)GROUPED && fabs(value) < (double)WHOLE)
        cli_run_count(value, word);
    else
        (void)snprintf(word, RUN_WORD, "%#.3g", value);
    /* What stands there for its digits alone: 768. */
    const size_t length = strlen(word);
    if (length > 0 && word[length - 1] == '.') word[length - 1] = '\0';
    if (value >= 0 && value <= 0) (void)snprintf(word, RUN_WORD, "0");
}

void cli_run_share(double share, char word[RUN_WORD]) {
    const double percent = 100 * share;
    if (percent > 0 && percent < 1)
        (void)snprintf(word, RUN_WORD, "%.2g %%", percent);
    else
        (void)snprintf(word, RUN_WORD, "%.0f %%", percent);
}

void cli_run_between(const double numbers[3], bool share, char word[RUN_WORD]) {
    char ends[3][RUN_WORD];
    for (int index = 0; index < 3; index++) {
        if (share)
            cli_run_share(numbers[index], ends[index]);
        else
            cli_run_value(numbers[index], ends[index]);
    }
    /* The percent sign is said once. */
    if (share)
        for (int index = 1; index < 3; index++) ends[index][strcspn(ends[index], " ")] = '\0';
    if (isfinite(numbers[1]) && isfinite(numbers[2]))
        (void)snprintf(word, RUN_WORD, "%.20s [%.18s, %.18s]", ends[0], ends[1], ends[2]);
    else
        (void)snprintf(word, RUN_WORD, "%.20s", ends[0]);
}

void cli_run_mean(const json_t *figure, bool share, char word[RUN_WORD]) {
    const double numbers[3] = {cli_run_number(figure, "mean"), cli_run_interval(figure, 0),
                               cli_run_interval(figure, 1)};
    cli_run_between(numbers, share, word);
}

void cli_run_layer_name(int layer, char word[RUN_WORD]) {
    if (layer < 0)
        (void)snprintf(word, RUN_WORD, "the embedding");
    else
        (void)snprintf(word, RUN_WORD, "layer %d", layer);
}

void cli_run_layer_label(int64_t layer, char word[RUN_WORD]) {
    if (layer < 0)
        (void)snprintf(word, RUN_WORD, "emb");
    else
        (void)snprintf(word, RUN_WORD, "%" PRId64, layer);
}
