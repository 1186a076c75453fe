/* otattn_maxsim.h: late interaction, as ColBERT scores documents. No plan: one call scores all.
 *
 *     max         score(q, d) = sum over tokens i of query q of   max over tokens j of document d   of Q_i . D_j
 *     capacity C  the largest sum of Q_i . D_j over choices of one token j(i) a query token, no j more than C times; where
 *                 the document's n tokens are too few, C n tokens of the query are served and the others add nothing
 *
 * A capacity of 1 is an assignment; one of at least the query's length is max. Documents lie packed one after another; products
 * are kept of one document a thread at most, with a capacity or `chosen`. An empty document scores -inf, a query without tokens 0. A document with a
 * product with the query that is not finite (NaN, infinities, or numbers too large for f32) scores NaN for that query.
 *
 * A product is summed in f32, 64 terms at a time, a score over the tokens of the query in f64. A score has the same bits for
 * any number of threads, of documents and of queries. On processors that multiply pairs of bf16 (levels avx512bf16 and amx) numbers in bf16
 * and their sums below 2^-126 in size count as 0.
 *
 *     float q[32 * 128], d[1000 * 128], scores[10];                              ... fill q and d ...
 *     const int64_t offsets[11] = {0, 100, ...,  1000};
 *     ota_late_interaction problem = {.size = sizeof problem, .offsets = offsets, .document_count = 10};
 *     problem.queries = ota_array_of(q, OTA_F32, 1, 1, 32, 128);
 *     problem.documents = ota_array_of(d, OTA_F32, 1, 1, 1000, 128);
 *     if (ota_maxsim(&problem, scores, NULL, &error) < 0) puts(error.message);
 */
#ifndef OTATTN_MAXSIM_H
#define OTATTN_MAXSIM_H

#include <stddef.h>
#include <stdint.h>

#include "otattn.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Zero means the default in every field but `size`. */
typedef struct ota_late_interaction {
    size_t size; /* sizeof(ota_late_interaction) */
    /* [1, queries, tokens, width] and [1, 1, tokens of all documents, width]: f32, bf16 or f16, both of one type, any
       strides */
    ota_array queries, documents;
    const int64_t *query_lengths; /* [queries], 0 to tokens; NULL: tokens */
    /* [document_count + 1], never falling, from 0 or more to at most the tokens: document d has those of offsets[d] ...
       offsets[d + 1] - 1 */
    const int64_t *offsets;
    const int64_t
        *document_lengths; /* [document_count]: only the first so many of them; NULL: all */
    int64_t document_count;
    int64_t capacity;             /* C; 0: max */
    int64_t top;                  /* only the best so many documents of a query; 0: all scores */
    int threads;                  /* 0: the CPUs this process may use */
    const ota_executor *executor; /* NULL: own threads */
    const char *cpu;              /* NULL or a name of ota_kernel_name: use nothing newer */
    /* out of ota_maxsim, in of ota_maxsim_backward [queries][document_count][tokens of queries], NULL: not wanted; not with
       `top`. The token of the document, from 0, that a query token takes, of equal ones under max the first; -1: none, past
       the query's length, where the capacity does not serve it, and where the score is -inf or NaN */
    int64_t *chosen;
    const int *cancel;   /* as in ota_options */
    int64_t deadline_ns; /* as in ota_options */
} ota_late_interaction;

/* Scores all documents for all queries: scores [queries][document_count]; with `top` [queries][top], falling, and their
 * documents in `best` [queries][top], equal scores by number and NaN last. Without `top`, `best` is not read and may be NULL.
 * OTA_OK, or OTA_NONFINITE_ROWS where some scores are NaN; OTA_CANCELLED and OTA_TIMEOUT leave scores NaN, and anything in
 * `best` and `chosen`. OTA_EINVAL, OTA_EALIGN, OTA_EALIAS, OTA_EOVERFLOW, OTA_ENOMEM, OTA_UNSUPPORTED (a problem of a newer
 * header). */
OTA_API ota_status ota_maxsim(const ota_late_interaction *problem, float *scores, int64_t *best,
                              ota_error *error);

/* Gradients of a function of the scores, whose derivatives are score_grad [queries][document_count], with the choices that
 * ota_maxsim wrote into problem->chosen. A score is the sum of the products of its chosen pairs, and the choice is the best
 * one, so it moves as they do while the choice stays (where several are best, this is one of the subgradients):
 *
 *     query_grad[q][i]    = sum over documents d              of score_grad[q][d] D_d[chosen[q][d][i]]    [queries][tokens][width]
 *     document_grad[d][j] = sum over q, i of chosen[q][d][i] = j of score_grad[q][d] Q_q[i]    [tokens of all documents][width]
 *
 * Either is NULL where it is not wanted. Both are written whole, 0 for tokens without a pair. A score whose derivative is 0
 * adds nothing, whatever its pairs hold. Sums are in f64 in the order of documents and queries: the same bits for any number
 * of threads. `capacity` and `top` change nothing. OTA_OK; OTA_CANCELLED and OTA_TIMEOUT leave both NaN; otherwise the errors of
 * ota_maxsim. */
OTA_API ota_status ota_maxsim_backward(const ota_late_interaction *problem, const float *score_grad,
                                       float *query_grad, float *document_grad, ota_error *error);

#ifdef __cplusplus
}
#endif

#endif
