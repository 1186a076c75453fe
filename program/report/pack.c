/* gzip (RFC 1952, no name, no time, so that equal bytes give equal text), then base64 (RFC 4648). */
#include "pack.h"

#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <zlib.h>

/* windowBits of zlib: the largest window, and 16 for a gzip header. */
enum { WINDOW = 15 + 16, MEMORY = 9 };

static unsigned char *compress_bytes(const unsigned char *bytes, size_t size, size_t *length) {
    z_stream stream = {0};
    if (size > UINT_MAX) return NULL;
    if (deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, WINDOW, MEMORY, Z_DEFAULT_STRATEGY) !=
        Z_OK)
        return NULL;
    const size_t room = deflateBound(&stream, (uLong)size);
    unsigned char *packed = room <= UINT_MAX ? malloc(room) : NULL;
    if (packed != NULL) {
        stream.next_in = (unsigned char *)(uintptr_t)bytes;
        stream.avail_in = (uInt)size;
        stream.next_out = packed;
        stream.avail_out = (uInt)room;
        if (deflate(&stream, Z_FINISH) != Z_STREAM_END) {
            free(packed);
            packed = NULL;
        }
    }
    *length = stream.total_out;
    (void)deflateEnd(&stream);
    return packed;
}

static char *encode(const unsigned char *bytes, size_t size, size_t *length) {
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    if (size > (SIZE_MAX - 1) / 4 * 3 - 3) return NULL;
    *length = (size + 2) / 3 * 4;
    char *text = malloc(*length + 1), *to = text;
    for (size_t at = 0; text != NULL && at < size; at += 3) {
        const size_t left = size - at;
        const uint32_t three = (uint32_t)bytes[at] << 16 |
                               (left > 1 ? (uint32_t)bytes[at + 1] << 8 : 0) |
                               (left > 2 ? (uint32_t)bytes[at + 2] : 0);
        *to++ = letters[three >> 18];
        *to++ = letters[three >> 12 & 63];
        *to++ = left > 1 ? letters[three >> 6 & 63] : '=';
        *to++ = left > 2 ? letters[three & 63] : '=';
    }
    if (text != NULL) *to = '\0';
    return text;
}

char *cli_pack(const unsigned char *bytes, size_t size, size_t *length) {
    size_t packed_size;
    unsigned char *packed = compress_bytes(bytes, size, &packed_size);
    char *text = packed == NULL ? NULL : encode(packed, packed_size, length);
    free(packed);
    return text;
}
