/* Packing and unpacking for one working type; included by pack.c once with T = float and once with
 * T = double. `READ_ROW` and `WRITE_ROW` are that type's rows of converters, indexed by ota_type. */

static void JOIN(read_rows_, SUFFIX)(const ota_array *from, int64_t batch, int64_t head,
                                     int64_t row, int64_t column, int64_t count, T *to) {
    const char *at = element_of(from, batch, head, row, column);
    READ_ROW[from->type](at, from->stride[3], count, to);
}

void JOIN(ota_pack_rows_, SUFFIX)(const ota_array *from, int64_t batch, int64_t head, int64_t first,
                                  int64_t rows, T *to, int64_t ld) {
    int64_t columns = from->size[3];
    if (columns == 0 || rows == 0) return;
    if (ld == columns && from->size[2] > 1 && from->stride[3] == 1 && from->stride[2] == columns) {
        JOIN(read_rows_, SUFFIX)(from, batch, head, first, 0, rows * columns, to);
        return;
    }
    /* Of a transposed array, whose neighbours lie in other rows, strips of columns: each line is then read by all rows
     * while it is near. */
    enum { NEAR = 64 };
    const int64_t strip = from->stride[3] == 1 ? columns : NEAR;
    for (int64_t column = 0; column < columns; column += strip) {
        const int64_t count = columns - column < strip ? columns - column : strip;
        for (int64_t row = 0; row < rows; row++) {
            JOIN(read_rows_, SUFFIX)
            (from, batch, head, first + row, column, count, to + row * ld + column);
        }
    }
}

/* Four keys at a time through a strip of at most 64 of their elements: the strip is read once with
 * the array's own strides and leaves in pieces of four neighbouring lanes. */
void JOIN(ota_pack_keys_, SUFFIX)(const ota_array *from, int64_t batch, int64_t head, int64_t keys,
                                  T *packed) {
    enum { GROUP = 4, STRIP = 64 };
    int64_t width = from->size[3];
    for (int64_t first = 0; first < keys; first += OTA_PANEL) {
        T *panel = packed + first * width;
        for (int64_t w = 0; w < width; w += STRIP) {
            int64_t count = width - w < STRIP ? width - w : STRIP;
            for (int64_t lane = 0; lane < OTA_PANEL; lane += GROUP) {
                T strip[GROUP][STRIP];
                for (int64_t i = 0; i < GROUP; i++) {
                    if (first + lane + i < keys) {
                        JOIN(read_rows_, SUFFIX)
                        (from, batch, head, first + lane + i, w, count, strip[i]);
                    } else {
                        memset(strip[i], 0, sizeof strip[i]);
                    }
                }
                T *to = panel + w * OTA_PANEL + lane;
                for (int64_t k = 0; k < count; k++) {
                    for (int64_t i = 0; i < GROUP; i++) to[k * OTA_PANEL + i] = strip[i][k];
                }
            }
        }
    }
}

void JOIN(ota_unpack_rows_, SUFFIX)(const ota_array *to, int64_t batch, int64_t head, int64_t first,
                                    int64_t rows, const T *from, int64_t ld) {
    int64_t columns = to->size[3];
    if (columns == 0) return;
    for (int64_t row = 0; row < rows; row++) {
        WRITE_ROW[to->type](from + row * ld, columns, element_of(to, batch, head, first + row, 0),
                            to->stride[3]);
    }
}
