/* SHA-256 of a stream of bytes: what a run's model, text and records are told apart by.
 *
 *   h <- h + compress(h, block of 64 bytes), padding 0x80 0...0 and the length in bits   [FIPS 180-4] */
#include <string.h>

#include "analyze.h"

static const uint32_t constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotate(uint32_t x, int by) { return x >> by | x << (32 - by); }

static uint32_t big_endian(const unsigned char *bytes) {
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 |
           (uint32_t)bytes[3];
}

static void compress(uint32_t state[8], const unsigned char *block) {
    uint32_t w[64], s[8];
    for (int t = 0; t < 16; t++) w[t] = big_endian(block + 4 * t);
    for (int t = 16; t < 64; t++) {
        const uint32_t a = w[t - 15], b = w[t - 2];
        w[t] = w[t - 16] + (rotate(a, 7) ^ rotate(a, 18) ^ a >> 3) + w[t - 7] +
               (rotate(b, 17) ^ rotate(b, 19) ^ b >> 10);
    }
    memcpy(s, state, sizeof s);
    for (int t = 0; t < 64; t++) {
        const uint32_t e = s[4], a = s[0];
        const uint32_t one = s[7] + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) +
                             ((e & s[5]) ^ (~e & s[6])) + constants[t] + w[t];
        const uint32_t two = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) +
                             ((a & s[1]) ^ (a & s[2]) ^ (s[1] & s[2]));
        memmove(s + 1, s, 7 * sizeof *s);
        s[4] += one;
        s[0] = one + two;
    }
    for (int k = 0; k < 8; k++) state[k] += s[k];
}

void sha256_begin(sha256 *hash) {
    static const uint32_t start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    *hash = (sha256){.length = 0};
    memcpy(hash->state, start, sizeof start);
}

void sha256_add(sha256 *hash, const void *bytes, size_t size) {
    const unsigned char *from = bytes;
    while (size > 0) {
        const size_t used = hash->length % 64;
        if (used == 0 && size >= 64) {
            compress(hash->state, from);
            hash->length += 64;
            from += 64;
            size -= 64;
            continue;
        }
        const size_t part = size < 64 - used ? size : 64 - used;
        memcpy(hash->block + used, from, part);
        hash->length += part;
        from += part;
        size -= part;
        if (hash->length % 64 == 0) compress(hash->state, hash->block);
    }
}

void sha256_end(sha256 *hash, unsigned char digest[SHA256_BYTES]) {
    static const unsigned char zeros[64] = {0};
    const uint64_t bits = 8 * hash->length;
    unsigned char tail[8];
    for (int k = 0; k < 8; k++) tail[k] = (unsigned char)(bits >> (56 - 8 * k));
    sha256_add(hash, "\x80", 1);
    sha256_add(hash, zeros, (120 - hash->length % 64) % 64);
    sha256_add(hash, tail, 8);
    for (int k = 0; k < SHA256_BYTES; k++)
        digest[k] = (unsigned char)(hash->state[k / 4] >> (24 - 8 * (k % 4)));
}

void sha256_text(const unsigned char digest[SHA256_BYTES], char text[SHA256_TEXT]) {
    for (int k = 0; k < SHA256_BYTES; k++)
        (void)snprintf(text + 2 * k, 3, "%02x", (unsigned)digest[k]);
}
