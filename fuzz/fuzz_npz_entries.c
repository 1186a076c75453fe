/* libFuzzer on what stands inside an .npz: the input is cut into entries, each a name and bytes, which are put into an
 * archive whose headers and check sums are right, so that the readers behind them are reached. The first byte of an entry
 * says how long its name is; a true .npy header comes in front where that byte is odd. */
#define _POSIX_C_SOURCE 200809L
#include "fuzz_bytes.h"
#include "fuzz_files.h"

#include <zlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

enum { ARCHIVE = 1 << 16, ENTRIES = 6 };

typedef struct archive {
    uint8_t bytes[ARCHIVE];
    size_t size;
} archive;

static void put_number(archive *a, uint64_t value, int count) {
    for (int k = 0; k < count; k++) a->bytes[a->size++] = k < 8 ? (uint8_t)(value >> (8 * k)) : 0;
}

static void put_bytes(archive *a, const void *data, size_t size) {
    if (size > 0) memcpy(a->bytes + a->size, data, size);
    a->size += size;
}

/* A local header (`offset` NULL) or a central one; entries are stored. */
static void put_header(archive *a, const char *name, uint32_t sum, size_t size,
                       const size_t *offset) {
    put_number(a, offset == NULL ? 0x04034B50U : 0x02014B50U, 4);
    if (offset != NULL) put_number(a, 20, 2);
    put_number(a, 20, 2);
    put_number(a, 0, 8); /* flags, method, time, date */
    put_number(a, sum, 4);
    put_number(a, (uint32_t)size, 4);
    put_number(a, (uint32_t)size, 4);
    put_number(a, (uint32_t)strlen(name), 2);
    put_number(a, 0, 2);
    if (offset != NULL) {
        put_number(a, 0, 10);
        put_number(a, (uint32_t)*offset, 4);
    }
    put_bytes(a, name, strlen(name));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    static archive local, central;
    static const char numpy[] = "\x93NUMPY\x01\x00\x36\x00"
                                "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}";
    fuzz_bytes b = {bytes, size};
    if (size > 8192) return 0;
    local.size = central.size = 0;
    int count = 0;
    for (; count < ENTRIES && b.left > 0; count++) {
        static uint8_t data[ARCHIVE];
        char name[40];
        size_t used = 0;
        const unsigned kind = fuzz_next(&b);
        const unsigned letters = kind / 2 % 16;
        for (unsigned k = 0; k < letters; k++) name[k] = (char)(1 + fuzz_below(&b, 255));
        (void)snprintf(name + letters, sizeof name - letters, "%s", kind % 4 < 2 ? ".npy" : "");
        if (kind % 2 == 1) {
            memcpy(data, numpy, sizeof numpy - 1);
            used = sizeof numpy - 1;
            data[used++] = '\n';
        }
        size_t most = kind >= 64 ? 8U * fuzz_next(&b) : b.left;
        if (most > b.left) most = b.left;
        memcpy(data + used, b.at, most);
        used += most;
        b.at += most;
        b.left -= most;
        const size_t offset = local.size;
        const uint32_t sum = (uint32_t)crc32(0, data, (uInt)used);
        put_header(&local, name, sum, used, NULL);
        put_bytes(&local, data, used);
        put_header(&central, name, sum, used, &offset);
    }
    const size_t begin = local.size;
    put_bytes(&local, central.bytes, central.size);
    put_number(&local, 0x06054B50U, 4);
    put_number(&local, 0, 4);
    put_number(&local, (uint32_t)count, 2);
    put_number(&local, (uint32_t)count, 2);
    put_number(&local, (uint32_t)central.size, 4);
    put_number(&local, (uint32_t)begin, 4);
    put_number(&local, 0, 2);
    fuzz_file(".npz", local.bytes, local.size);
    return 0;
}
