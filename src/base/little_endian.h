/* little_endian.h: words as files hold them, the lowest byte first, from or to the machine's own. */
#ifndef OTA_LITTLE_ENDIAN_H
#define OTA_LITTLE_ENDIAN_H

#include <stdint.h>

enum { OTA_HOST_IS_LITTLE = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ };

static inline uint16_t ota_little_16(uint16_t word) {
    return OTA_HOST_IS_LITTLE ? word : __builtin_bswap16(word);
}

static inline uint32_t ota_little_32(uint32_t word) {
    return OTA_HOST_IS_LITTLE ? word : __builtin_bswap32(word);
}

static inline uint64_t ota_little_64(uint64_t word) {
    return OTA_HOST_IS_LITTLE ? word : __builtin_bswap64(word);
}

#endif
