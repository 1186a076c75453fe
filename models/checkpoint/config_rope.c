/* Rotary positions of config.json: their kind, and the numbers that it takes. */
#include "config_reader.h"

#include "base/base.h"

/* Numbers of a scaling, and the kinds that read them. */
enum {
    OF_LINEAR = 1 << OTA_ROPE_LINEAR,
    OF_LLAMA3 = 1 << OTA_ROPE_LLAMA3,
    OF_YARN = 1 << OTA_ROPE_YARN,
    OF_LONG = 1 << OTA_ROPE_LONG,
    OF_DYNAMIC = 1 << OTA_ROPE_DYNAMIC,
    BY_CONTEXT = OF_LLAMA3 | OF_YARN | OF_LONG /* kinds that depend on the original context */
};

static const struct {
    const char *key;
    size_t offset; /* in ota_rope_scaling */
    unsigned kinds;
    bool positive; /* 0 stands for a number that is not said, so it cannot be said */
} scaling_numbers[] = {
    {"factor", offsetof(ota_rope_scaling, factor),
     OF_LINEAR | OF_LLAMA3 | OF_YARN | OF_LONG | OF_DYNAMIC, true},
    {"low_freq_factor", offsetof(ota_rope_scaling, low), OF_LLAMA3, true},
    {"high_freq_factor", offsetof(ota_rope_scaling, high), OF_LLAMA3, true},
    {"beta_slow", offsetof(ota_rope_scaling, low), OF_YARN, true},
    {"beta_fast", offsetof(ota_rope_scaling, high), OF_YARN, true},
    {"attention_factor", offsetof(ota_rope_scaling, attention), OF_YARN | OF_LONG, true},
    {"mscale", offsetof(ota_rope_scaling, scale), OF_YARN, false},
    {"mscale_all_dim", offsetof(ota_rope_scaling, scale_all), OF_YARN, false},
};

/* A number that the kind is not stretched by must be none or 1. */
static ota_status read_scaling_numbers(ota_reader *r, const char *object,
                                       ota_rope_scaling *scaling) {
    for (size_t k = 0; k < sizeof scaling_numbers / sizeof *scaling_numbers; k++) {
        const char *key = scaling_numbers[k].key;
        double number = 0;
        const ota_status status = ota_reader_real(r, key, &number);
        if (status != OTA_OK) return status;
        if ((scaling_numbers[k].kinds >> scaling->kind & 1) != 0) {
            const bool said = ota_reader_value(r, key) != NULL;
            if (said && scaling_numbers[k].positive && !(number > 0))
                return ota_reader_refuse(r, key, "must be above 0");
            if (said) *(double *)((char *)scaling + scaling_numbers[k].offset) = number;
            continue;
        }
        if (number == 0 || number == 1) continue;
        (void)ota_refuse_at(r->error, r->path, 0, "\"%s\" in %s has no effect with this rope_type",
                            key, object);
        return ota_advise(
            r->error, OTA_UNSUPPORTED,
            "name the type of scaling (linear, llama3, yarn, longrope, dynamic), or take the "
            "number out");
    }
    return OTA_OK;
}

static ota_status read_divisors(ota_reader *r, const char *key, int64_t *count, float *out) {
    const json_t *list = ota_reader_value(r, key);
    if (!json_is_array(list) || json_array_size(list) > OTA_PAIRS_MOST)
        return ota_reader_refuse(r, key,
                                 "must be a list of numbers, one a pair of a head's numbers");
    *count = (int64_t)json_array_size(list);
    for (int64_t k = 0; k < *count; k++) {
        const json_t *one = json_array_get(list, (size_t)k);
        if (!json_is_number(one) || !(json_number_value(one) > 0))
            return ota_reader_refuse(r, key, "must be a list of numbers above 0");
        out[k] = (float)json_number_value(one);
    }
    return OTA_OK;
}

static ota_status read_two_lists(ota_reader *r, ota_rope_scaling *scaling) {
    int64_t longer;
    ota_status status = read_divisors(r, "short_factor", &scaling->divisors, scaling->shorter);
    if (status == OTA_OK) status = read_divisors(r, "long_factor", &longer, scaling->longer);
    if (status != OTA_OK || longer == scaling->divisors) return status;
    return ota_reader_refuse(r, "long_factor", "has another length than short_factor");
}

static ota_status read_type(ota_reader *r, const char *object, ota_rope_scaling *scaling) {
    const json_t *type = ota_reader_value(r, "rope_type"), *older = ota_reader_value(r, "type");
    if (type != NULL && older != NULL && !json_equal(type, older))
        return ota_reader_refuse(r, object, "\"rope_type\" and \"type\" differ");
    if (type == NULL) type = older;
    if (type == NULL) return OTA_OK;
    if (!json_is_string(type)) return ota_reader_refuse(r, object, "the type must be a word");
    if (ota_rope_named(json_string_value(type), &scaling->kind)) return OTA_OK;
    (void)ota_refuse_at(r->error, r->path, 0,
                        "\"%s\": rotary positions of type \"%.40s\" are not known", object,
                        json_string_value(type));
    return ota_advise(
        r->error, OTA_UNSUPPORTED,
        "default, linear, llama3, yarn, longrope and dynamic are carried out; " OTA_ELSEWHERE);
}

/* `scaling->original` holds what stands for it where the object has none. */
static ota_status read_scaling(ota_reader *r, const char *object, ota_rope_scaling *scaling) {
    ota_status status = read_type(r, object, scaling);
    if (scaling->kind == OTA_ROPE_YARN) {
        scaling->low = 1;
        scaling->high = 32;
        /* A missing key is true there, and null is false. */
        scaling->whole = !json_is_null(json_object_get(r->tree, "truncate"));
        if (status == OTA_OK)
            status =
                ota_reader_truth(r, "truncate", ota_reader_value(r, "truncate"), &scaling->whole);
    }
    if (status == OTA_OK && scaling->kind == OTA_ROPE_LONG) status = read_two_lists(r, scaling);
    if (status == OTA_OK) status = read_scaling_numbers(r, object, scaling);
    if (status == OTA_OK)
        status = ota_reader_real(r, "original_max_position_embeddings", &scaling->original);
    const char *fault = status == OTA_OK ? ota_rope_fault(scaling) : NULL;
    return fault != NULL ? ota_reader_refuse(r, object, fault) : status;
}

typedef struct rope_target {
    ota_rope_scaling *scaling;
    double *base, *share;
} rope_target;

static ota_status read_rope_object(ota_reader *r, const char *name,
                                   const ota_architecture *architecture, rope_target to) {
    const json_t *object = ota_reader_value(r, name);
    if (object == NULL) return OTA_OK;
    if (!json_is_object(object)) return ota_reader_refuse(r, name, "must be an object");
    ota_reader inner = {.path = r->path, .tree = object, .error = r->error};
    ota_status status = read_scaling(&inner, name, to.scaling);
    if (status == OTA_OK) status = ota_reader_real(&inner, "rope_theta", to.base);
    if (status == OTA_OK && ota_architecture_has(architecture, OTA_ARCH_PARTIAL))
        status = ota_reader_real(&inner, "partial_rotary_factor", to.share);
    return status == OTA_OK ? ota_reader_refuse_rest(&inner, architecture, name) : status;
}

/* Of local layers and the others, which have settings of their own. */
static ota_status read_two_ropes(ota_reader *r, const ota_architecture *architecture,
                                 ota_config *config) {
    const json_t *object = ota_reader_value(r, "rope_parameters");
    if (object == NULL) return OTA_OK;
    if (!json_is_object(object))
        return ota_reader_refuse(r, "rope_parameters", "must be an object");
    ota_reader inner = {.path = r->path, .tree = object, .error = r->error};
    ota_rope_scaling local = {.original = config->rope.scaling.original};
    ota_status status = read_rope_object(
        &inner, "full_attention", architecture,
        (rope_target){&config->rope.scaling, &config->rope.base, &config->rope.share});
    if (status == OTA_OK)
        status =
            read_rope_object(&inner, "sliding_attention", architecture,
                             (rope_target){&local, &config->rope.local_base, &config->rope.share});
    if (status == OTA_OK) status = ota_reader_refuse_rest(&inner, architecture, "rope_parameters");
    if (status != OTA_OK || local.kind == OTA_ROPE_PLAIN) return status;
    (void)ota_reader_refuse(r, "sliding_attention",
                            "rotary positions of local layers are not scaled");
    return OTA_UNSUPPORTED;
}

static bool holds_any(const json_t *object) {
    return object != NULL && (!json_is_object(object) || json_object_size(object) > 0);
}

ota_status ota_reader_rope(ota_reader *r, const ota_architecture *architecture,
                           ota_config *config) {
    const json_t *newer = ota_reader_value(r, "rope_parameters"),
                 *older = ota_reader_value(r, "rope_scaling");
    if (holds_any(newer) && holds_any(older) && !json_equal(newer, older))
        return ota_reader_refuse(r, "rope_scaling", "differs from \"rope_parameters\" beside it");
    ota_rope_scaling *scaling = &config->rope.scaling;
    const double outside = scaling->original;
    if (outside == 0) scaling->original = (double)config->sizes[OTA_SIZE_POSITIONS];
    if (ota_architecture_has(architecture, OTA_ARCH_YARN_UNSAID) && newer == NULL &&
        !holds_any(older))
        *scaling = (ota_rope_scaling){
            .kind = OTA_ROPE_YARN, .factor = 32, .low = 1, .high = 32, .original = 4096};
    const rope_target all = {scaling, &config->rope.base, &config->rope.share};
    ota_status status = read_rope_object(r, "rope_scaling", architecture, all);
    if (status != OTA_OK) return status;
    status = ota_architecture_has(architecture, OTA_ARCH_TWO_ROPES)
                 ? read_two_ropes(r, architecture, config)
                 : read_rope_object(r, "rope_parameters", architecture, all);
    if (status != OTA_OK || outside == 0 || (1u << scaling->kind & BY_CONTEXT) == 0) return status;
    /* transformers takes the one outside, and the class's own where there is none. */
    if (scaling->original < outside || scaling->original > outside)
        return ota_refuse_at(r->error, r->path, 0,
                             "the original context is %.17g in the object about rotary positions, "
                             "and %.17g outside of it",
                             scaling->original, outside);
    return OTA_OK;
}
