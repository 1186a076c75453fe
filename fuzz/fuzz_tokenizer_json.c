/* libFuzzer on hostile tokenizer.json files, and behind a NUL each what lies beside them, as in
 * fuzz_tokenizer_lists.c. An input that begins with T is tekken.json, alone, behind that letter; its first @
 * stands for the 256 pieces of bytes. See fuzz_tokenizer.h for what must hold. */
#define _POSIX_C_SOURCE 200809L
#include "fuzz_tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

/* {"rank", "token_bytes"} of all bytes. */
static size_t put_bytes(char *to) {
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t used = 0;
    for (unsigned k = 0; k < 256; k++)
        used += (size_t)sprintf(to + used, "%s{\"rank\": %u, \"token_bytes\": \"%c%c==\"}",
                                k > 0 ? "," : "", k, letters[k >> 2], letters[(k & 3) << 4]);
    return used;
}

static void open_tekken(const char *folder, const uint8_t *bytes, size_t size) {
    enum { ROOM = 1 << 16 };
    static const char *const names[] = {"tekken.json"};
    static char text[ROOM];
    size_t used = 0;
    int expanded = 0;
    for (size_t k = 0; k < size && used < ROOM / 2; k++)
        if (bytes[k] == '@' && !expanded++)
            used += put_bytes(text + used);
        else
            text[used++] = (char)bytes[k];
    fuzz_put(folder, names[0], text, used);
    fuzz_open(folder, bytes, size);
    fuzz_remove(folder, names, 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    static const char *const names[] = {"tokenizer.json", FUZZ_BESIDE};
    char folder[128], path[192];
    fuzz_folder(folder);
    if (size > 0 && bytes[0] == 'T') {
        open_tekken(folder, bytes + 1, size - 1);
        return 0;
    }
    fuzz_put_parts(folder, names, 5, bytes, size);
    /* A file by itself, or with what lies beside it. */
    const int alone = size == 0 || memchr(bytes, 0, size) == NULL;
    snprintf(path, sizeof path, "%s%s", folder, alone ? "/tokenizer.json" : "");
    fuzz_open(path, bytes, size);
    fuzz_remove(folder, names, 5);
    return 0;
}
