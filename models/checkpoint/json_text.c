/* Text to a JSON tree: see json_text.h. jansson drops a letter of a string that its buffer has no room for and goes on,
 * and its next number sets errno to 0. So it gets one letter at a time, and errno is looked at before each: a refused
 * allocation ends the text. What is refused behind the last letter that it took makes it return NULL at once. */
#include "json_text.h"

#include "base/system.h"

#include <errno.h>

typedef struct letters {
    const char *begin, *at, *end;
    ota_ending *ending;
    bool no_memory;
} letters;

/* Letters between two looks, and how many times as fast as the slowest steps they are. */
enum { LETTERS = 1 << 12, LETTERS_SPEED = 4 };

static size_t next_letter(void *buffer, size_t room, void *data) {
    letters *left = data;
    left->no_memory |= errno == ENOMEM;
    if (left->no_memory || left->at == left->end || room == 0) return 0;
    if ((left->at - left->begin) % LETTERS == 0 &&
        ota_look(left->ending, LETTERS / LETTERS_SPEED, NULL) != OTA_OK)
        return 0;
    *(char *)buffer = *left->at++;
    return 1;
}

json_t *ota_json_text(const char *text, size_t size, size_t flags, ota_ending *ending,
                      json_error_t *cause, bool *no_memory) {
    const int before = errno;
    letters left = {.begin = text, .at = text, .end = text + size, .ending = ending};
    /* jansson reads and writes numbers with the locale's point. Where that is two bytes it ends the process. */
    const ota_c_locale locale = ota_c_locale_enter();
    errno = 0;
    json_t *tree = json_load_callback(next_letter, &left, flags, cause);
    *no_memory = left.no_memory || (tree == NULL && errno == ENOMEM);
    if (*no_memory) {
        json_decref(tree);
        tree = NULL;
    }
    ota_c_locale_leave(locale);
    errno = before;
    return tree;
}

char *ota_json_line(const json_t *value) {
    const ota_c_locale locale = ota_c_locale_enter();
    char *line = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    ota_c_locale_leave(locale);
    return line;
}
