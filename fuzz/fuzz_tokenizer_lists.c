/* libFuzzer on the lists of a tokenizer and what lies beside them: parts of the input with a NUL between are
 * vocab.json and merges.txt where the first begins with {, else vocab.txt; then tokenizer_config.json,
 * special_tokens_map.json, added_tokens.json and config.json, none where a part is empty. An input that begins as a
 * message of pieces does is tokenizer.model, alone. See fuzz_tokenizer.h for what must hold. */
#define _POSIX_C_SOURCE 200809L
#include "fuzz_tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    static const char *const lists[] = {"vocab.json", "merges.txt", FUZZ_BESIDE}, *const lines[] = {
                                                                                      "vocab.txt",
                                                                                      FUZZ_BESIDE};
    static const char *const model[] = {"tokenizer.model"};
    char folder[128];
    fuzz_folder(folder);
    if (size > 0 && bytes[0] == '\n') {
        fuzz_put(folder, model[0], bytes, size);
        fuzz_open(folder, bytes, size);
        fuzz_remove(folder, model, 1);
        return 0;
    }
    const char *const *names = size > 0 && bytes[0] == '{' ? lists : lines;
    const size_t count = names == lists ? 6 : 5;
    fuzz_put_parts(folder, names, count, bytes, size);
    fuzz_open(folder, bytes, size);
    fuzz_remove(folder, names, count);
    return 0;
}
