/* libFuzzer on hostile .safetensors files: see fuzz_files.h for what must hold. Start it with a
 * folder of a few small true files. */
#define _POSIX_C_SOURCE 200809L
#include "fuzz_files.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    fuzz_file(".safetensors", bytes, size);
    return 0;
}
