/* The table of kernels and what its members take, for one type. kernels.h includes this file twice, with `real` float and
 * double; OF_TYPE(attend) is ota_kernels_f32_attend in the first, and so on. */

/* What masks say of the pairs of a block, row i and key j: entries lie at [i * ld + j], and ld = 0 repeats one row. NULL: nothing. */
typedef struct OF_TYPE(pairs) {
    const unsigned char *flags; /* 0 forbids the pair, whatever else the pair holds */
    const void
        *bias; /* of bias_type, added to scale * q.k (units of S); below `bound` it forbids, too */
    int64_t flags_ld, bias_ld;
    ota_type bias_type;
    real bound;
} OF_TYPE(pairs);

/* Gradients of one block of rows against one tile of keys (gradient.inc.h), with
 * P_ij = 2^((S_ij + h_j - shift_i) c), dS_ij = P_ij (U_ij - a_i - b_j), U = upstream V^T:
 *
 *     queries [rows][width], keys [key_count][width], upstream [rows][values_width]   finite, packed densely
 *     packed_keys, packed_values      panels from the tile's first key on, which is `first`; widths > 0
 *     key_bias, key_advantage         h, b [key_count], or NULL
 *     begin, end, scale, c, terms, pairs   as in the block of attend
 *     shift [rows]                    units of S; +inf: no weight, NaN: P is NaN on the row's keys
 *     advantage [rows]                a, finite
 *     queries_grad [rows][width] += dS K      keys_grad [key_count][width] += dS^T Q
 *     values_grad [key_count][values_width] += P^T upstream                           each may be NULL
 *     scratch                         OTA_GRADIENT_SCRATCH elements, 64-byte aligned */
typedef struct OF_TYPE(gradient) {
    const real *queries, *keys, *upstream, *packed_keys, *packed_values;
    const real *key_bias, *key_advantage;
    int64_t rows, key_count, width, values_width, first;
    const int64_t *begin, *end;
    real scale, c;
    void (*terms)(void *context, int64_t row, int64_t first, int64_t last, real *tile_row);
    void *terms_context;
    OF_TYPE(pairs) pairs;
    const real *shift, *advantage;
    real *queries_grad, *keys_grad, *values_grad;
    real *scratch;
} OF_TYPE(gradient);

/* Rounds of `lanes` small problems of one shape, problem l in lane l of every vector (lanes.inc.h). Element e of an
 * array of problems lies at [e * lanes + l], so all have room for lanes times what is stated:
 *
 *     K_ij = 2^((S_ij - m_i) c) 2^lift, m_i = max_j S_ij, v = 1
 *     round: u_i = mu_i / sum_j K_ij v_j,  v_j = nu_j / sum_i u_i K_ij
 *     P_ij = u_i K_ij v_j with u of the last v
 *
 * rows, columns >= 1. Exactly `rounds`, or with a tolerance: until sum_j |c_j v_j - nu_j| is so far below tolerance total
 * that the plan is certain to meet it, `rounds` at most. `taken` is the number of rounds, or -1 where the lane's problem
 * is not carried: a row's maximum or a sum leaves the range of the type, scalings leave 2^(+-lift/2), the tolerance is
 * below twice the floor of the arithmetic or was not met. What else is written there says nothing. A score of -inf has
 * weight 0. Positive masses lie within 2^(+-lift/4). The result of a lane depends on that lane alone. */
typedef struct OF_TYPE(lanes) {
    int64_t rows, columns, rounds;
    const real *c;                  /* [1] log2(e) / tau */
    const real *mass, *target;      /* [rows] mu, [columns] nu */
    const real *tolerance, *total;  /* [1], or NULL: exactly; the total mass */
    const real *slack;              /* [1] more floor for the tolerance, in units of u */
    real *matrix;                   /* [rows][columns] in: S, out: P */
    real *shift, *sum;              /* [rows] out: m_i and sum_j K_ij v_j */
    real *scaling, *next;           /* [columns] out: v; scratch */
    double *row_sums, *column_sums; /* [rows], [columns] out: of P, added in f64 */
    real *taken;                    /* [1] out */
} OF_TYPE(lanes);

/* What kernels with many operands take. Rows r and columns j; every matrix [rows][...] with rows `ld...` elements
 * apart. */
/* Sinkhorn, log rows */
typedef struct OF_TYPE(log_round) {
    const real *s;
    int64_t lds, rows, columns;
    const real *h; /* [columns] */
    real c, sink;  /* sink: logit in units of S, -inf = none */
    const double *mass;
    double *shift, *sum, *column; /* [rows], [rows], [columns] */
    real *scratch;                /* [columns] */
} OF_TYPE(log_round);

typedef struct OF_TYPE(kernel) {
    const real *s;
    int64_t lds, rows, columns;
    const double *f; /* [rows] */
    const real *h;   /* [columns], or NULL */
    real c;
    real *kernel;
    int64_t ldk;
} OF_TYPE(kernel);

/* Sinkhorn on the kernel, and the derivative of a round */
typedef struct OF_TYPE(round) {
    const real *kernel;
    int64_t ldk, rows, columns;
    const real *v;             /* [columns] */
    const double *mass, *sink; /* [rows]; sink may be NULL */
    double *u, *column;        /* [rows], [columns] */
} OF_TYPE(round);

/* y_j = max(0, (s_j + h_j - shift) k - t) and its powers */
typedef struct OF_TYPE(powers) {
    const real *s, *h; /* h may be NULL */
    int64_t count;
    real shift, k;
    double t, p;
} OF_TYPE(powers);

/* A row with caps: out_j = min(c_j, factor e_j), e_j = 2^((s_j + h_j - shift) k), y_j^p */
typedef struct OF_TYPE(capped) {
    const real *s, *h, *caps; /* h may be NULL, and caps too: `cap` */
    int64_t count;
    real cap, shift, k, factor;
    double t, p;
    real *out; /* NULL: sums alone; may be s */
} OF_TYPE(capped);

typedef struct OF_TYPE(capped_passes) {
    ota_capped_sums (*exponentials)(const OF_TYPE(capped) *row);
    ota_capped_sums (*powers)(const OF_TYPE(capped) *row);
    /* the level is `shift`; of caps, s and h alone */
    ota_level_sums (*level)(const OF_TYPE(capped) *row);
} OF_TYPE(capped_passes);

/* Of a row of scores, x = scale s (terms.inc.h) */
typedef struct OF_TYPE(term_passes) {
    /* to[k] = from[k step], of any type; 1 or 0 of a bool */
    void (*numbers)(const void *from, ota_type type, int64_t step, int64_t count, real *to);
    /* s = x + addend, -inf where either is -inf or addend <= least; s = x + addend alone */
    void (*add_or_forbid)(const real *addend, real least, real scale, int64_t count, real *s);
    void (*add)(const real *addend, real scale, int64_t count, real *s);
    /* -inf where the flag is not above 0 */
    void (*allow)(const real *flag, int64_t count, real *s);
    /* s[k] = x[k] - slope |distance - k| */
    void (*distance)(int64_t distance, real slope, real scale, int64_t count, real *s);
    /* s = cap tanh(x / cap) */
    void (*softcap)(real cap, real scale, int64_t count, real *s);
    /* tanh_x = tanh x and slope = 1 - tanh^2 x; NaN stays NaN in `tanh_x`. The three arrays are apart. */
    void (*tanh)(const real *x, int64_t count, real *tanh_x, real *slope);
    /* packing: to[k * ld + r] = rows[r][k], k < count, r < the lanes of the table */
    void (*transpose)(const real *const *rows, int64_t count, real *to, int64_t ld);
    bool (*is_finite)(const real *x, int64_t count);
    /* sum_j x_j y_j, products and sums in f64 */
    double (*row_dot)(const real *x, const real *y, int64_t count);
} OF_TYPE(term_passes);

typedef struct OF_TYPE(slopes) {
    const real *w, *u;
    int64_t ldw, ldu, rows, columns;
    const double *mean; /* [rows] */
    double share;
    double *right, *size; /* [columns] */
} OF_TYPE(slopes);

/* Rows under capacities of keys (online.inc.h): weights e_j >= 0 without their factor, and what earlier rows left of the keys.
 * A key is open where both are above 0. */
typedef struct OF_TYPE(online) {
    /* over the open keys, in f64 */
    double (*sum)(const real *e, const double *remaining, int64_t count);
    /* Open keys whose share e_j factor is no less than what is left of them are marked by e_j = -1; how many, and what is
       left of them. */
    int64_t (*fill)(real *e, const double *remaining, int64_t count, double factor, double *taken);
    /* p_j = e_j factor of open keys, what is left of marked ones, 0 of others; remaining_j -= that, in f64 */
    void (*give)(const real *e, double factor, int64_t count, double *remaining, real *p);
} OF_TYPE(online);

/* One fused block of softmax attention: rows <= OTA_ROW_BLOCK queries against keys [0, key_count).*/
typedef struct OF_TYPE(attend) {
    const real *queries;     /* [rows][width] packed densely                                   */
    const real *packed_keys; /* see above                                                      */
    const real *values;      /* [key_count][values_width] packed densely, finite               */
    const real *key_bias;    /* [key_count] added to scale*q.k (units of S), or NULL           */
    int64_t rows, width, values_width;
    const int64_t *begin, *end; /* [rows]: keys of row i are [begin[i], end[i])                   */
    real scale;                 /* S = scale * q.k (any sign)                                     */
    real c;                     /* log2(e) / tau                                                  */
    real sink;                  /* logit in units of S, -inf = none                               */
    const real *row_mass;       /* [rows] mu, or NULL = 1                                         */
    /* fills a tile of true scores pair by pair when terms or masks need it, else NULL: called   */
    /* after the products with raw q.k in tile[row*OTA_KEY_TILE + key - first], must make them   */
    /* into S (scale included); keys outside [begin,end) of the row are then ignored             */
    void (*terms)(void *context, int64_t row, int64_t first, int64_t last, real *tile_row);
    void *terms_context;
    OF_TYPE(pairs) pairs;    /* of the block's first row and key 0; behind `terms` */
    real *out;               /* [rows][values_width], out = mu * softmax V                     */
    real *row_max, *row_sum; /* [rows]: max_j S and sum 2^((S - max) c), sink included;         */
                             /* an empty row gives -inf, 0 and out = 0                          */
    real *scratch;           /* ota_attend_scratch(values_width) elements, 64-byte aligned   */
} OF_TYPE(attend);

typedef struct OF_TYPE(table) {
    void (*attend)(const OF_TYPE(attend) *block);
    void (*gradient)(const OF_TYPE(gradient) *block);
    /* s[r*lds + j] = q_r . k_j for rows x keys, keys packed, q dense [rows][width] */
    void (*products)(const real *q, const real *packed_keys, int64_t rows, int64_t keys,
                     int64_t width, real *s, int64_t lds);
    /* s[j] = q . k_j, keys k[j*ldk + w] as they lie */
    void (*dots)(const real *q, const real *k, int64_t ldk, int64_t count, int64_t width, real *s);
    /* out += p v; p = 0 still multiplies: v must be finite                            */
    void (*apply)(const real *p, const real *v, const ota_product *sizes, real *out);
    /* max_j (s_j + h_j); h may be NULL; -inf when empty; NaN if any is NaN */
    real (*maximum)(const real *s, const real *h, int64_t count);
    /* min_j s_j over s_j > -inf, +inf when there is none, and how many are -inf */
    real (*lowest)(const real *s, int64_t count, int64_t *forbidden);
    /* the least and the largest of s; false: some are not finite, and nothing is promised */
    bool (*extent)(const real *s, int64_t count, real *low, real *high);
    /* p_j = 2^((s_j + h_j - shift) c); returns the sum (<= 64 naive terms per partial sum) */
    double (*exponentials)(const real *s, const real *h, int64_t count, real shift, real c,
                           real *p);
    /* p_j *= factor; returns nothing */
    void (*multiply)(real *p, int64_t count, real factor);
    double (*sum)(const real *p, int64_t count);
    /* sum p log(p) over p > 0 (natural log), the number of p > 0 and the largest p */
    void (*statistics)(const real *p, int64_t count, double *p_log_p, int64_t *positive,
                       double *max);
    /* column[j] += factor * p[j], f64 accumulators */
    void (*accumulate)(const real *p, int64_t count, double factor, double *column);
    /* Sinkhorn, log rows: for every row r of rows: shift[r] = max_j (s + h), sum[r] = sum_j
       2^((s + h - shift) c) (+ sink_r), then column[j] += mass[r] / sum[r] * 2^((s+h-shift) c).
       Rows with mass 0 or shift -inf add nothing. */
    void (*log_round)(const OF_TYPE(log_round) *round);
    /* column log-sum-exp in two sweeps: top[j] = max(top[j], s_rj + f_r) over the rows; then
       column[j] += 2^((s_rj + f_r - top[j]) c); rows with f = -inf are skipped; columns whose top
       is -inf get 0 */
    void (*columns_top)(const real *s, int64_t lds, int64_t rows, int64_t columns, const double *f,
                        real *top);
    void (*columns_sum)(const real *s, int64_t lds, int64_t rows, int64_t columns, const double *f,
                        const real *top, real c, double *column);
    /* linear domain: kernel[r,j] = 2^((s + f_r + h_j) c); returns how many finite s gave 0 */
    int64_t (*kernel_form)(const OF_TYPE(kernel) *form);
    /* one fused round on the kernel: r = K_r . v + sink[r]; u[r] = mass[r] / r (0 if mass 0);
       column[j] += u[r] K_rj. */
    void (*linear_round)(const OF_TYPE(round) *round);
    /* its derivative: u[r] = mass[r] (K_r . v), column[j] += u[r] K_rj */
    void (*linear_reverse)(const OF_TYPE(round) *round);
    /* p_j = 2^((s_j + h_j - shift) c) 2^lift, lift = OTA_LIFT_F32 or OTA_LIFT_F64; h may be NULL. */
    /* Made for entries <= 1 (c < 0 where s are costs): scalings up to 2^(lift/2) times them stay */
    /* normal where their product is. */
    void (*exp2_scaled)(const real *s, const real *h, int64_t count, real shift, real c, real *p);
    /* p[r,j] = kernel[r,j] v[j] u[r]; p may be the kernel itself */
    void (*weights)(const real *kernel, int64_t ldk, int64_t rows, int64_t columns, const real *v,
                    const double *u, real *p, int64_t ldp);
    /* entmax sums over the row: *first = sum y^p, *second = sum y^(p-1) over y > 0 (p = 1/(alpha-1);
       p = 1 and 2 without pow), returns the number of y > 0. p < 0 takes k < 0 and t < 0: then y > 0 for all
       scores, and y = inf, that of -inf, has the power 0. */
    int64_t (*power_sums)(const OF_TYPE(powers) *row, double *first, double *second);
    /* out_j = y_j^p * factor; returns the sum; out may be s */
    double (*powers)(const OF_TYPE(powers) *row, real factor, real *out);
    const OF_TYPE(capped_passes) *capped;
    /* the scores with s_j + h_j above `floor` in their order: kept[i] = s[where[i]]; returns how many. Both have
       room for count + OTA_COMPACT_ROOM elements; kept may be s, h may be NULL. */
    int64_t (*compact)(const real *s, const real *h, int64_t count, real floor, real *kept,
                       int32_t *where);
    /* out[w] = sum_i p_i v[where_i ldv + w], the sparse twin of `apply` */
    void (*spmv)(const real *p, const int32_t *where, int64_t count, const real *v, int64_t ldv,
                 int64_t values_width, real *out);
    /* backward of rows (slopes.inc.h); w_j = p_j^power where p_j > 0, else 0 */
    void (*slope_weights)(const real *p, int64_t count, double power, real *w);
    /* sum w (u - b) over w != 0, and sum w; b may be NULL */
    double (*slope_mean)(const real *w, const real *u, const real *b, int64_t count, double *total);
    /* u_j = w_j (u_j - b_j - a) rate where w_j != 0, else 0; b may be NULL */
    void (*slopes)(const real *w, const real *b, int64_t count, real a, real rate, real *u);
    /* out[j*width + w] += sum_i p[i*ldp + j] x[i*width + w]; few rows: they are one chain of runs */
    void (*gemm_tn)(const real *p, int64_t ldp, const real *x, int64_t rows, int64_t keys,
                    int64_t width, real *out);
    /* s[i] = q . v_(where[i]), and out[where[i]*width + w] += p[i] x[w] */
    void (*gather_dot)(const real *q, const int32_t *where, int64_t count, const real *v,
                       int64_t ldv, int64_t width, real *s);
    void (*scatter_add)(const real *p, const int32_t *where, int64_t count, const real *x,
                        int64_t width, double *out);
    /* the system of implicit gradients (adjoint.inc.h), all sums in f64: sum w u over w > 0, and sum w */
    double (*slope_sums)(const real *w, const real *u, int64_t count, double *weight);
    /* right_j += w_ij (u_ij - mean_i), size_j += w_ij (|u_ij - mean_i| + share |u_ij|), w_ij > 0 */
    void (*slope_columns)(const OF_TYPE(slopes) *slopes);
    /* weight_j += w_ij, diagonal_j += w_ij (1 - w_ij / den_i), rows of den > 0 */
    void (*slope_diagonal)(const real *w, int64_t ldw, int64_t rows, int64_t columns,
                           const double *den, double *weight, double *diagonal);
    /* mean_i = (w_i . x) / den_i, 0 where den_i is not above 0; y_j += w_ij (x_j - mean_i) */
    void (*centred_product)(const real *w, int64_t ldw, int64_t rows, int64_t columns,
                            const double *x, const double *den, double *mean, double *y);
    const OF_TYPE(term_passes) *terms;
    int64_t lanes;                                /* <= OTA_LANES_MOST, of 64 bytes at most */
    void (*lane_rounds)(const OF_TYPE(lanes) *b); /* see above */
    /* to[e * lanes + l] = from[l * stride + e] factor for e < count, and back, where the elements of to
       from count up to a whole vector become 0; stride is a multiple of lanes, `from` as long */
    void (*lanes_in)(const real *from, int64_t stride, int64_t count, real factor, real *to);
    void (*lanes_out)(const real *from, int64_t count, real *to, int64_t stride);
    const ota_costs *costs;
    const ota_match_passes *match; /* of f64 only */
    const ota_normalizers *normalizers;
    const ota_route_passes *route;
    const OF_TYPE(online) *online;
    const ota_bounded_passes *bounded; /* of f64 only */
    ota_maxsim_pass *maxsim;           /* of f32 only */
    /* neighbours in f16, exactly, fetching at most `count` of the `ahead` behind them; of f32 only */
    void (*widen)(const uint16_t *from, int64_t count, int64_t ahead, real *to);
} OF_TYPE(table);
