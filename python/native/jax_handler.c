/* jax_handler.c: the calls that a program compiled by XLA makes.
 *
 *     ota_jax_handler     one solve, or the gradients of one: arguments and results [batch, heads, rows, columns] or single
 *                         numbers; attributes
 *         call    a struct call as bytes, everything but addresses and traced numbers filled by Python
 *         places  2 int64 for every argument, then every result: kind and byte offset in the call
 *     ota_jax_normalize   many small matrices: scores [..., side, side] become plans, or what backward reads of forward and
 *                         the gradients of plans become those of scores; attribute
 *         recipe  an ota_normalization as bytes, without type, count and side
 *
 * The structs below are the part that this file reads of XLA's C interface for foreign functions, version 0.1
 * and later, which only ever grows at the end of a struct. tests compare them with the header in jaxlib. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/system.h"
#include "jax_plans.h"
#include "otattn.h"
#include "otattn_normalize.h"

enum { TERMS = 6, SUPPORTS = 4, NAME = 32 };
enum { PLACE_ADDRESS = 0, PLACE_NUMBER = 1 };

/* Mirrored by python/otattn/_jax_ffi.py. */
typedef struct call {
    size_t size; /* sizeof(call) of Python */
    int64_t values_width;
    int64_t forward, backward; /* what is to be run */
    int64_t budget_ns;         /* of every run, from its begin on; 0: none */
    ota_problem problem;
    ota_options options;
    ota_arrays arrays;
    ota_gradients gradients;
    ota_term terms[TERMS];
    ota_support supports[SUPPORTS];
    ota_array term_gradients[TERMS];
    char solver[NAME], backend[NAME]; /* "" chooses */
} call;

enum { XLA_METADATA = 1, XLA_F32 = 11, XLA_F64 = 12, XLA_INVALID_ARGUMENT = 3, XLA_INTERNAL = 13 };

typedef struct xla_error xla_error;

typedef struct xla_extension {
    size_t size;
    int type;
    struct xla_extension *next;
} xla_extension;

typedef struct xla_version {
    size_t size;
    xla_extension *extension;
    int major, minor;
} xla_version;

typedef struct xla_new_error {
    size_t size;
    xla_extension *extension;
    const char *message;
    int code;
} xla_new_error;

typedef struct xla_api {
    size_t size;
    xla_extension *extension;
    xla_version version;
    const void *internal;
    xla_error *(*new_error)(xla_new_error *);
} xla_api;

typedef struct xla_buffer {
    size_t size;
    xla_extension *extension;
    int type;
    void *data;
    int64_t rank;
    int64_t *sizes;
} xla_buffer;

/* Arguments and results. */
typedef struct xla_buffers {
    size_t size;
    xla_extension *extension;
    int64_t count;
    int *types;
    xla_buffer **buffers;
} xla_buffers;

typedef struct xla_text {
    const char *data;
    size_t length;
} xla_text;

typedef struct xla_array {
    int type;
    size_t count;
    void *data;
} xla_array;

typedef struct xla_attributes {
    size_t size;
    xla_extension *extension;
    int64_t count;
    int *types;
    xla_text **names;
    xla_array **values;
} xla_attributes;

typedef struct xla_frame {
    size_t size;
    xla_extension *extension;
    const xla_api *api;
    void *context;
    int stage;
    xla_buffers arguments, results;
    xla_attributes attributes;
} xla_frame;

typedef struct xla_metadata {
    size_t size;
    xla_version version;
    uint32_t traits;
    int64_t state_type;
} xla_metadata;

typedef struct xla_metadata_extension {
    xla_extension base;
    xla_metadata *metadata;
} xla_metadata_extension;

OTA_API xla_error *ota_jax_handler(xla_frame *frame);
OTA_API xla_error *ota_jax_normalize(xla_frame *frame);

/* XLA asks before the first call which version the handler speaks. */
static void tell_version(const xla_frame *frame, xla_metadata *metadata) {
    const int ours = 3, theirs = frame->api == NULL ? ours : frame->api->version.minor;
    metadata->version.major = 0;
    metadata->version.minor = theirs < ours ? theirs : ours;
    metadata->traits = 0;
    if (metadata->size >= offsetof(xla_metadata, state_type) + sizeof(int64_t))
        metadata->state_type = 0;
}

static xla_error *fail(const xla_frame *frame, const char *message, const char *hint, int code) {
    char text[sizeof(ota_error)];
    const char *between = hint[0] == '\0' ? "" : "; ";
    snprintf(text, sizeof text, "%s%s%s", message, between, hint);
    xla_new_error wanted = {.size = sizeof wanted, .message = text, .code = code};
    return frame->api->new_error(&wanted);
}

static const xla_array *attribute(const xla_frame *frame, const char *name) {
    const xla_attributes *all = &frame->attributes;
    for (int64_t k = 0; k < all->count; k++) {
        const xla_text *found = all->names[k];
        if (found->length == strlen(name) && memcmp(found->data, name, found->length) == 0)
            return all->values[k];
    }
    return NULL;
}

/* Puts the address of a buffer, or the number it holds, where its place says. */
static int put(call *c, const xla_buffer *buffer, const int64_t *place) {
    const int64_t offset = place[1];
    if (offset < 0 || offset > (int64_t)(sizeof *c - sizeof(double))) return 0;
    char *at = (char *)c + offset;
    if (place[0] == PLACE_ADDRESS) {
        memcpy(at, &buffer->data, sizeof buffer->data);
        return 1;
    }
    double number = 0.0;
    if (place[0] != PLACE_NUMBER) return 0;
    if (buffer->type == XLA_F64) {
        memcpy(&number, buffer->data, sizeof number);
    } else if (buffer->type == XLA_F32) {
        float narrow;
        memcpy(&narrow, buffer->data, sizeof narrow);
        number = (double)narrow;
    } else {
        return 0;
    }
    memcpy(at, &number, sizeof number);
    return 1;
}

static int fill(call *c, const xla_frame *frame) {
    const xla_array *bytes = attribute(frame, "call"), *places = attribute(frame, "places");
    const int64_t arguments = frame->arguments.count, results = frame->results.count;
    if (bytes == NULL || bytes->count != sizeof *c || places == NULL ||
        places->count != 2 * (size_t)(arguments + results))
        return 0;
    memcpy(c, bytes->data, sizeof *c);
    if (c->size != sizeof *c || c->problem.term_count > TERMS ||
        c->problem.support_count > SUPPORTS)
        return 0;
    const int64_t *place = places->data;
    for (int64_t k = 0; k < arguments; k++, place += 2)
        if (!put(c, frame->arguments.buffers[k], place)) return 0;
    for (int64_t k = 0; k < results; k++, place += 2)
        if (!put(c, frame->results.buffers[k], place)) return 0;
    c->problem.terms = c->terms;
    c->problem.supports = c->supports;
    c->gradients.terms = c->term_gradients;
    c->options.solver = c->solver[0] == '\0' ? NULL : c->solver;
    c->options.backend = c->backend[0] == '\0' ? NULL : c->backend;
    return 1;
}

/* A plan for the call: an idle one of its name that goes on with these arrays and numbers, or a new one. */
static ota_status bind(const call *c, const xla_array *name, ota_plan **plan, ota_error *error) {
    *plan = jax_take_plan(name->data, name->count);
    if (*plan != NULL) {
        if (ota_plan_rebind(*plan, &c->problem, error) >= 0) return OTA_OK;
        ota_plan_free(*plan);
        *error = (ota_error){.message = ""};
    }
    return ota_plan_create(plan, &c->problem, c->values_width, &c->options, error);
}

static ota_status run(call *c, const xla_array *name, ota_result *result, ota_error *error) {
    ota_plan *plan = NULL;
    const int64_t deadline = c->budget_ns > 0 ? ota_now_ns() + c->budget_ns : 0;
    ota_status status = bind(c, name, &plan, error);
    if (status < 0) return status;
    ota_plan_set_deadline(plan, deadline);
    if (c->forward) status = ota_forward(plan, &c->arrays, result, error);
    if (status >= 0 && c->backward)
        status = ota_backward(plan, &c->arrays, &c->gradients, result, error);
    jax_give_plan(plan, name->data, name->count);
    return status;
}

/* Was the version all that XLA asked for? */
static int told_version(const xla_frame *frame) {
    for (xla_extension *x = frame->extension; x != NULL; x = x->next)
        if (x->type == XLA_METADATA) {
            tell_version(frame, ((xla_metadata_extension *)(void *)x)->metadata);
            return 1;
        }
    return 0;
}

static xla_error *fail_of_version(const xla_frame *frame) {
    return fail(frame, "the compiled program is of another version of otattn", "compile it again",
                XLA_INVALID_ARGUMENT);
}

xla_error *ota_jax_handler(xla_frame *frame) {
    if (told_version(frame)) return NULL;
    call *c = malloc(sizeof *c);
    if (c == NULL) return fail(frame, "there is no memory for the call", "", XLA_INTERNAL);
    if (!fill(c, frame)) {
        free(c);
        return fail_of_version(frame);
    }
    ota_error error = {.message = ""};
    ota_result result = {.size = sizeof result};
    const ota_status status = run(c, attribute(frame, "call"), &result, &error);
    free(c);
    if (status >= 0) return NULL;
    const char *sentence = error.message[0] != '\0'     ? error.message
                           : result.sentence[0] != '\0' ? result.sentence
                                                        : ota_status_text(status);
    return fail(frame, sentence, error.hint, XLA_INVALID_ARGUMENT);
}

xla_error *ota_jax_normalize(xla_frame *frame) {
    if (told_version(frame)) return NULL;
    const xla_array *recipe = attribute(frame, "recipe");
    const xla_buffer *first = frame->arguments.buffers[0];
    ota_normalization problem;
    if (recipe == NULL || recipe->count != sizeof problem || first->rank < 2)
        return fail_of_version(frame);
    memcpy(&problem, recipe->data, sizeof problem);
    problem.type = first->type == XLA_F64 ? OTA_F64 : OTA_F32;
    problem.side = first->sizes[first->rank - 1];
    problem.count = 1;
    for (int64_t k = 0; k < first->rank - 2; k++) problem.count *= first->sizes[k];
    void *result = frame->results.buffers[0]->data;
    ota_error error = {.message = ""};
    const ota_status status =
        frame->arguments.count == 1
            ? ota_normalize(&problem, first->data, result, &error)
            : ota_normalize_backward(&problem, first->data, first->data,
                                     frame->arguments.buffers[1]->data, result, &error);
    return status >= 0 ? NULL : fail(frame, error.message, error.hint, XLA_INVALID_ARGUMENT);
}
