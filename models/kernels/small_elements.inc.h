/* Decoding of the types with values of a few bits that are no plain integers: ternary digits, floats of 4 bits, a list of
 * 16 numbers. See elements.c for the layouts. */

/* ---- ternary ---- */

/* A byte b holds five digits of base 3, digit n the integer part of 3 times the fraction of b 3^n / 256. */
static inline void scale_digits(sixteen b, float scale, float *restrict out) {
    const sixteen q = ((sixteen)(b >= 86) & 1) + ((sixteen)(b >= 171) & 1);
    scale_sixteen(&q, 1, scale, OTA_NO_LEAST, out);
}

/* 32 bytes of 160 elements, 16 of 80, 4 of the last 16, of four digits each; d. */
static void decode_tq1_0(const unsigned char *restrict data, float *restrict out, int64_t count) {
    const sixteen powers = {1, 1, 1, 1, 3, 3, 3, 3, 9, 9, 9, 9, 27, 27, 27, 27};
    for (int64_t i = 0; i < count; i += 256, data += 54, out += 256) {
        const float scale = half_value(data + 52);
        sixteen bytes[4];
        memcpy(bytes, data, 48);
        for (int part = 0; part < 4; part++)
            memcpy((unsigned char *)&bytes[3] + 4 * part, data + 48, 4);
        unsigned char power = 1;
        for (int digit = 0; digit < 5; digit++, power = (unsigned char)(3 * power)) {
            scale_digits(bytes[0] * power, scale, out + 32 * digit);
            scale_digits(bytes[1] * power, scale, out + 32 * digit + 16);
            scale_digits(bytes[2] * power, scale, out + 160 + 16 * digit);
        }
        scale_digits(bytes[3] * powers, scale, out + 240);
    }
}

static void decode_tq2_0(const unsigned char *restrict data, float *restrict out, int64_t count) {
    for (int64_t i = 0; i < count; i += 256, data += 66, out += 256) {
        const float scale = half_value(data + 64);
        for (int g = 0; g < 16; g++) {
            const sixteen q = two_bits(data, g);
            scale_sixteen(&q, 1, scale, OTA_NO_LEAST, out + 16 * g);
        }
    }
}

/* ---- floats of 4 bits ---- */

/* out = scale times the doubled value of a sign, 2 bits of exponent and 1 of fraction: 0 1 2 3 4 6 8 12 and their
 * negatives, where the negative 0 is 0. */
static inline void scale_floats(sixteen codes, float scale, float *restrict out) {
    const sixteen m = codes & 7;
    const sixteen size =
        m + ((sixteen)(m >= 5) & 1) + ((sixteen)(m >= 6) & 1) + ((sixteen)(m == 7) & 3);
    const sixteen minus = (sixteen)(codes >= 8);
    const sixteen q = ((size ^ minus) - minus) ^ 128;
    scale_sixteen(&q, 128, scale, OTA_NO_LEAST, out);
}

/* 2^(exponent - 128): half a power of two whose exponent takes a byte, of which 255 is no NaN. */
static inline float half_power(unsigned exponent) {
    const uint32_t word = exponent < 2 ? 0x00200000U << exponent : (exponent - 1) << 23;
    float value;
    memcpy(&value, &word, sizeof value);
    return value;
}

static void decode_mxfp4(const unsigned char *restrict data, float *restrict out, int64_t count) {
    for (int64_t i = 0; i < count; i += 32, data += 17, out += 32) {
        const float scale = half_power(data[0]);
        sixteen bytes;
        memcpy(&bytes, data + 1, sizeof bytes);
        scale_floats(bytes & 15, scale, out);
        scale_floats(bytes >> 4, scale, out + 16);
    }
}

/* Half the value of 4 bits of exponent and 3 of fraction; 0 where all bits are set. */
static inline float half_small(unsigned char byte) {
    const unsigned exponent = byte >> 3 & 15U, fraction = byte & 7U;
    if (byte == 0x7F) return 0;
    if (exponent == 0) return (float)fraction * 0x1p-10F;
    const uint32_t word = (exponent + 116) << 23;
    float power;
    memcpy(&power, &word, sizeof power);
    return (float)(8 + fraction) * power;
}

/* Four scales; 8 bytes for each 16 elements, the first 8 of them in the low halves. */
static void decode_nvfp4(const unsigned char *restrict data, float *restrict out, int64_t count) {
    for (int64_t i = 0; i < count; i += 64, data += 36, out += 64)
        for (int part = 0; part < 4; part++) {
            uint64_t eight;
            memcpy(&eight, data + 4 + 8 * part, sizeof eight);
            eight = ota_little_64(eight);
            scale_floats(sixteen_of(eight, eight >> 4) & 15, half_small(data[part]),
                         out + 16 * part);
        }
}

/* ---- 16 numbers ---- */

/* list[place] for each byte. */
static inline sixteen look_up(sixteen list, sixteen places) {
#if defined(__clang__)
    sixteen found;
    for (int k = 0; k < 16; k++) found[k] = list[places[k]];
    return found;
#else
    return __builtin_shuffle(list, places);
#endif
}

/* 32 elements of 4 bits, places in a list of numbers that lie closer around 0. */
static inline void scale_listed(const unsigned char *restrict data, float scale,
                                float *restrict out) {
    /* The numbers + 128. */
    const sixteen list = {1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241};
    sixteen bytes;
    memcpy(&bytes, data, sizeof bytes);
    const sixteen low = look_up(list, bytes & 15), high = look_up(list, bytes >> 4);
    scale_sixteen(&low, 128, scale, OTA_NO_LEAST, out);
    scale_sixteen(&high, 128, scale, OTA_NO_LEAST, out + 16);
}

static void decode_iq4_nl(const unsigned char *restrict data, float *restrict out, int64_t count) {
    for (int64_t i = 0; i < count; i += 32, data += 18, out += 32)
        scale_listed(data + 2, half_value(data), out);
}

/* d; the upper pairs of bits of 8 factors in 2 bytes, their lower halves in 4; the elements. */
static void decode_iq4_xs(const unsigned char *restrict data, float *restrict out, int64_t count) {
    for (int64_t i = 0; i < count; i += 256, data += 136, out += 256) {
        const float d = half_value(data);
        for (int k = 0; k < 8; k++) {
            const int two = data[2 + k / 4] >> (k % 4 * 2) & 3;
            const int four = data[4 + k / 2] >> (k % 2 * 4) & 15;
            scale_listed(data + 8 + 16 * k, d * (float)((four | two << 4) - 32), out + 32 * k);
        }
    }
}
