/* Did you mean: the nearest word by the number of single-letter insertions, deletions, changes and
 * swaps of neighbours (optimal string alignment). */
#include <string.h>

#include "program.h"

enum { LONGEST = 48 };

static int least(int a, int b) { return a < b ? a : b; }

static int distance(const char *a, size_t length_a, const char *b, size_t length_b) {
    int rows[3][LONGEST + 1]; /* the two rows above are needed for the swap */
    for (size_t j = 0; j <= length_b; j++) rows[0][j] = (int)j;
    for (size_t i = 1; i <= length_a; i++) {
        int *row = rows[i % 3];
        const int *above = rows[(i + 2) % 3];
        const int *second = rows[(i + 1) % 3];
        row[0] = (int)i;
        for (size_t j = 1; j <= length_b; j++) {
            int best = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
            best = least(best, 1 + least(above[j], row[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
                best = least(best, second[j - 2] + 1);
            }
            row[j] = best;
        }
    }
    return rows[length_a % 3][length_b];
}

/* Letters left out only, the first one kept ("temp", "cols"): one slip, not many. */
static bool is_shortened(const char *text, size_t length, const char *word) {
    size_t found = 0;
    if (text[0] != word[0]) return false;
    for (; *word != '\0' && found < length; word++) found += *word == text[found] ? 1 : 0;
    return found == length;
}

const char *cli_nearest(const char *text, size_t length, const char *const *words, int count) {
    if (length == 0 || length > LONGEST) return NULL;
    /* A third of the letters may be wrong: more would suggest unrelated words. */
    int best = (int)(length + 2) / 3 + 1;
    const char *nearest = NULL;
    for (int k = 0; k < count; k++) {
        if (words[k] == NULL || strlen(words[k]) > LONGEST) continue;
        const size_t word_length = strlen(words[k]);
        int away = distance(text, length, words[k], word_length);
        if (length >= 3 && word_length > length && is_shortened(text, length, words[k])) {
            away = least(away, 1);
        }
        if (away < best) {
            best = away;
            nearest = words[k];
        }
    }
    return nearest;
}
