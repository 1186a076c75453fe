/* libFuzzer on the lists of a tokenizer: what stands before the first NUL is vocab.json, what follows it
 * merges.txt; without a NUL the input is vocab.txt. See fuzz_tokenizer.h for what must hold. */
#define _POSIX_C_SOURCE 200809L
#include "fuzz_tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    static const char *const names[] = {"vocab.json", "merges.txt", "vocab.txt"};
    char folder[128], path[192];
    fuzz_folder(folder);
    const uint8_t *middle = size == 0 ? NULL : memchr(bytes, 0, size);
    if (middle != NULL) {
        const size_t first = (size_t)(middle - bytes);
        fuzz_put(folder, names[0], bytes, first);
        fuzz_put(folder, names[1], middle + 1, size - first - 1);
    } else {
        fuzz_put(folder, names[2], bytes, size);
    }
    fuzz_open(folder, bytes, size);
    for (int k = 0; k < 3; k++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[k]);
        (void)unlink(path);
    }
    (void)rmdir(folder);
    return 0;
}
