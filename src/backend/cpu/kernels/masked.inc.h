/* What masks say of single pairs, within a tile. Part of level.c.
 *
 * A row's keys in a tile are all open, all shut or mixed: rows and tiles of nothing but shut keys are skipped, flags are
 * looked at where they are mixed, and numbers are added while the row's maximum is found. */

typedef OF_TYPE(pairs) pair_masks;

static const real NO_SCORE = (real)-INFINITY;

enum { KEYS_OPEN, KEYS_MIXED, KEYS_SHUT };

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

/* Numbers that are looked at until one does not forbid. */
static inline bool all_shut(const real *x, int64_t count, real bound) {
    for (int64_t j = 0; j < count; j += LANES) {
        const int64_t lanes = ota_int_min(LANES, count - j);
        const vmask below = mask_above(vec_set(bound), load_lanes(x + j, lanes));
        if (mask_count(mask_and(below, mask_range(0, lanes))) < lanes) return false;
    }
    return true;
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
    if (state != KEYS_SHUT && masks->bias != NULL &&
        all_shut(masks->bias + row * masks->bias_ld + first, last - first, masks->bound))
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

/* The masks of a row whose keys begin at `first`, as far as they are to be looked at. */
static inline pair_masks masks_at(const pair_masks *masks, unsigned char state, int64_t row,
                                  int64_t first) {
    pair_masks at = {.bound = masks->bound};
    if (state == KEYS_MIXED && masks->flags != NULL)
        at.flags = masks->flags + row * masks->flags_ld + first;
    if (masks->bias != NULL) at.bias = masks->bias + row * masks->bias_ld + first;
    return at;
}

/* The lanes [low, high) of x: scale x + prescale bias where masks have numbers, -inf where they forbid. Returns the largest of every
 * lane. */
static vec mask_row(const pair_masks *at, int64_t low, int64_t high, real scale, real prescale,
                    real *x) {
    if (at->bias == NULL) return masked_lanes(at->flags, NULL, 0, 1, 1, low, high, x);
    if (at->flags == NULL)
        return masked_lanes(NULL, at->bias, at->bound, scale, prescale, low, high, x);
    return masked_lanes(at->flags, at->bias, at->bound, scale, prescale, low, high, x);
}
