/* What follows from the settings of either format: sizes, layers by kind, the last checks. */
#include "base/base.h"
#include "config.h"

#include <stdarg.h>
#include <stddef.h>

enum { MOST_POSITIONS = 1 << 20 };

void ota_config_set(ota_config *config, const ota_config_key *key, double value) {
    void *field = (char *)config + key->offset;
    switch (key->kind) {
    case OTA_KEY_INTEGER:
    case OTA_KEY_INTEGER_OR_NULL: *(int64_t *)field = (int64_t)value; break;
    case OTA_KEY_REAL:
    case OTA_KEY_REAL_OR_NULL: *(double *)field = value; break;
    case OTA_KEY_TRUTH:
    case OTA_KEY_TRUTH_OR_NULL: *(bool *)field = value != 0; break;
    case OTA_KEY_NOT: *(bool *)field = value == 0; break;
    }
}

typedef struct finishing {
    const ota_architecture *architecture;
    ota_config *config;
    bool gguf;
    const char *path;
    ota_error *error;
} finishing;

/* The sentence about a field, behind the key that says it in this format, of several the last; a format without such a key has the
 * sentence alone. */
__attribute__((format(printf, 3, 4))) static ota_status refuse_field(const finishing *f,
                                                                     size_t offset,
                                                                     const char *format, ...) {
    char sentence[256];
    const char *name = NULL;
    const ota_config_key *key;
    va_list arguments;
    va_start(arguments, format);
    (void)ota_vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    for (int i = 0; (key = ota_architecture_key(f->architecture, i)) != NULL; i++)
        if (key->offset == offset && (f->gguf ? key->gguf : key->hub) != NULL)
            name = f->gguf ? key->gguf : key->hub;
    if (name == NULL) return ota_refuse_at(f->error, f->path, 0, "%s", sentence);
    return ota_refuse_at(f->error, f->path, 0, "\"%s%s%s\": %s",
                         f->gguf ? f->architecture->name : "", f->gguf ? "." : "", name, sentence);
}

/* Which layers see a window, and which have no positions. */
static void choose_layers(const ota_architecture *architecture, ota_config *config) {
    if (!config->local.windowed) config->local.window = 0;
    /* Half of a window of 1 is 0: the token itself. */
    const bool given = config->local.window > 0;
    if (ota_architecture_has(architecture, OTA_ARCH_WINDOW_BOTH)) config->local.window /= 2;
    for (int64_t k = 0; config->rope.replaced && k < config->layers; k++)
        config->rope.spared[k] = true;
    for (int64_t k = 0; config->rope.spared_period > 0 && k < config->layers; k++)
        config->rope.spared[k] = (k + 1) % config->rope.spared_period == 0;
    /* Where a list says which layers see a window it has been read already. */
    for (int64_t k = 0; config->local.period > 0 && k < config->layers; k++)
        config->local.layers[k] = given && k >= config->local.first &&
                                  (config->local.end == 0 || k < config->local.end) &&
                                  (ota_architecture_has(architecture, OTA_ARCH_SPARED)
                                       ? config->rope.spared[k]
                                       : (k + 1 - config->local.shift) % config->local.period != 0);
}

static ota_status finish_experts(ota_config *config, const char *path, ota_error *error) {
    ota_expert_config *experts = &config->experts;
    int64_t *sizes = config->sizes;
    const int64_t all = sizes[OTA_SIZE_EXPERTS];
    if (experts->chosen > all || (experts->chosen < 1 && all > 0))
        return ota_refuse_at(error, path, 0, "each token has %lld of %lld experts",
                             (long long)experts->chosen, (long long)all);
    sizes[OTA_SIZE_CHOSEN] = experts->chosen;
    if (experts->gating == 2) {
        experts->sigmoid = true;
        experts->group_best = 2;
    }
    if (sizes[OTA_SIZE_EXPERT_INNER] == 0) sizes[OTA_SIZE_EXPERT_INNER] = sizes[OTA_SIZE_INNER];
    if (sizes[OTA_SIZE_SHARED_INNER] == 0)
        sizes[OTA_SIZE_SHARED_INNER] = experts->shared * sizes[OTA_SIZE_EXPERT_INNER];
    for (int64_t k = 0; k < config->layers; k++)
        experts->dense[k] |=
            k < experts->first || (experts->period > 0 && (k + 1) % experts->period != 0);
    if (experts->groups == 0) return OTA_OK;
    const int64_t size = all / experts->groups;
    if (all % experts->groups != 0 || experts->groups_chosen < 1 ||
        experts->groups_chosen > experts->groups || size < experts->group_best ||
        experts->chosen > experts->groups_chosen * size)
        return ota_refuse_at(error, path, 0,
                             "%lld of %lld experts do not come from %lld of %lld groups",
                             (long long)experts->chosen, (long long)all,
                             (long long)experts->groups_chosen, (long long)experts->groups);
    return OTA_OK;
}

/* A head of latent attention is what is not rotated and what is. */
static ota_status finish_latent(ota_config *config, const char *path, ota_error *error) {
    const ota_rope_scaling *scaling = &config->rope.scaling;
    if (config->latent.value_width > 0) config->value_width = config->latent.value_width;
    /* Hub files: cosines and sines would have that many, which is fewer, and all pairs those of the first. */
    if (config->latent.plain > 0 && config->head_width > 0 &&
        config->head_width != config->rotary_width)
        return ota_refuse_at(error, path, 0,
                             "\"head_dim\" is %lld, and %lld numbers of a head are rotated",
                             (long long)config->head_width, (long long)config->rotary_width);
    if (config->latent.plain == 0)
        config->latent.plain =
            (config->latent.key_width > 0 ? config->latent.key_width : config->head_width) -
            config->rotary_width;
    if (config->latent.plain < 1 || config->value_width < 1)
        return ota_refuse_at(error, path, 0,
                             "%lld numbers of a head are rotated, and it has no more",
                             (long long)config->rotary_width);
    config->head_width = config->latent.plain + config->rotary_width;
    if (config->kv_heads != 0 && config->kv_heads != config->heads)
        return ota_refuse_at(error, path, 0, "latent attention has as many key heads as heads");
    if (scaling->kind == OTA_ROPE_YARN && scaling->scale_all > 0 && scaling->factor > 1) {
        const double scale = 0.1 * scaling->scale_all * __builtin_log(scaling->factor) + 1;
        config->scores.factor = scale * scale / __builtin_sqrt((double)config->head_width);
    } else if (scaling->kind != OTA_ROPE_PLAIN && scaling->kind != OTA_ROPE_YARN) {
        (void)ota_refuse_at(
            error, path, 0,
            "rotary positions of latent attention are scaled otherwise than by yarn");
        return ota_advise(error, OTA_UNSUPPORTED,
                          "default and yarn are carried out; " OTA_ELSEWHERE);
    }
    return OTA_OK;
}

static ota_status finish_heads(const finishing *f) {
    const ota_architecture *architecture = f->architecture;
    ota_config *config = f->config;
    const int64_t width = config->sizes[OTA_SIZE_WIDTH];
    if (ota_architecture_has(architecture, OTA_ARCH_LATENT)) {
        const ota_status status = finish_latent(config, f->path, f->error);
        if (status != OTA_OK) return status;
    }
    if (config->form.single_key && !config->form.key_groups) config->kv_heads = 1;
    if (config->kv_heads == 0) config->kv_heads = config->heads;
    if (config->head_width == 0 && !ota_architecture_has(architecture, OTA_ARCH_PARTIAL))
        config->head_width = config->rotary_width;
    if (config->head_width == 0) {
        if (width % config->heads != 0)
            return refuse_field(f, offsetof(ota_config, heads),
                                "the width %lld is no multiple of %lld heads", (long long)width,
                                (long long)config->heads);
        config->head_width = width / config->heads;
    }
    if (config->heads % config->kv_heads != 0)
        return refuse_field(f, offsetof(ota_config, kv_heads),
                            "%lld heads are no multiple of %lld key heads",
                            (long long)config->heads, (long long)config->kv_heads);
    if (config->value_width == 0) config->value_width = config->head_width;
    return OTA_OK;
}

static ota_status finish_rope(const finishing *f) {
    const ota_architecture *architecture = f->architecture;
    ota_config *config = f->config;
    const ota_rope_config *rope = &config->rope;
    if (config->rotary_width == 0)
        config->rotary_width = (int64_t)((double)config->head_width * rope->share);
    if (config->rotary_width != config->head_width &&
        !ota_architecture_has(architecture, OTA_ARCH_PARTIAL | OTA_ARCH_LATENT))
        return refuse_field(f, offsetof(ota_config, rotary_width),
                            "%lld of %lld numbers of a head are rotated; only all of them are run",
                            (long long)config->rotary_width, (long long)config->head_width);
    if (config->rotary_width < 2 || config->rotary_width > config->head_width ||
        config->rotary_width % 2 != 0)
        return refuse_field(f, offsetof(ota_config, rotary_width),
                            "rotary positions need an even number of a head's %lld numbers, not "
                            "%lld",
                            (long long)config->head_width, (long long)config->rotary_width);
    const bool two = ota_architecture_has(architecture, OTA_ARCH_TWO_ROPES);
    const bool poor = !(rope->base > 1) || rope->base > 1e12;
    if (poor || (two && (!(rope->local_base > 1) || rope->local_base > 1e12)))
        return refuse_field(
            f, poor ? offsetof(ota_config, rope.base) : offsetof(ota_config, rope.local_base),
            "rotary positions need a base above 1");
    if (rope->scaling.kind == OTA_ROPE_DYNAMIC) {
        /* Whatever else the file says of an original context. */
        config->rope.scaling.original = (double)config->sizes[OTA_SIZE_POSITIONS];
        const double positions = rope->scaling.factor * rope->scaling.original;
        if (two || config->rotary_width < 4)
            return ota_refuse_at(f->error, f->path, 0,
                                 "such rotary positions are not scaled dynamically");
        config->sizes[OTA_SIZE_POSITIONS] =
            positions < (double)MOST_POSITIONS ? (int64_t)positions : MOST_POSITIONS;
    }
    if (rope->scaling.kind == OTA_ROPE_LONG && rope->scaling.divisors != 0 &&
        rope->scaling.divisors != config->rotary_width / 2)
        return ota_refuse_at(
            f->error, f->path, 0, "longrope has %lld divisors for %lld frequencies",
            (long long)rope->scaling.divisors, (long long)(config->rotary_width / 2));
    return OTA_OK;
}

/* Each piece of an image is a token, behind the one of the whole. */
static ota_status finish_image(ota_config *config, const char *path, ota_error *error) {
    const ota_image_config *image = &config->image;
    if (image->channels == 0) return OTA_OK;
    const int64_t pieces = image->side / image->patch;
    config->sizes[OTA_SIZE_PATCH] = image->channels * image->patch * image->patch;
    config->sizes[OTA_SIZE_POSITIONS] = pieces * pieces + 1;
    if (pieces > 0 && pieces < 1024 && config->sizes[OTA_SIZE_PATCH] < MOST_POSITIONS)
        return OTA_OK;
    return ota_refuse_at(error, path, 0,
                         "images of %lld pixels a side in pieces of %lld are not run",
                         (long long)image->side, (long long)image->patch);
}

/* Models that see both ways, which not all can. */
static ota_status finish_ways(const finishing *f) {
    const ota_config *config = f->config;
    if (config->scores.causal) return OTA_OK;
    const size_t field = offsetof(ota_config, scores.causal);
    if (f->gguf && config->local.window > 0 &&
        !ota_architecture_has(f->architecture, OTA_ARCH_WINDOW_BOTH)) {
        /* Programs of the format let such layers see all that follows. */
        (void)refuse_field(f, field, "it is false, and layers see a window");
        return ota_advise(f->error, OTA_UNSUPPORTED, "open the model's folder");
    }
    if (config->scores.sloped || config->rope.replaced) {
        /* transformers takes a slope times the key's place, other programs times the distance. */
        (void)refuse_field(f, field, "it is false, and later keys have slopes");
        return OTA_UNSUPPORTED;
    }
    return OTA_OK;
}

ota_status ota_config_finish(const ota_architecture *architecture, ota_config *config, bool gguf,
                             const char *path, ota_error *error) {
    const finishing f = {architecture, config, gguf, path, error};
    int64_t *sizes = config->sizes;
    const int64_t width = sizes[OTA_SIZE_WIDTH];
    ota_status status = finish_heads(&f);
    if (status == OTA_OK && ota_architecture_has(architecture, OTA_ARCH_ROTARY))
        status = finish_rope(&f);
    if (status != OTA_OK) return status;
    sizes[OTA_SIZE_EMBED] = config->embed_width != 0 ? config->embed_width : width;
    sizes[OTA_SIZE_POSITION] =
        ota_architecture_has(architecture, OTA_ARCH_WIDE_POSITIONS) ? width : sizes[OTA_SIZE_EMBED];
    if (sizes[OTA_SIZE_EMBED] > width)
        return ota_refuse_at(error, path, 0,
                             "embeddings of %lld numbers in blocks of %lld are not run",
                             (long long)config->embed_width, (long long)width);
    if (config->words != 0 && config->words != sizes[OTA_SIZE_VOCABULARY])
        return refuse_field(&f, offsetof(ota_config, words),
                            "%lld words and an embedding of %lld rows differ",
                            (long long)config->words, (long long)sizes[OTA_SIZE_VOCABULARY]);
    if (!(config->norm_epsilon > 0) || !(config->norm_epsilon < 1))
        return refuse_field(&f, offsetof(ota_config, norm_epsilon),
                            "the norm's epsilon must lie between 0 and 1");
    status = finish_image(config, path, error);
    if (status == OTA_OK) status = finish_experts(config, path, error);
    if (status != OTA_OK) return status;
    if (sizes[OTA_SIZE_BUCKETS] > 0 && config->distance <= sizes[OTA_SIZE_BUCKETS] / 4)
        return ota_refuse_at(error, path, 0,
                             "distances below %lld have buckets of their own, and from %lld on all "
                             "share one",
                             (long long)sizes[OTA_SIZE_BUCKETS] / 4, (long long)config->distance);
    choose_layers(architecture, config);
    status = finish_ways(&f);
    if (status != OTA_OK) return status;
    config->form.parallel |= config->form.key_groups;
    if (!config->form.parallel) config->form.norms = 2;
    if (config->form.norms == 0) config->form.norms = config->form.key_groups ? 2 : 1;
    config->matrices.gated |= ota_architecture_has(architecture, OTA_ARCH_GATED);
    config->form.post_norm |= ota_architecture_has(architecture, OTA_ARCH_POST_NORM);
    config->rope.interleaved |= ota_architecture_has(architecture, OTA_ARCH_INTERLEAVED);
    if (ota_architecture_has(architecture, OTA_ARCH_SCALED_EMBEDDING))
        config->factors.embedding = __builtin_sqrt((double)width);
    if (sizes[OTA_SIZE_INNER] == 0) sizes[OTA_SIZE_INNER] = 4 * width;
    if (ota_architecture_has(architecture, OTA_ARCH_AFTER_PADDING)) config->first_position++;
    sizes[OTA_SIZE_POSITION_ROWS] = sizes[OTA_SIZE_POSITIONS];
    if (ota_architecture_has(architecture, OTA_ARCH_POSITION_ROWS))
        sizes[OTA_SIZE_POSITIONS] -= config->first_position;
    else
        sizes[OTA_SIZE_POSITION_ROWS] += config->first_position;
    if (sizes[OTA_SIZE_POSITIONS] < 1)
        return ota_refuse_at(error, path, 0, "the table of positions has none for a text");
    sizes[OTA_SIZE_QUERY] = config->heads * config->head_width;
    sizes[OTA_SIZE_KEY] = config->kv_heads * config->head_width;
    sizes[OTA_SIZE_VALUE] = config->kv_heads * config->value_width;
    sizes[OTA_SIZE_MIXED] = config->heads * config->value_width;
    sizes[OTA_SIZE_LATENT] = sizes[OTA_SIZE_KEY_RANK] + config->rotary_width;
    sizes[OTA_SIZE_EXPANDED] = config->heads * (config->latent.plain + config->value_width);
    sizes[OTA_SIZE_EXPANDED_KEY] = sizes[OTA_SIZE_KEY_RANK] * config->latent.plain;
    sizes[OTA_SIZE_EXPANDED_VALUE] = config->value_width * sizes[OTA_SIZE_KEY_RANK];
    sizes[OTA_SIZE_ONE] = 1;
    sizes[OTA_SIZE_HEAD] = config->head_width;
    sizes[OTA_SIZE_HEADS] = config->heads;
    sizes[OTA_SIZE_EXPERT_MERGED] = 2 * sizes[OTA_SIZE_EXPERT_INNER];
    sizes[OTA_SIZE_PAIRS] = config->rotary_width / 2;
    sizes[OTA_SIZE_MERGED] = sizes[OTA_SIZE_QUERY] + sizes[OTA_SIZE_KEY] + sizes[OTA_SIZE_VALUE];
    if (config->matrices.merged_by_group && config->value_width != config->head_width)
        return ota_refuse_at(error, path, 0,
                             "values of %lld numbers and keys of %lld are not run together",
                             (long long)config->value_width, (long long)config->head_width);
    return OTA_OK;
}

double ota_config_scale(const ota_config *config, int64_t layer) {
    const int64_t divisor = config->query_scalar > 0 ? config->query_scalar : config->head_width;
    const double scale = config->scores.factor > 0 ? config->scores.factor
                         : config->scores.scaled   ? 1.0 / __builtin_sqrt((double)divisor)
                                                   : 1.0;
    return config->scores.scaled_by_layer ? scale / (double)(layer + 1) : scale;
}
