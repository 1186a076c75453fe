/* libFuzzer on hostile .gguf files: see fuzz_model.h for what must hold. Start it with a folder of a
 * few small true files. */
#define _POSIX_C_SOURCE 200809L
#include "fuzz_model.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    char path[128];
    snprintf(path, sizeof path, "/dev/shm/otattn-fuzz-%ld.gguf", (long)getpid());
    fuzz_write(path, bytes, size);
    fuzz_open(path);
    unlink(path);
    return 0;
}
