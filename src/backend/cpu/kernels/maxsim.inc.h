/* Tokens of a document against a panel of query tokens (backend/maxsim.h), in f32 alone: products in the register tile, whose
 * left side are the document's tokens as they lie, then maxima down its columns. */

static void maxsim_pass(const ota_maxsim_block *b) {
    real ones[OTA_MAXSIM_TOKENS];
    for (int t = 0; t < OTA_MAXSIM_TOKENS; t++) ones[t] = 1;
    for (int64_t first = 0; first < b->width || first == 0; first += RUN) {
        tile_product(&(tile_operands){.a = b->tokens + first,
                                      .lda = b->width,
                                      .b = b->queries + first * b->columns,
                                      .ldb = b->columns,
                                      .rows = b->count,
                                      .columns = b->columns,
                                      .length = ota_int_min(RUN, b->width - first),
                                      .out = b->products,
                                      .ldo = b->columns,
                                      .factor = first == 0 ? NULL : ones});
    }
    for (int64_t c = 0; c < b->columns; c += LANES) {
        const real *column = b->products + c;
        vec best = vec_load(b->best + c), lost = vec_load(b->lost + c);
        for (int64_t t = 0; t < b->count; t++) {
            const vec x = vec_load(column + t * b->columns);
            best = vec_max(best, x);
            lost = vec_add(lost, vec_sub(x, x));
        }
        vec_store(b->best + c, best);
        vec_store(b->lost + c, lost);
    }
}
