/* libFuzzer on hostile .gguf files: see fuzz_model.h for what must hold. Start it with a folder of a
 * few small true files. An input with the first word of the format twice is a model in two parts, the
 * second from there on. */
#define _GNU_SOURCE
#include "fuzz_model.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    const uint8_t *second = size > 4 ? memmem(bytes + 4, size - 4, "GGUF", 4) : NULL;
    const size_t first = second != NULL ? (size_t)(second - bytes) : size;
    char path[128], other[128];
    snprintf(path, sizeof path, "/dev/shm/otattn-fuzz-%ld%s.gguf", (long)getpid(),
             second != NULL ? "-00001-of-00002" : "");
    snprintf(other, sizeof other, "/dev/shm/otattn-fuzz-%ld-00002-of-00002.gguf", (long)getpid());
    fuzz_write(path, bytes, first);
    if (second != NULL) fuzz_write(other, second, size - first);
    fuzz_open(path);
    unlink(path);
    if (second != NULL) unlink(other);
    return 0;
}
