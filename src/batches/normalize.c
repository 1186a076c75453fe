/* otattn_normalize.h: checks, pieces of the batch for the threads, and one kernel a piece. */
#include "otattn_normalize.h"

#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "backend/batch_kernels.h"
#include "base/base.h"
#include "problem/check.h"
#include "problem/problem.h"

enum {
    ROUNDS = 20,
    ROUNDS_MOST = 1 << 20,
    PIECE = 512, /* matrices a thread takes at once: whole vectors at every level */
    /* Elements times rounds that are worth threads of their own, which take some 50 us to start. */
    WORTH_THREADS = 1 << 22
};

typedef void normalize_kernel(ota_normalize_block *block);

/* One call. */
typedef struct batch {
    ota_normalize_block block; /* of all matrices */
    size_t element;
    normalize_kernel *kernel;
    ota_settings settings;         /* for the watch */
    unsigned char *history, *room; /* history_bytes and room_bytes a worker */
    size_t history_bytes, room_bytes;
    _Atomic int64_t nonfinite, open;
} batch;

typedef struct operand {
    const char *field;
    const void *data;
} operand;

/* ---- checks ------------------------------------------------------------------------------------ */

static ota_status check_sizes(const ota_normalization *p, ota_error *error) {
    if (p->type != OTA_F32 && p->type != OTA_F64)
        return ota_fail(error, OTA_EINVAL, "type", "use OTA_F32 or OTA_F64", "type is %d",
                        (int)p->type);
    if (p->count < 0)
        return ota_fail(error, OTA_EINVAL, "count", "use 0 or more", "count is %" PRId64, p->count);
    if (p->side < OTA_NORMALIZE_LEAST || p->side > OTA_NORMALIZE_MOST)
        return ota_fail(error, OTA_EINVAL, "side", "matrices are 1 x 1 to 128 x 128",
                        "side is %" PRId64, p->side);
    if (p->count > INT64_MAX / (p->side * p->side * 8))
        return ota_fail(error, OTA_EOVERFLOW, "count", "use smaller batches",
                        "count is %" PRId64 ", more than memory can hold", p->count);
    return OTA_OK;
}

static ota_status check_order(const ota_normalization *p, ota_error *error) {
    if (p->order != OTA_NORMALIZE_DEEPSEEK && p->order != OTA_NORMALIZE_SYMMETRIC)
        return ota_fail(error, OTA_EINVAL, "order",
                        "use OTA_NORMALIZE_DEEPSEEK or OTA_NORMALIZE_SYMMETRIC", "order is %d",
                        (int)p->order);
    if (p->rounds < OTA_NO_ROUNDS || p->rounds > ROUNDS_MOST)
        return ota_fail(error, OTA_EINVAL, "rounds",
                        "use 1 to 1048576, 0 for 20 or OTA_NO_ROUNDS for none",
                        "rounds is %" PRId64, p->rounds);
    if (p->rounds == OTA_NO_ROUNDS && p->order == OTA_NORMALIZE_SYMMETRIC)
        return ota_fail(error, OTA_UNSUPPORTED, "rounds", "use 1 or more",
                        "rounds are none, and the symmetric order has nothing but rounds");
    if (!(p->eps >= 0.0) || p->eps > 1.0)
        return ota_fail(error, OTA_EINVAL, "eps", "use a number from 0 to 1", "eps is %g", p->eps);
    if (!(p->tolerance >= 0.0) || p->tolerance > 1.0)
        return ota_fail(error, OTA_EINVAL, "tolerance", "use a number from 0 to 1",
                        "tolerance is %g", p->tolerance);
    if (p->order == OTA_NORMALIZE_SYMMETRIC && p->eps > 0.0)
        return ota_fail(error, OTA_UNSUPPORTED, "eps", "set it to 0",
                        "eps is %g, but the symmetric order divides by the sums alone", p->eps);
    if (p->order == OTA_NORMALIZE_DEEPSEEK && p->tolerance > 0.0)
        return ota_fail(error, OTA_UNSUPPORTED, "tolerance", "use the symmetric order",
                        "tolerance is %g, but the order deepseek runs all its rounds",
                        p->tolerance);
    if (p->implicit != 0 && p->implicit != 1)
        return ota_fail(error, OTA_EINVAL, "implicit", "use 0 or 1", "implicit is %d", p->implicit);
    return OTA_OK;
}

static ota_status check_data(const operand *x, const ota_normalization *p, ota_error *error) {
    if (x->data == NULL)
        return ota_fail(error, OTA_EINVAL, x->field, "point it at the elements", "%s is NULL",
                        x->field);
    if ((uintptr_t)x->data % ota_type_bytes(p->type) != 0)
        return ota_fail(error, OTA_EALIGN, x->field, "align it to its elements",
                        "%s is not at a multiple of %zu bytes", x->field, ota_type_bytes(p->type));
    return OTA_OK;
}

/* The last operand is the output. */
static ota_status check_operands(const operand *x, int count, const ota_normalization *p,
                                 ota_error *error) {
    const operand *out = &x[count - 1];
    const size_t bytes = (size_t)(p->count * p->side * p->side) * ota_type_bytes(p->type);
    if (p->count == 0) return OTA_OK;
    for (int k = 0; k < count; k++) {
        const ota_status status = check_data(&x[k], p, error);
        if (status < 0) return status;
        const uintptr_t one = (uintptr_t)x[k].data, other = (uintptr_t)out->data;
        if (k < count - 1 && one < other + bytes && other < one + bytes)
            return ota_fail(error, OTA_EALIAS, out->field, "give it memory of its own",
                            "%s overlaps %s", out->field, x[k].field);
    }
    return OTA_OK;
}

static ota_status check(const ota_normalization *problem, ota_normalization *p, ota_error *error) {
    if (problem == NULL)
        return ota_fail(error, OTA_EINVAL, "problem", "give a problem", "problem is NULL");
    ota_status status =
        ota_check_sized(p, sizeof *p, problem, problem->size, "problem.size", error);
    if (status >= 0) status = check_sizes(p, error);
    if (status >= 0) status = check_order(p, error);
    if (status >= 0 && (p->threads < 0 || p->threads > OTA_THREADS_MAX))
        return ota_fail(error, OTA_EINVAL, "threads", "use 0 (all CPUs) to 4096", "threads is %d",
                        p->threads);
    if (status >= 0) status = ota_check_executor(p->executor, error);
    if (status >= 0) p->rounds = p->rounds == 0 ? ROUNDS : ota_int_max(p->rounds, 0);
    return status;
}

static ota_status choose(const ota_normalization *p, const ota_normalizers **kernels,
                         ota_error *error) {
    ota_batch_kernels found;
    if (!ota_batch_kernels_of(p->cpu, &found))
        return ota_fail(error, OTA_EINVAL, "cpu", "use a name of ota_kernel_name",
                        "cpu is \"%s\", which this processor does not have", p->cpu);
    *kernels = p->type == OTA_F32 ? found.normalize_f32 : found.normalize_f64;
    return OTA_OK;
}

/* ---- the run ----------------------------------------------------------------------------------- */

static const void *from(const void *data, size_t bytes) {
    return data == NULL ? NULL : (const unsigned char *)data + bytes;
}

/* Matrices [first, first + count) of the batch. */
static void run_part(batch *all, int64_t first, int64_t count, int worker) {
    ota_normalize_block block = all->block;
    const size_t bytes = (size_t)(first * block.side * block.side) * all->element;
    block.count = count;
    block.scores = from(block.scores, bytes);
    block.plan = from(block.plan, bytes);
    block.plan_grad = from(block.plan_grad, bytes);
    if (block.out != NULL) block.out = (unsigned char *)block.out + bytes;
    if (all->history != NULL) block.history = all->history + (size_t)worker * all->history_bytes;
    if (all->room != NULL) block.room = all->room + (size_t)worker * all->room_bytes;
    all->kernel(&block);
    (void)atomic_fetch_add_explicit(&all->nonfinite, block.nonfinite, memory_order_relaxed);
    (void)atomic_fetch_add_explicit(&all->open, block.open, memory_order_relaxed);
}

/* In parts of whole vectors that are worth a question whether to go on: of many rounds, few matrices. */
static void run_piece(void *context, int64_t index, int worker) {
    enum { VECTOR = 16 };
    batch *all = context;
    const int64_t work = ota_int_max(all->block.rounds, 1) * all->block.side * all->block.side;
    const int64_t last = ota_int_min((index + 1) * PIECE, all->block.count);
    ota_watch watch = ota_watch_of(&all->settings);
    for (int64_t first = index * PIECE, part; first < last; first += part) {
        const int64_t groups = OTA_WATCH_WORK / (VECTOR * work) + 1;
        part = ota_int_min(last - first, VECTOR * groups);
        if (ota_watch_ends(&watch, part * work)) return;
        run_part(all, first, part, worker);
    }
}

/* Threads only where there is work for them. */
static int threads_for(const ota_normalization *p) {
    if (p->executor != NULL) return p->threads;
    const int64_t work = p->count * p->side * p->side;
    return work < WORTH_THREADS / ota_int_max(p->rounds, 1) || p->count <= PIECE ? 1 : p->threads;
}

static void place(batch *all, ota_arena *arena, int workers) {
    all->history = ota_arena_take_rows(arena, workers, (int64_t)all->history_bytes, 1);
    all->room = ota_arena_take_rows(arena, workers, (int64_t)all->room_bytes, 1);
}

static ota_status run(const ota_normalization *p, batch *all, int64_t kept, ota_error *error) {
    if (p->count == 0) return OTA_OK;
    ota_pool *pool = NULL;
    const int threads = threads_for(p);
    if (threads != 1 || p->executor != NULL) {
        const ota_status status = ota_pool_create(&pool, threads, p->executor);
        if (status < 0)
            return ota_fail(error, status, "threads", "use fewer threads",
                            "no pool of %d threads can be had", threads);
    }
    ota_arena arena = {0};
    all->history_bytes = (size_t)(kept * p->rounds * p->side) * 64;
    if (p->side > OTA_NORMALIZE_SMALL)
        all->room_bytes = (size_t)(3 * p->side * p->side + 8 * p->side) * 64;
    ota_status status = OTA_OK;
    if (all->history_bytes + all->room_bytes > 0) {
        place(all, &arena, ota_pool_threads(pool));
        status = ota_arena_allocate(&arena);
        if (status == OTA_OK) place(all, &arena, ota_pool_threads(pool));
    }
    if (status == OTA_OK) {
        ota_parallel(pool, ota_int_ceil_div(p->count, PIECE), run_piece, all);
        status = ota_interrupted(&all->settings);
        if (status != OTA_OK) {
            const ota_array out =
                ota_array_of(all->block.out, p->type, 1, 1, p->count, p->side * p->side);
            ota_array_poison(pool, &out, 0, 0);
            (void)ota_fail(error, status, "", "", "%s", ota_status_text(status));
        }
    } else {
        (void)ota_fail(error, status, "rounds",
                       "use smaller matrices, fewer rounds or implicit gradients",
                       "there is no memory for what %" PRId64 " rounds keep", p->rounds);
    }
    ota_arena_release(&arena);
    ota_pool_free(pool);
    return status;
}

static batch batch_of(const ota_normalization *p, normalize_kernel *kernel) {
    return (batch){.block = {.count = p->count,
                             .side = p->side,
                             .rounds = p->rounds,
                             .symmetric = p->order == OTA_NORMALIZE_SYMMETRIC,
                             .eps = p->eps,
                             .tolerance = p->tolerance},
                   .element = ota_type_bytes(p->type),
                   .settings = {.calls.cancel = p->cancel, .limits.deadline_ns = p->deadline_ns},
                   .kernel = kernel};
}

ota_status ota_normalize(const ota_normalization *problem, const void *scores, void *plan,
                         ota_error *error) {
    ota_normalization p;
    const ota_normalizers *kernels = NULL;
    ota_status status = check(problem, &p, error);
    if (status >= 0) status = choose(&p, &kernels, error);
    const operand operands[] = {{"scores", scores}, {"plan", plan}};
    if (status >= 0) status = check_operands(operands, 2, &p, error);
    if (status < 0) return status;
    batch all = batch_of(&p, kernels->forward);
    all.block.scores = scores;
    all.block.out = plan;
    status = run(&p, &all, 0, error);
    if (status < 0) return status;
    if (all.nonfinite > 0) return OTA_NONFINITE_ROWS;
    if (p.tolerance == 0.0) return OTA_FIXED_ITERS;
    return all.open > 0 ? OTA_PARTIAL : OTA_OK;
}

ota_status ota_normalize_backward(const ota_normalization *problem, const void *scores,
                                  const void *plan, const void *plan_grad, void *scores_grad,
                                  ota_error *error) {
    ota_normalization p;
    const ota_normalizers *kernels = NULL;
    ota_status status = check(problem, &p, error);
    if (status >= 0) status = choose(&p, &kernels, error);
    if (status < 0) return status;
    const bool implicit = p.implicit != 0;
    const operand operands[] = {implicit ? (operand){"plan", plan} : (operand){"scores", scores},
                                {"plan_grad", plan_grad},
                                {"scores_grad", scores_grad}};
    status = check_operands(operands, 3, &p, error);
    if (status < 0) return status;
    batch all = batch_of(&p, implicit ? kernels->implicit : kernels->reverse);
    all.block.scores = scores;
    all.block.plan = plan;
    all.block.plan_grad = plan_grad;
    all.block.out = scores_grad;
    status = run(&p, &all, implicit ? 0 : OTA_NORMALIZE_KEPT, error);
    if (status < 0) return status;
    return all.nonfinite > 0 ? OTA_NONFINITE_ROWS : OTA_OK;
}
