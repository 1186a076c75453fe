/* Packing and unpacking for one working type; included by pack.c once with T = float and once with
 * T = double. `PLAIN` is its ota_type, `READ_ROW` and `WRITE_ROW` are its rows of converters, indexed by
 * ota_type. */

/* Are rows of the array one block of memory? */
static bool JOIN(is_block_, SUFFIX)(const ota_array *a) {
    return a->size[2] > 1 && a->stride[3] == 1 && a->stride[2] == a->size[3];
}

static void JOIN(read_rows_, SUFFIX)(const ota_array *from, int64_t batch, int64_t head,
                                     int64_t row, int64_t column, int64_t count, T *to) {
    const char *at = element_of(from, batch, head, row, column);
    READ_ROW[from->type](at, from->stride[3], count, to);
}

void JOIN(ota_pack_rows_, SUFFIX)(const ota_array *from, int64_t batch, int64_t head, int64_t first,
                                  int64_t rows, T *to, int64_t ld) {
    int64_t columns = from->size[3];
    if (columns == 0 || rows == 0) return;
    if (ld == columns && JOIN(is_block_, SUFFIX)(from)) {
        JOIN(read_rows_, SUFFIX)(from, batch, head, first, 0, rows * columns, to);
        return;
    }
    /* Of a transposed array, whose neighbours lie in other rows, strips of columns: each line is then read by all rows
     * while it is near. */
    enum { NEAR = 64 };
    const int64_t strip = from->stride[3] == 1 ? columns : NEAR;
    for (int64_t column = 0; column < columns; column += strip) {
        const int64_t count = ota_int_min(columns - column, strip);
        for (int64_t row = 0; row < rows; row++) {
            JOIN(read_rows_, SUFFIX)
            (from, batch, head, first + row, column, count, to + row * ld + column);
        }
    }
}

typedef T JOIN(four_, SUFFIX) __attribute__((vector_size(4 * sizeof(T)), aligned(sizeof(T))));
typedef BITS JOIN(places_, SUFFIX) __attribute__((vector_size(4 * sizeof(T))));

/* Four by four elements turned. */
static inline void JOIN(turn_, SUFFIX)(const T *const row[4], int64_t k, T *to, int64_t ld) {
    typedef JOIN(four_, SUFFIX) four;
    const four a = *(const four *)(const void *)(row[0] + k);
    const four b = *(const four *)(const void *)(row[1] + k);
    const four c = *(const four *)(const void *)(row[2] + k);
    const four d = *(const four *)(const void *)(row[3] + k);
    const four ab = CHOOSE(a, b, 0, 4, 1, 5), cd = CHOOSE(c, d, 0, 4, 1, 5);
    const four ab2 = CHOOSE(a, b, 2, 6, 3, 7), cd2 = CHOOSE(c, d, 2, 6, 3, 7);
    *(four *)(void *)to = CHOOSE(ab, cd, 0, 1, 4, 5);
    *(four *)(void *)(to + ld) = CHOOSE(ab, cd, 2, 3, 6, 7);
    *(four *)(void *)(to + 2 * ld) = CHOOSE(ab2, cd2, 0, 1, 4, 5);
    *(four *)(void *)(to + 3 * ld) = CHOOSE(ab2, cd2, 2, 3, 6, 7);
}

/* Four keys at a time, at most 64 of their elements: read where they lie or, with another type or stride, through
 * a strip; they leave in pieces of four neighbouring lanes. */
void JOIN(ota_pack_keys_, SUFFIX)(const ota_array *from, int64_t batch, int64_t head, int64_t keys,
                                  T *packed) {
    enum { GROUP = 4, STRIP = 64 };
    static const T nothing[STRIP] = {0};
    int64_t width = from->size[3];
    const bool plain = from->type == PLAIN && (from->stride[3] == 1 || width == 1);
    for (int64_t first = 0; first < keys; first += OTA_PANEL) {
        T *panel = packed + first * width;
        for (int64_t w = 0; w < width; w += STRIP) {
            int64_t count = ota_int_min(width - w, STRIP);
            for (int64_t lane = 0; lane < OTA_PANEL; lane += GROUP) {
                T strip[GROUP][STRIP];
                const T *row[GROUP];
                for (int64_t i = 0; i < GROUP; i++) {
                    const int64_t key = first + lane + i;
                    row[i] = strip[i];
                    if (key >= keys)
                        row[i] = nothing;
                    else if (plain)
                        row[i] = (const T *)(const void *)element_of(from, batch, head, key, w);
                    else
                        JOIN(read_rows_, SUFFIX)(from, batch, head, key, w, count, strip[i]);
                }
                T *to = panel + w * OTA_PANEL + lane;
                int64_t k = 0;
                for (; k + GROUP <= count; k += GROUP)
                    JOIN(turn_, SUFFIX)(row, k, to + k * OTA_PANEL, OTA_PANEL);
                for (; k < count; k++) {
                    for (int64_t i = 0; i < GROUP; i++) to[k * OTA_PANEL + i] = row[i][k];
                }
            }
        }
    }
}

void JOIN(ota_unpack_rows_, SUFFIX)(const ota_array *to, int64_t batch, int64_t head, int64_t first,
                                    int64_t rows, const T *from, int64_t ld) {
    int64_t columns = to->size[3];
    if (columns == 0 || rows == 0) return;
    if (ld == columns && JOIN(is_block_, SUFFIX)(to)) {
        WRITE_ROW[to->type](from, rows * columns, element_of(to, batch, head, first, 0), 1);
        return;
    }
    for (int64_t row = 0; row < rows; row++) {
        WRITE_ROW[to->type](from + row * ld, columns, element_of(to, batch, head, first + row, 0),
                            to->stride[3]);
    }
}
