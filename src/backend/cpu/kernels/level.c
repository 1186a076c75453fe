/* The kernels' bodies, written once on the vector words. CMakeLists.txt compiles this file once for every table:
 *
 *     OTA_TABLE         the table that is defined, such as ota_avx2_f64
 *     OTA_WORDS_avx2    whose words
 *     OTA_REAL_BITS     32 or 64
 *     OTA_PAIRS         operands of the products are pairs of bf16, with OTA_REAL_BITS 32: the table has the fused kernel,
 *                       its derivative and late interaction only
 *     OTA_TILES         products of pairs run on tiles
 *     OTA_NO_BATCHES    a build without src/batches/, whose kernels are left out
 *
 * terms.inc.h has what packing, terms and masks want, exp2.inc.h 2^t and the reading of scores, power.inc.h x^p, masked.inc.h
 * arrays of any type and masks in a tile, attend.inc.h the fused kernel and products.inc.h the products, gradient.inc.h its derivative, passes.inc.h the passes over rows and matrices
 * of scores, sparse.inc.h rows with few weights, slopes.inc.h what backward does with rows, adjoint.inc.h the
 * passes of its linear system, lanes.inc.h rounds of many small problems, one a lane, match.inc.h matchings, bounded.inc.h
 * rows under bounds on columns, maxsim.inc.h late interaction, normalize.inc.h and normalize_reverse.inc.h the rounds of otattn_normalize.h. Fused
 * products are written out (vec_fma); the compiler forms none of its own (-ffp-contract=off). */
#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/exp2.h"
#include "base/fault.h"
#include "base/half.h"
#include "kernels.h"

#if defined(OTA_WORDS_portable)
#include "words/vector_portable.h"
#elif defined(OTA_WORDS_avx2)
#include "words/vector_avx2.h"
#elif defined(OTA_WORDS_avx512)
#include "words/vector_avx512.h"
#elif defined(OTA_WORDS_neon)
#include "words/vector_neon.h"
#endif

#include "exp2.inc.h"
#include "power.inc.h"
#include "masked.inc.h"
#include "attend.inc.h"
#include "gradient.inc.h"

#ifdef OTA_PAIRS
#include "maxsim.inc.h"
#include "pairs.inc.h"

const ota_kernels_bf16 OTA_TABLE = {
    .attend = attend_pairs, .gradient = gradient_pairs, .maxsim = maxsim_pass};

#else
#include "terms.inc.h"
#include "passes.inc.h"
#include "capped.inc.h"
#include "online.inc.h"
#include "products.inc.h"
#include "sparse.inc.h"
#include "slopes.inc.h"
#include "adjoint.inc.h"
#include "lanes.inc.h"
#include "costs.inc.h"
#if OTA_REAL_BITS == 64
#include "match.inc.h"
#endif
#ifndef OTA_NO_BATCHES
#if OTA_REAL_BITS == 64
#include "bounded.inc.h"
#else
#include "maxsim.inc.h"
#endif
#include "normalize.inc.h"
#include "normalize_reverse.inc.h"
#include "route.inc.h"
#endif

const kernel_table OTA_TABLE = {
    .attend = attend,
    .gradient = gradient,
    .products = products,
    .dots = dots,
    .apply = apply,
    .maximum = maximum,
    .lowest = lowest,
    .extent = extent,
    .exponentials = exponentials,
    .multiply = multiply,
    .sum = sum,
    .statistics = statistics,
    .accumulate = accumulate,
    .log_round = log_round,
    .columns_top = columns_top,
    .columns_sum = columns_sum,
    .kernel_form = kernel_form,
    .linear_round = linear_round,
    .linear_reverse = linear_reverse,
    .exp2_scaled = exp2_scaled,
    .weights = weights,
    .power_sums = power_sums,
    .powers = powers,
    .capped = &capped_passes,
    .compact = compact,
    .spmv = spmv,
    .slope_weights = slope_weights,
    .slope_mean = slope_mean,
    .slopes = slopes,
    .gemm_tn = gemm_tn,
    .gather_dot = gather_dot,
    .scatter_add = scatter_add,
    .slope_sums = slope_sums,
    .slope_columns = slope_columns,
    .slope_diagonal = slope_diagonal,
    .centred_product = centred_product,
    .lanes = LANES,
    .terms = &term_passes,
    .lane_rounds = lane_rounds,
    .lanes_in = lanes_in,
    .lanes_out = lanes_out,
    .costs = &costs,
#if OTA_REAL_BITS == 64
    .match = &match_passes,
#endif
#ifndef OTA_NO_BATCHES
#if OTA_REAL_BITS == 64
    .bounded = &bounded_passes,
#else
    .maxsim = maxsim_pass,
    .widen = maxsim_widen,
#endif
    .normalizers = &normalizers,
    .route = &route_passes,
#endif
    .online = &online_passes,
};
#endif
