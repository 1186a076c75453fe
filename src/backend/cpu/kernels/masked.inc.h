/* What masks say of single pairs, within a tile. Part of level.c.
 *
 * A row's keys in a tile are all open, all shut or mixed: rows and tiles of nothing but shut keys are skipped, flags are
 * looked at where they are mixed, and numbers are added while the row's maximum is found. Those of another type are
 * converted a row of a tile at a time. */

/* ---- arrays of any type in that of the scores ---- */

/* `step` is a constant where this is expanded and rows are read forwards or backwards. */
static ALWAYS_INLINE void read_numbers(const void *from, ota_type type, int64_t step, int64_t count,
                                       real *restrict to) {
    int64_t k = 0;
    switch (type) {
    case OTA_F64:
        for (; k < count; k++) to[k] = (real)((const double *)from)[k * step];
        break;
    case OTA_F32:
        for (; k < count; k++) to[k] = (real)((const float *)from)[k * step];
        break;
    case OTA_BF16:
        for (; k < count; k++) to[k] = (real)ota_f32_from_bf16(((const uint16_t *)from)[k * step]);
        break;
    case OTA_F16:
#if OTA_REAL_BITS == 32
        for (; step == 1 && k + LANES <= count; k += LANES)
            vec_store(to + k, vec_widen((const uint16_t *)from + k));
#endif
        for (; k < count; k++) to[k] = (real)ota_f32_from_f16(((const uint16_t *)from)[k * step]);
        break;
    default:
        for (; k < count; k++) to[k] = ((const uint8_t *)from)[k * step] != 0 ? (real)1 : (real)0;
    }
}

static inline int64_t bytes_of(ota_type type) {
    return type == OTA_F64 ? 8 : type == OTA_F32 ? 4 : type == OTA_BOOL ? 1 : 2;
}

/* to[k] = from[k step] */
static void numbers_from(const void *from, ota_type type, int64_t step, int64_t count, real *to) {
    if (step == 1)
        read_numbers(from, type, 1, count, to);
    else if (step == -1)
        read_numbers(from, type, -1, count, to);
    else
        read_numbers(from, type, step, count, to);
}

static inline real one_number(const void *from, ota_type type) {
    real to[1];
    read_numbers(from, type, 0, 1, to);
    return to[0];
}

/* ---- rows of a tile ---- */

typedef OF_TYPE(pairs) pair_masks;

static const real NO_SCORE = (real)-INFINITY;

enum { KEYS_OPEN, KEYS_MIXED, KEYS_SHUT };
static const ota_type OWN_NUMBERS = OTA_REAL_BITS == 32 ? OTA_F32 : OTA_F64;

static inline bool has_masks(const pair_masks *masks) {
    return masks->flags != NULL || masks->bias != NULL;
}

static ALWAYS_INLINE unsigned char flags_state(const unsigned char *flags, int64_t count) {
    unsigned char any = 0, least = UINT8_MAX;
    for (int64_t j = 0; j < count; j++) {
        any |= flags[j];
        least = flags[j] < least ? flags[j] : least;
    }
    return any == 0 ? KEYS_SHUT : least == 0 ? KEYS_MIXED : KEYS_OPEN;
}

/* Of row `row`, its keys [first, first + count): where they lie, or in `room`. */
static ALWAYS_INLINE const real *numbers_of_row(const pair_masks *masks, int64_t row, int64_t first,
                                                int64_t count, real *room) {
    const int64_t at = row * masks->bias_ld + first;
    const char *from = (const char *)masks->bias + at * bytes_of(masks->bias_type);
    if (masks->bias_type == OWN_NUMBERS) return (const real *)(const void *)from;
    numbers_from(from, masks->bias_type, 1, count, room);
    return room;
}

/* Numbers that are looked at until one does not forbid, which often is the first. */
static inline bool all_shut(const pair_masks *masks, int64_t row, int64_t first, int64_t count) {
    const char *from =
        (const char *)masks->bias + (row * masks->bias_ld + first) * bytes_of(masks->bias_type);
    if (!(one_number(from, masks->bias_type) < masks->bound)) return false;
    for (int64_t j = 0; j < count; j += LANES) {
        real room[LANES];
        const int64_t lanes = ota_int_min(LANES, count - j);
        const real *x = numbers_of_row(masks, row, first + j, lanes, room);
        const vmask below = mask_above(vec_set(masks->bound), load_lanes(x, lanes));
        if (mask_count(mask_and(below, mask_range(0, lanes))) < lanes) return false;
    }
    return true;
}

/* Of a row that comes a tile later. */
static ALWAYS_INLINE void fetch_row(const pair_masks *masks, int64_t row, int64_t first,
                                    int64_t count) {
    const int64_t bytes = bytes_of(masks->bias_type);
    const int64_t bias = (row * masks->bias_ld + first) * bytes;
    const int64_t flags = row * masks->flags_ld + first;
    if (masks->bias != NULL)
        ota_fetch_later((uintptr_t)masks->bias + (uintptr_t)bias, count * bytes,
                        masks->bias_ld * bytes);
    if (masks->flags != NULL)
        ota_fetch_later((uintptr_t)masks->flags + (uintptr_t)flags, count, masks->flags_ld);
}

/* Of keys [first, last) of a row. */
static inline unsigned char keys_state(const pair_masks *masks, int64_t row, int64_t first,
                                       int64_t last) {
    unsigned char state = KEYS_OPEN;
    if (first >= last) return KEYS_SHUT;
    if (masks->flags != NULL) {
        const unsigned char *flags = masks->flags + row * masks->flags_ld + first;
        state = last - first == OTA_KEY_TILE ? flags_state(flags, OTA_KEY_TILE)
                                             : flags_state(flags, last - first);
    }
    if (state != KEYS_SHUT && masks->bias != NULL && all_shut(masks, row, first, last - first))
        state = KEYS_SHUT;
    return state;
}

static ALWAYS_INLINE vec lanes_between(vec x, int64_t j, int64_t low, int64_t high) {
    if (j >= low && j + LANES <= high) return x;
    return vec_select(mask_range(ota_int_max(low - j, 0), ota_int_min(high - j, LANES)), x,
                      vec_set(NO_SCORE));
}

/* An addend below the bound, or -inf on either side, forbids the pair whatever the other holds: NaN under a mask must
 * vanish. */
static ALWAYS_INLINE vec add_or_forbid(vec s, vec bias, real bound, real prescale) {
    const vec none = vec_set(NO_SCORE);
    vec sum = vec_fma(bias, vec_set(prescale), s);
    sum = vec_select(mask_equal(s, none), none, sum);
    return vec_select(mask_above(vec_set(bound), bias), none, sum);
}

static ALWAYS_INLINE vec masked_lanes(const unsigned char *flags, const real *bias, real bound,
                                      real scale, real prescale, int64_t low, int64_t high,
                                      real *x) {
    vec top = vec_set(NO_SCORE);
    for (int64_t j = low / LANES * LANES; j < high; j += LANES) {
        const int64_t lanes = ota_int_min(LANES, high - j);
        vec s = vec_load(x + j);
        if (bias)
            s = add_or_forbid(vec_mul(s, vec_set(scale)), load_lanes(bias + j, lanes), bound,
                              prescale);
        if (flags) s = vec_select(mask_flags(flags + j, lanes), s, vec_set(NO_SCORE));
        vec_store(x + j, s);
        top = vec_max(top, lanes_between(s, j, low, high));
    }
    return top;
}

/* Keys [low, high) of a row, counted from `first`, that of a tile. */
typedef struct tile_row {
    int64_t row, first, low, high;
    unsigned char state;
    real *room; /* [OTA_KEY_TILE] for numbers of another type */
} tile_row;

/* Lanes of x: scale x + prescale bias where masks have numbers, -inf where they forbid. Returns the largest of every lane. */
static vec mask_row(const pair_masks *masks, const tile_row *at, real scale, real prescale,
                    real *x) {
    const int64_t low = at->low, high = at->high;
    const unsigned char *flags = NULL;
    if (at->state == KEYS_MIXED && masks->flags != NULL)
        flags = masks->flags + at->row * masks->flags_ld + at->first;
    if (masks->bias == NULL) return masked_lanes(flags, NULL, 0, 1, 1, low, high, x);
    const int64_t begin = low / LANES * LANES;
    const real *bias =
        numbers_of_row(masks, at->row, at->first + begin, high - begin, at->room + begin) - begin;
    if (flags == NULL) return masked_lanes(NULL, bias, masks->bound, scale, prescale, low, high, x);
    return masked_lanes(flags, bias, masks->bound, scale, prescale, low, high, x);
}
