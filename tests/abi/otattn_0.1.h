/* The public headers of release 0.1 in one file, without their comments: what programs built with it were compiled from. Never
   changed; docs/users/abi.md. */
#ifndef OTATTN_0_1_H
#define OTATTN_0_1_H
#include <stddef.h>
#include <stdint.h>

#define OTA_API
#ifdef __cplusplus
extern "C" {
#endif

typedef enum ota_status {
    OTA_OK = 0,
    OTA_FIXED_ITERS = 1,
    OTA_PARTIAL = 2,
    OTA_NONFINITE_ROWS = 3,
    OTA_EINVAL = -1,
    OTA_ENOMEM = -2,
    OTA_EOVERFLOW = -3,
    OTA_EALIAS = -4,
    OTA_EALIGN = -5,
    OTA_NOT_CONVERGED = -6,
    OTA_INFEASIBLE = -7,
    OTA_TOL_UNREACHABLE = -8,
    OTA_NONFINITE = -9,
    OTA_NOT_DIFFERENTIABLE = -10,
    OTA_UNSUPPORTED = -11,
    OTA_CANCELLED = -12,
    OTA_TIMEOUT = -13,
    OTA_EFORMAT = -14,
    OTA_ELIMIT = -15,
    OTA_EIO = -16,
    OTA_EPATH = -17,
    OTA_ETRUNC = -18,
    OTA_EMISMATCH = -19,
    OTA_EDEVICE = -20,
    OTA_ECOMM = -21,
    OTA_EINTERNAL = -22,
    OTA_UNSOLVED = -1000
} ota_status;
typedef struct ota_error {
    char field[64];
    char message[512];
    char hint[256];
} ota_error;
OTA_API const char *ota_status_word(ota_status status);
OTA_API const char *ota_status_text(ota_status status);
OTA_API const char *ota_version(void);
OTA_API int ota_processors(void);
typedef enum ota_type {
    OTA_NO_TYPE = 0,
    OTA_F64 = 1,
    OTA_F32 = 2,
    OTA_BF16 = 3,
    OTA_F16 = 4,
    OTA_BOOL = 5,
    OTA_I64 = 6
} ota_type;
OTA_API size_t ota_type_bytes(ota_type type);
typedef struct ota_array {
    void *data;
    ota_type type;
    int64_t size[4];
    int64_t stride[4];
} ota_array;
OTA_API ota_array ota_array_of(void *data, ota_type type, int64_t batch, int64_t heads,
                               int64_t rows, int64_t columns);
typedef enum ota_term_kind {
    OTA_TERM_DENSE = 1,
    OTA_TERM_ALIBI,
    OTA_TERM_RELATIVE,
    OTA_TERM_RELATIVE_INSIDE,
    OTA_TERM_SOFTCAP,
    OTA_TERM_SINK
} ota_term_kind;
typedef struct ota_term {
    ota_term_kind kind;
    ota_array array;
    double value;
} ota_term;
typedef enum ota_support_kind {
    OTA_SUPPORT_CAUSAL = 1,
    OTA_SUPPORT_WINDOW,
    OTA_SUPPORT_STRIDED,
    OTA_SUPPORT_BLOCK,
    OTA_SUPPORT_LENGTHS,
    OTA_SUPPORT_BOOLEAN,
    OTA_SUPPORT_ADDITIVE
} ota_support_kind;
typedef struct ota_support {
    ota_support_kind kind;
    ota_array array;
    int64_t left, right;
} ota_support;
typedef enum ota_corner { OTA_CORNER_UNSET = 0, OTA_TOP_LEFT, OTA_BOTTOM_RIGHT } ota_corner;
typedef enum ota_regulariser { OTA_SOFTMAX = 0, OTA_ENTMAX, OTA_HARD, OTA_CUSTOM } ota_regulariser;
typedef struct ota_custom {
    double (*weight)(void *user, double x);
    double (*slope)(void *user, double x);
    double (*value)(void *user, double p);
    void *user;
} ota_custom;
typedef enum ota_column_rule {
    OTA_COLUMNS_FREE = 0,
    OTA_COLUMNS_EXACT,
    OTA_COLUMNS_RELAXED,
    OTA_COLUMNS_CAPPED,
    OTA_COLUMNS_ELASTIC,
    OTA_COLUMNS_PREFIX,
    OTA_COLUMNS_ONLINE,
    OTA_COLUMNS_BOUNDED
} ota_column_rule;
typedef enum ota_row_rule { OTA_ROWS_HARD = 0, OTA_ROWS_RELAXED } ota_row_rule;
typedef enum ota_axis { OTA_AXIS_ROWS = 0, OTA_AXIS_COLUMNS } ota_axis;
typedef enum ota_side { OTA_SIDE_ROWS = 0, OTA_SIDE_COLUMNS } ota_side;
typedef struct ota_problem {
    size_t size;
    ota_array queries;
    ota_array keys;
    ota_array scores;
    int cost;
    double scale;
    double temperature;
    ota_array temperatures;
    const ota_term *terms;
    int64_t term_count;
    const ota_support *supports;
    int64_t support_count;
    ota_corner corner;
    ota_regulariser regulariser;
    double order;
    ota_row_rule rows;
    double row_strength;
    ota_column_rule columns;
    double strength;
    double cap;
    double lambda;
    int64_t steps;
    ota_array lambdas;
    ota_array row_mass;
    ota_array column_mass;
    ota_axis axis;
    ota_side start, end;
    ota_custom custom;
    double dropout;
    uint64_t dropout_seed, dropout_offset;
    double lower, upper;
    double entry_cap;
    ota_array entry_caps;
} ota_problem;
typedef enum ota_shares { OTA_SHARES_IN_ORDER = 0, OTA_SHARES_ZIGZAG } ota_shares;
typedef enum ota_reduction { OTA_REDUCE_SUM = 0, OTA_REDUCE_MAX } ota_reduction;
typedef enum ota_key_transport {
    OTA_KEYS_AUTO = 0,
    OTA_KEYS_GATHERED,
    OTA_KEYS_IN_RING
} ota_key_transport;
typedef struct ota_communicator {
    size_t size;
    int rank, ranks;
    ota_shares shares;
    int (*all_reduce)(void *user, void *values, int64_t count, ota_type type,
                      ota_reduction reduction);
    int (*all_gather)(void *user, const void *mine, void *all, const int64_t *counts,
                      const int64_t *offsets);
    void *user;
    int (*send_receive)(void *user, int to, const void *given, int64_t bytes, int from,
                        void *wanted, int64_t wanted_bytes);
    ota_key_transport keys;
    const int64_t *first_pieces;
} ota_communicator;
typedef enum ota_center { OTA_CENTER_NONE = 0, OTA_CENTER_MEAN, OTA_CENTER_MIDRANGE } ota_center;
typedef enum ota_precision {
    OTA_PRECISION_AUTO = 0,
    OTA_PRECISION_F32,
    OTA_PRECISION_F64
} ota_precision;
typedef struct ota_executor {
    void (*run)(void *user, int64_t count, void (*body)(void *context, int64_t index, int worker),
                void *context);
    void *user;
    int threads;
} ota_executor;
typedef struct ota_progress {
    int64_t heads_done, heads;
    int64_t round;
    double residual;
} ota_progress;
#define OTA_NO_ROUNDS (-1)
typedef struct ota_options {
    size_t size;
    double tolerance;
    int64_t max_rounds;
    int64_t rounds;
    double anneal_start;
    double anneal_factor;
    int64_t anneal_rounds;
    int anneal_keep_scaling;
    double relaxation;
    int relaxation_auto;
    ota_center center;
    ota_precision precision;
    double tolerance_scaling;
    int prune;
    int allow_partial;
    int strict;
    const char *solver;
    int threads;
    const ota_executor *executor;
    const char *cpu;
    size_t workspace_limit;
    const int *cancel;
    int64_t deadline_ns;
    void (*progress)(void *user, const ota_progress *progress);
    void *progress_user;
    int gradients;
    int backward;
    const char *backend;
    const ota_communicator *communicator;
} ota_options;
OTA_API ota_status ota_method_parse(const char *text, ota_problem *problem, ota_options *options,
                                    ota_error *error);
OTA_API size_t ota_method_name(const ota_problem *problem, char *text, size_t text_size);
typedef struct ota_plan ota_plan;
OTA_API ota_status ota_check(const ota_problem *problem, const ota_options *options,
                             ota_error *error);
OTA_API ota_status ota_plan_create(ota_plan **plan, const ota_problem *problem,
                                   int64_t values_width, const ota_options *options,
                                   ota_error *error);
OTA_API ota_status ota_plan_measure(const ota_problem *problem, int64_t values_width,
                                    const ota_options *options, size_t *bytes, ota_error *error);
OTA_API void ota_plan_free(ota_plan *plan);
OTA_API size_t ota_plan_bytes(const ota_plan *plan);
OTA_API size_t ota_plan_describe(const ota_plan *plan, char *text, size_t text_size);
OTA_API const char *ota_plan_solver(const ota_plan *plan);
OTA_API const char *ota_plan_kernel(const ota_plan *plan);
OTA_API int ota_plan_threads(const ota_plan *plan);
OTA_API ota_status ota_plan_rebind(ota_plan *plan, const ota_problem *problem, ota_error *error);
OTA_API void ota_plan_set_deadline(ota_plan *plan, int64_t deadline_ns);
typedef struct ota_head_result {
    ota_status status;
    int64_t rounds;
    double row_error, column_error;
} ota_head_result;
typedef struct ota_arrays {
    size_t size;
    ota_array values;
    ota_array out;
    ota_array coupling;
    ota_array row_potential;
    ota_array column_potential;
    ota_array lse;
    ota_array receiver;
    ota_array row_entropy;
    ota_array row_support;
    ota_array row_max;
    ota_array sink;
    ota_array start_potential;
    ota_array remaining;
    ota_head_result *heads;
} ota_arrays;
typedef struct ota_result {
    size_t size;
    ota_status status;
    int64_t rounds;
    double row_error, column_error;
    int64_t empty_rows, nonfinite_rows;
    int64_t unusable_pairs;
    int64_t pruned_pairs;
    int64_t underflowed;
    int promoted;
    double temperature_reached;
    int64_t head;
    char sentence[512];
    double backward_residual;
    const char *solver;
    int64_t messages, message_bytes;
    double masked_share;
} ota_result;
OTA_API ota_status ota_forward(ota_plan *plan, const ota_arrays *arrays, ota_result *result,
                               ota_error *error);
OTA_API ota_status ota_decode(ota_plan *plan, const ota_arrays *arrays, int64_t key_count,
                              ota_result *result, ota_error *error);
OTA_API ota_status ota_decode_capacity(const ota_plan *plan, const ota_array *remaining,
                                       int64_t first, int64_t last, ota_error *error);
OTA_API ota_status ota_plan_scores(const ota_plan *plan, int64_t batch, int64_t head, int64_t first,
                                   int64_t key_count, const ota_array *scores, ota_error *error);
OTA_API ota_status ota_attend(const ota_problem *problem, const ota_options *options,
                              const ota_arrays *arrays, ota_result *result, ota_error *error);
typedef struct ota_gradients {
    size_t size;
    ota_array out_grad;
    ota_array coupling_grad;
    ota_array queries;
    ota_array keys;
    ota_array values;
    ota_array scores;
    ota_array matrix;
    const ota_array *terms;
    ota_array temperature;
    ota_array order;
    ota_array cap;
    ota_array strength;
    ota_array row_strength;
    ota_array row_mass;
    ota_array column_mass;
    int solved;
    ota_array lower, upper;
} ota_gradients;
OTA_API ota_status ota_backward(ota_plan *plan, const ota_arrays *arrays,
                                const ota_gradients *gradients, ota_result *result,
                                ota_error *error);
typedef struct ota_tangents {
    size_t size;
    ota_array scores;
    ota_array values;
    ota_array coupling;
    ota_array out;
    ota_array queries;
    ota_array keys;
    ota_array matrix;
    const ota_array *terms;
    ota_array temperature;
    ota_array order;
    ota_array cap;
    ota_array strength;
    ota_array row_strength;
    ota_array row_mass;
    ota_array column_mass;
    ota_array lower, upper;
} ota_tangents;
OTA_API ota_status ota_jvp(ota_plan *plan, const ota_arrays *arrays, const ota_tangents *tangents,
                           ota_result *result, ota_error *error);
typedef struct ota_certificate {
    size_t size;
    double row_error;
    double column_error;
    double primal;
    double dual;
    double gap;
    double value;
    double entropy;
    double support;
    double receiver_max, receiver_min;
    double delta;
    double minimum;
    double outside;
    int64_t empty_rows, nonfinite_rows;
    double cap_error;
} ota_certificate;
OTA_API ota_status ota_certify(const ota_problem *problem, const ota_options *options,
                               const ota_arrays *arrays, ota_certificate *certificate,
                               ota_certificate *per_head, ota_error *error);
OTA_API ota_status ota_rope(const ota_array *x, int64_t first, double base, ota_error *error);
OTA_API void ota_alibi_slopes(int64_t heads, double *slopes);
OTA_API const char *ota_solver_name(int index);
OTA_API const char *ota_kernel_name(int index);
OTA_API const char *ota_backend_name(int index);

typedef struct ota_assigner ota_assigner;
OTA_API ota_status ota_assigner_create(ota_assigner **assigner, const ota_options *options,
                                       ota_error *error);
OTA_API void ota_assigner_free(ota_assigner *assigner);
OTA_API size_t ota_assigner_bytes(const ota_assigner *assigner);
typedef struct ota_assignments {
    size_t size;
    int64_t count;
    int64_t rows, columns;
    const void *costs;
    ota_type type;
    int64_t problem_stride, row_stride, column_stride;
    const int64_t *rows_of, *columns_of, *offsets;
    int maximize;
    int limited;
    double cost_limit;
    const int *cancel;
    int64_t deadline_ns;
    int64_t *column_of;
    int64_t *row_of;
    int64_t *pair_row, *pair_column;
    int64_t *pairs;
    double *value;
    double *row_potential, *column_potential;
    double *bound;
    ota_status *status;
} ota_assignments;
OTA_API ota_status ota_assign(ota_assigner *assigner, const ota_assignments *batch,
                              ota_error *error);
typedef struct ota_ranked_assignments {
    size_t size;
    int64_t rows, columns;
    const void *costs;
    ota_type type;
    int64_t row_stride, column_stride;
    int maximize;
    int64_t wanted;
    const int *cancel;
    int64_t deadline_ns;
    int64_t *pair_row, *pair_column;
    double *value;
    double *bound;
    int64_t *found;
} ota_ranked_assignments;
OTA_API ota_status ota_assign_ranked(const ota_ranked_assignments *problem, ota_error *error);
typedef struct ota_bottleneck {
    size_t size;
    int64_t rows, columns;
    const void *costs;
    ota_type type;
    int64_t row_stride, column_stride;
    int maximize;
    const int *cancel;
    int64_t deadline_ns;
    int64_t *pair_row, *pair_column;
    double *value;
    double *bound;
    uint8_t *row_marked, *column_marked;
} ota_bottleneck;
OTA_API ota_status ota_assign_bottleneck(const ota_bottleneck *problem, ota_error *error);

typedef struct ota_bounded {
    size_t size;
    ota_array costs;
    ota_array points, centres;
    int64_t take;
    const int64_t *lower, *upper;
    const double *start;
    int unproved;
} ota_bounded;
typedef struct ota_bounded_result {
    size_t size;
    int64_t *chosen;
    double *prices;
    int64_t *loads;
    double cost;
    double dual;
    int64_t paths;
    int64_t fillings;
} ota_bounded_result;
OTA_API ota_status ota_assign_bounded(const ota_bounded *problem, const ota_options *options,
                                      ota_bounded_result *result, ota_error *error);

typedef struct ota_late_interaction {
    size_t size;
    ota_array queries, documents;
    const int64_t *query_lengths;
    const int64_t *offsets;
    const int64_t *document_lengths;
    int64_t document_count;
    int64_t capacity;
    int64_t top;
    int threads;
    const ota_executor *executor;
    const char *cpu;
    int64_t *chosen;
    const int *cancel;
    int64_t deadline_ns;
} ota_late_interaction;
OTA_API ota_status ota_maxsim(const ota_late_interaction *problem, float *scores, int64_t *best,
                              ota_error *error);
OTA_API ota_status ota_maxsim_backward(const ota_late_interaction *problem, const float *score_grad,
                                       float *query_grad, float *document_grad, ota_error *error);

typedef enum ota_normalize_order {
    OTA_NORMALIZE_DEEPSEEK = 0,
    OTA_NORMALIZE_SYMMETRIC = 1
} ota_normalize_order;
typedef struct ota_normalization {
    size_t size;
    ota_type type;
    ota_normalize_order order;
    int64_t count, side;
    int64_t rounds;
    double eps;
    double tolerance;
    int implicit;
    int threads;
    const ota_executor *executor;
    const char *cpu;
    const int *cancel;
    int64_t deadline_ns;
} ota_normalization;
OTA_API ota_status ota_normalize(const ota_normalization *problem, const void *scores, void *plan,
                                 ota_error *error);
OTA_API ota_status ota_normalize_backward(const ota_normalization *problem, const void *scores,
                                          const void *plan, const void *plan_grad,
                                          void *scores_grad, ota_error *error);

typedef enum ota_route_method {
    OTA_ROUTE_SINKHORN,
    OTA_ROUTE_TOPK,
    OTA_ROUTE_BASE,
    OTA_ROUTE_QUANTILE,
    OTA_ROUTE_GIVEN
} ota_route_method;
typedef struct ota_routing {
    size_t size;
    ota_array logits;
    int64_t take;
    const double *start;
    double tolerance;
    int64_t rounds;
    ota_route_method method;
    const int64_t *lower, *upper;
} ota_routing;
typedef struct ota_routing_result {
    size_t size;
    int64_t *chosen;
    double *shares;
    double *potentials;
    int64_t *loads;
    double value;
    int64_t rounds;
    int converged;
    int64_t excess;
    double *bound;
    uint8_t *kept;
    void *weights;
} ota_routing_result;
OTA_API ota_status ota_route(const ota_routing *problem, const ota_options *options,
                             ota_routing_result *result, ota_error *error);
typedef struct ota_router ota_router;
OTA_API ota_status ota_router_create(ota_router **router, const ota_options *options,
                                     ota_error *error);
OTA_API void ota_router_free(ota_router *router);
OTA_API ota_status ota_router_route(ota_router *router, const ota_routing *problem,
                                    ota_routing_result *result, ota_error *error);

#ifdef __cplusplus
}
#endif
#endif
