/* bcryptprimitives.dll, which Wine 8 lacks: Rust's library has its random numbers from there, and safetensors is of
 * Rust. */
#include <stddef.h>

unsigned char SystemFunction036(void *bytes, unsigned long count); /* of advapi32.dll */

__declspec(dllexport) int ProcessPrng(unsigned char *bytes, size_t count);

int ProcessPrng(unsigned char *bytes, size_t count) {
    return SystemFunction036(bytes, (unsigned long)count);
}
