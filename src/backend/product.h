/* product.h: the sizes of a product of stored rows with other rows, added to what is there:
 *
 *     out[r][w] += sum_j p[r][j] v[j][w]      p [rows][keys], v [keys][width], out [rows][width]
 *
 * A leading dimension is the distance between rows, in elements. */
#ifndef OTA_PRODUCT_H
#define OTA_PRODUCT_H

#include <stdint.h>

typedef struct ota_product {
    int64_t rows, keys, width;
    int64_t ldp, ldv, ldo;
} ota_product;

#endif
