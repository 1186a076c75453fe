/* The configuration that the pairs of a gguf file hold, by the table of architectures; what nothing reads is refused. */
#include "base/base.h"
#include "gguf.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct pair_reader {
    const ota_gguf *gguf;
    const ota_architecture *architecture;
    ota_error *error;
} pair_reader;

static ota_gguf_pair *find_pair_to_read(const ota_gguf *gguf, const char *key) {
    const ota_gguf_pair *found = ota_gguf_find(gguf->pairs, gguf->pair_count, key);
    if (found == NULL) return NULL;
    ota_gguf_pair *pair = &gguf->pairs[found - gguf->pairs];
    pair->read = true;
    return pair;
}

static bool is_signed(uint32_t type) {
    return type == OTA_GGUF_INT8 || type == OTA_GGUF_INT16 || type == OTA_GGUF_INT32 ||
           type == OTA_GGUF_INT64;
}

ota_status ota_gguf_integer(const ota_gguf *gguf, const char *key, int64_t *value,
                            ota_error *error) {
    const ota_gguf_pair *pair = find_pair_to_read(gguf, key);
    *value = -1;
    if (pair == NULL) return OTA_OK;
    const bool whole = is_signed(pair->type) || pair->type == OTA_GGUF_UINT8 ||
                       pair->type == OTA_GGUF_UINT16 || pair->type == OTA_GGUF_UINT32 ||
                       pair->type == OTA_GGUF_UINT64;
    const int bytes = (int)ota_gguf_bytes[pair->type];
    const uint64_t number = whole ? ota_gguf_number(gguf->shard.map + pair->offset, bytes) : 0;
    if (!whole || number > INT32_MAX || (is_signed(pair->type) && number >> (8 * bytes - 1) != 0))
        return ota_refuse_at(error, gguf->shard.path, pair->offset,
                             "\"%s\" must be an integer from 0 to 2^31 - 1", key);
    *value = (int64_t)number;
    return OTA_OK;
}

static const ota_gguf_pair *find_family(const pair_reader *r, const char *key, char name[128]) {
    (void)ota_snprintf(name, 128, "%s.%s", r->architecture->name, key);
    return find_pair_to_read(r->gguf, name);
}

static ota_status read_integer(const pair_reader *r, const ota_gguf_pair *pair, const char *name,
                               const ota_config_key *key, int64_t *field) {
    const char *path = r->gguf->shard.path;
    if (pair->type != OTA_GGUF_UINT32 && pair->type != OTA_GGUF_UINT64 &&
        pair->type != OTA_GGUF_INT32)
        return ota_refuse_at(r->error, path, pair->offset, "\"%s\" must be an integer", name);
    const uint64_t value =
        ota_gguf_number(r->gguf->shard.map + pair->offset, (int)ota_gguf_bytes[pair->type]);
    *field = value > INT32_MAX ? -1 : (int64_t)value;
    if (*field < (int64_t)key->least || *field > (int64_t)key->most)
        return ota_refuse_at(r->error, path, pair->offset, "\"%s\" lies outside %lld to %lld", name,
                             (long long)key->least, (long long)key->most);
    return OTA_OK;
}

static ota_status read_float(const pair_reader *r, const ota_gguf_pair *pair, const char *name,
                             double *out) {
    float value;
    if (pair->type != OTA_GGUF_FLOAT32)
        return ota_refuse_at(r->error, r->gguf->shard.path, pair->offset, "\"%s\" must be an f32",
                             name);
    const uint32_t word = (uint32_t)ota_gguf_number(r->gguf->shard.map + pair->offset, 4);
    memcpy(&value, &word, sizeof value);
    *out = (double)value;
    if (isfinite(value) && value >= 0) return OTA_OK;
    return ota_refuse_at(r->error, r->gguf->shard.path, pair->offset,
                         "\"%s\" must be a finite number, 0 or more", name);
}

static ota_status read_truth(const pair_reader *r, const ota_gguf_pair *pair, const char *name,
                             bool *out) {
    if (pair->type != OTA_GGUF_TRUTH)
        return ota_refuse_at(r->error, r->gguf->shard.path, pair->offset,
                             "\"%s\" must be true or false", name);
    *out = r->gguf->shard.map[pair->offset] != 0;
    return OTA_OK;
}

static ota_status read_key(const pair_reader *r, const ota_config_key *key, ota_config *config) {
    char name[128];
    void *field = (char *)config + key->offset;
    ota_config_set(config, key, key->gguf_standard);
    if (key->gguf == NULL) return OTA_OK;
    const ota_gguf_pair *pair = find_family(r, key->gguf, name);
    if (pair == NULL && key->gguf_standard == (double)OTA_REQUIRED)
        return ota_refuse_at(r->error, r->gguf->shard.path, 0, "\"%s\" is missing", name);
    if (pair == NULL) return OTA_OK;
    switch (key->kind) {
    case OTA_KEY_INTEGER:
    case OTA_KEY_INTEGER_OR_NULL: return read_integer(r, pair, name, key, field);
    case OTA_KEY_REAL:
    case OTA_KEY_REAL_OR_NULL: return read_float(r, pair, name, field);
    case OTA_KEY_TRUTH:
    case OTA_KEY_NOT:
    default: return read_truth(r, pair, name, field);
    }
}

static const ota_tensor *find_tensor(const ota_gguf *gguf, const char *name) {
    for (int64_t k = -1; k < gguf->rest_count; k++) {
        const ota_tensors *table = k < 0 ? gguf->shard.table : gguf->rest[k].table;
        for (size_t i = 0; i < table->count; i++)
            if (strcmp(table->tensors[i].name, name) == 0) return &table->tensors[i];
    }
    return NULL;
}

/* Longrope's lists: converters write them without a type of scaling. */
static bool has_lists(const pair_reader *r) {
    const ota_tensor_row *row;
    for (int i = 0; (row = ota_architecture_row(r->architecture, i)) != NULL; i++)
        if (row->group == OTA_GROUP_LONG && find_tensor(r->gguf, row->gguf) != NULL) return true;
    return false;
}

/* What tensors say, and no key. */
static void read_tensors(const pair_reader *r, ota_config *config) {
    const bool two = find_tensor(r->gguf, "blk.0.attn_norm_2.weight") != NULL;
    const ota_tensor *types = find_tensor(r->gguf, "token_types.weight");
    if (types != NULL && types->rank == 2 && types->shape[0] >= 1 && types->shape[0] <= 1024)
        config->sizes[OTA_SIZE_TYPES] = types->shape[0];
    if (config->form.norms == 0) config->form.norms = two ? 2 : 1;
    if (!ota_architecture_has(r->architecture, OTA_ARCH_PROJECTION)) return;
    config->matrices.gated = find_tensor(r->gguf, "enc.blk.0.ffn_gate.weight") != NULL;
    if (config->matrices.gated) config->activation = OTA_GELU_TANH;
}

/* The number of words is that of the embedding's rows. */
static ota_status count_words(const ota_gguf *gguf, ota_config *config, ota_error *error) {
    const ota_tensor *embedding = find_tensor(gguf, "token_embd.weight");
    if (embedding == NULL)
        return ota_refuse(error, OTA_EMISMATCH, "%s: holds no tensor \"token_embd.weight\"",
                          ota_path_end(gguf->shard.path));
    if (embedding->rank == 2 && embedding->shape[0] >= 1 && embedding->shape[0] <= 1 << 20) {
        config->sizes[OTA_SIZE_VOCABULARY] = embedding->shape[0];
        return OTA_OK;
    }
    return ota_refuse_at(error, gguf->shard.path, embedding->place,
                         "\"token_embd.weight\" must be a matrix of 1 to 2^20 rows");
}

/* The text of a value that is one: its bytes up to `size`, numbers; "" of an array. */
static void show_value(const ota_gguf *gguf, const ota_gguf_pair *pair, char *text, size_t size) {
    const unsigned char *at = gguf->shard.map + pair->offset;
    const int bytes = (int)ota_gguf_bytes[pair->type];
    text[0] = '\0';
    if (pair->type == OTA_GGUF_STRING) {
        const uint64_t length = ota_gguf_number(at, 8);
        const size_t used = length < size ? (size_t)length : size - 1;
        memcpy(text, at + 8, used);
        text[used] = '\0';
    } else if (pair->type == OTA_GGUF_TRUTH) {
        (void)ota_snprintf(text, size, "%s", *at != 0 ? "true" : "false");
    } else if (pair->type == OTA_GGUF_FLOAT32) {
        const uint32_t word = (uint32_t)ota_gguf_number(at, 4);
        float value;
        memcpy(&value, &word, sizeof value);
        (void)ota_snprintf(text, size, "%.9g", (double)value);
    } else if (pair->type == OTA_GGUF_FLOAT64) {
        const uint64_t word = ota_gguf_number(at, 8);
        double value;
        memcpy(&value, &word, sizeof value);
        (void)ota_snprintf(text, size, "%.15g", value);
    } else if (bytes > 0) {
        const uint64_t number = ota_gguf_number(at, bytes), sign = (uint64_t)1 << (8 * bytes - 1);
        if (is_signed(pair->type) && (number & sign) != 0)
            (void)ota_snprintf(text, size, "-%" PRIu64, (uint64_t)(2 * sign - number));
        else
            (void)ota_snprintf(text, size, "%" PRIu64, number);
    }
}

/* Every pair was read or is a row of ignored.c. */
static ota_status refuse_rest(const pair_reader *r) {
    const char *family = r->architecture->name, *path = r->gguf->shard.path;
    const size_t length = strlen(family);
    for (int64_t i = 0; i < r->gguf->pair_count; i++) {
        const ota_gguf_pair *pair = &r->gguf->pairs[i];
        char key[OTA_GGUF_KEY_MOST + 1], text[64];
        if (pair->read) continue;
        memcpy(key, pair->key, pair->key_size);
        key[pair->key_size] = '\0';
        const bool own = strncmp(key, family, length) == 0 && key[length] == '.';
        const ota_ignored *row =
            ota_ignored_find(OTA_IGNORED_GGUF, r->architecture, own ? key + length : key);
        show_value(r->gguf, pair, text, sizeof text);
        if (row != NULL && ota_ignored_takes(row, text)) continue;
        if (row != NULL) {
            (void)ota_refuse_at(r->error, path, pair->offset,
                                "\"%.80s\" is \"%s\", and such models are not run", key, text);
            return ota_advise(r->error, OTA_UNSUPPORTED, "%s is the value that is", row->values);
        }
        (void)ota_refuse_at(r->error, path, pair->offset, "\"%.80s\" is no key that %s files have",
                            key, family);
        return ota_advise(r->error, OTA_UNSUPPORTED,
                          "write the file without it if the model does not depend on it");
    }
    return OTA_OK;
}

static ota_status refuse_type(const pair_reader *r, const ota_gguf_pair *pair, const char *word) {
    (void)ota_refuse_at(r->error, r->gguf->shard.path, pair->offset,
                        "\"%.*s\": rotary positions of type \"%.40s\" are not known",
                        (int)pair->key_size, (const char *)pair->key, word);
    return ota_advise(r->error, OTA_UNSUPPORTED,
                      "none, linear, yarn, longrope and rope_freqs are carried out");
}

static ota_status read_real(const pair_reader *r, const char *key, double *out) {
    char name[128];
    const ota_gguf_pair *pair = find_family(r, key, name);
    return pair != NULL ? read_float(r, pair, name, out) : OTA_OK;
}

/* What yarn and longrope say beside their factor; the files of others may hold the original context, without effect. */
static ota_status read_stretch(const pair_reader *r, ota_rope_scaling *scaling, double *attention) {
    static const char key[] = "rope.scaling.original_context_length",
                      factor[] = "rope.scaling.attn_factor";
    char name[128];
    const ota_config_key whole = {.least = 1, .most = 1e9};
    int64_t original = 0;
    if (scaling->kind != OTA_ROPE_YARN && scaling->kind != OTA_ROPE_LONG) return OTA_OK;
    const ota_gguf_pair *pair = find_family(r, key, name);
    ota_status status = pair != NULL ? read_integer(r, pair, name, &whole, &original) : OTA_OK;
    if (original > 0) scaling->original = (double)original;
    scaling->low = 1;
    scaling->high = 32;
    scaling->whole = true;
    pair = find_family(r, factor, name);
    if (status == OTA_OK && pair != NULL) status = read_float(r, pair, name, attention);
    if (status == OTA_OK && !(*attention > 0))
        return ota_refuse_at(r->error, r->gguf->shard.path, pair->offset, "\"%s\" must be above 0",
                             name);
    if (status == OTA_OK) status = read_real(r, "rope.scaling.yarn_beta_slow", &scaling->low);
    return status == OTA_OK ? read_real(r, "rope.scaling.yarn_beta_fast", &scaling->high) : status;
}

static ota_status refuse_attention_factor(const pair_reader *r, const ota_gguf_pair *type) {
    (void)ota_refuse_at(r->error, r->gguf->shard.path, type->offset,
                        "\"%s.rope.scaling.attn_factor\" is not 1, and such models are not run",
                        r->architecture->name);
    return ota_advise(r->error, OTA_UNSUPPORTED, "1 is the value that is");
}

/* Programs of that format divide longrope's frequencies by the factor, too; no converter writes one. */
static ota_status refuse_long_factor(const pair_reader *r, const ota_gguf_pair *pair,
                                     const char *name) {
    (void)ota_refuse_at(r->error, r->gguf->shard.path, pair->offset,
                        "\"%s\" is not 1 beside longrope, and such models are not run", name);
    return ota_advise(r->error, OTA_UNSUPPORTED, "1 is the value that is");
}

/* Those of latent attention put yarn's number into the factor of scores (finish_latent), where the file holds its logarithm's
 * multiplier; without that, programs of the format scale otherwise than the classes that the models come from. */
static ota_status read_latent_yarn(const pair_reader *r, const ota_gguf_pair *type,
                                   ota_rope_scaling *scaling) {
    static const char key[] = "rope.scaling.yarn_log_multiplier";
    char name[128];
    double multiplier = 0;
    const ota_gguf_pair *pair = find_family(r, key, name);
    const ota_status status = pair != NULL ? read_float(r, pair, name, &multiplier) : OTA_OK;
    if (status != OTA_OK) return status;
    scaling->scale_all = 10 * multiplier;
    scaling->attention = 1;
    if (multiplier > 0 || !(scaling->factor > 1)) return OTA_OK;
    (void)ota_refuse_at(r->error, r->gguf->shard.path, type->offset,
                        "\"%s\" is missing or 0 beside yarn, and such models are not run", name);
    return ota_advise(r->error, OTA_UNSUPPORTED,
                      "write it as the package gguf does, or open the model's folder");
}

/* Without a type, lists are longrope's and a factor is linear; the key of older files is the same number. Files of llama3
 * scaling hold the divisors of its frequencies as a tensor and no type. */
static ota_status read_scaling(const pair_reader *r, ota_rope_scaling *scaling) {
    char name[128], older_name[128], word[16] = "linear";
    const char *path = r->gguf->shard.path;
    const ota_gguf_pair *type = find_family(r, "rope.scaling.type", name);
    const ota_gguf_pair *older = find_family(r, "rope.scale_linear", older_name);
    if (type != NULL && type->type != OTA_GGUF_STRING)
        return ota_refuse_at(r->error, path, type->offset, "\"%s\" must be a text", name);
    if (type != NULL)
        show_value(r->gguf, type, word, sizeof word);
    else if (has_lists(r))
        memcpy(word, "longrope", sizeof "longrope");
    if (!ota_rope_named(word, &scaling->kind) || scaling->kind == OTA_ROPE_LLAMA3 ||
        scaling->kind == OTA_ROPE_DYNAMIC)
        return refuse_type(r, type, word);
    double factors[2] = {0, 0}, attention = 1;
    const ota_gguf_pair *factor = find_family(r, "rope.scaling.factor", name);
    ota_status status = factor != NULL ? read_float(r, factor, name, &factors[0]) : OTA_OK;
    if (status == OTA_OK && older != NULL) status = read_float(r, older, older_name, &factors[1]);
    if (status == OTA_OK) status = read_stretch(r, scaling, &attention);
    if (status != OTA_OK) return status;
    if (factor != NULL && older != NULL && factors[0] != factors[1])
        return ota_refuse_at(r->error, path, older->offset, "\"%s\" and \"%s\" differ", name,
                             older_name);
    const ota_gguf_pair *given = factor != NULL ? factor : older;
    if (scaling->kind == OTA_ROPE_LINEAR && type == NULL && given == NULL)
        scaling->kind = OTA_ROPE_PLAIN;
    scaling->factor = factor != NULL ? factors[0] : factors[1];
    if (scaling->kind == OTA_ROPE_LONG && scaling->factor != 0 && scaling->factor != 1)
        return refuse_long_factor(r, given, given == factor ? name : older_name);
    /* Programs of that format multiply yarn's own number by the factor of the file; where layers have positions or scores of
     * their own, they multiply those, too. */
    if (scaling->kind == OTA_ROPE_YARN && (attention > 1 || attention < 1) &&
        ota_architecture_has(r->architecture, OTA_ARCH_LATENT | OTA_ARCH_TWO_ROPES))
        return refuse_attention_factor(r, type);
    if (scaling->kind == OTA_ROPE_YARN && ota_architecture_has(r->architecture, OTA_ARCH_LATENT))
        status = read_latent_yarn(r, type, scaling);
    else if (scaling->kind == OTA_ROPE_YARN)
        scaling->attention = attention * (1 + 0.1 * log(scaling->factor > 1 ? scaling->factor : 1));
    else if (scaling->kind == OTA_ROPE_LONG)
        scaling->attention = attention;
    const char *fault = status == OTA_OK ? ota_rope_fault(scaling) : NULL;
    if (fault == NULL) return status;
    const ota_gguf_pair *place = given != NULL ? given : type;
    return ota_refuse_at(r->error, path, place != NULL ? place->offset : 0, "\"%s\": %s",
                         given == older && given != NULL ? older_name : name, fault);
}

static ota_status find_architecture(const ota_gguf *gguf, const ota_architecture **architecture,
                                    ota_error *error) {
    const ota_gguf_pair *pair = find_pair_to_read(gguf, "general.architecture");
    char name[64] = "";
    if (pair == NULL || pair->type != OTA_GGUF_STRING)
        return ota_refuse_at(error, gguf->shard.path, 0,
                             "general.architecture must name the architecture");
    const uint64_t size = ota_gguf_number(gguf->shard.map + pair->offset, 8);
    if (size < sizeof name) memcpy(name, gguf->shard.map + pair->offset + 8, (size_t)size);
    *architecture = ota_architecture_named(name, true);
    if (*architecture != NULL) return OTA_OK;
    (void)ota_refuse_at(error, gguf->shard.path, pair->offset,
                        "general.architecture: the architecture \"%.40s\" is not known", name);
    return ota_advise(error, OTA_UNSUPPORTED, OTA_ARCHITECTURE_ADVICE);
}

ota_status ota_gguf_config(const ota_gguf *gguf, const ota_architecture **architecture,
                           ota_config *config, ota_error *error) {
    *config = (ota_config){0};
    ota_status status = find_architecture(gguf, architecture, error);
    if (status != OTA_OK) return status;
    const ota_architecture *row = *architecture;
    const pair_reader r = {.gguf = gguf, .architecture = row, .error = error};
    const ota_config_key *key;
    for (int i = 0; status == OTA_OK && (key = ota_architecture_key(row, i)) != NULL; i++)
        status = read_key(&r, key, config);
    if (status != OTA_OK) return status;
    config->activation = config->head_activation = row->activation;
    read_tensors(&r, config);
    config->rope.interleaved = ota_architecture_has(row, OTA_ARCH_INTERLEAVED_GGUF);
    if (row->wide_layers != 0 && config->layers == row->wide_layers)
        config->query_scalar = config->sizes[OTA_SIZE_WIDTH] / config->heads;
    if (config->rope.scaling.original == 0)
        config->rope.scaling.original = (double)config->sizes[OTA_SIZE_POSITIONS];
    if (ota_architecture_has(row, OTA_ARCH_ROTARY))
        status = read_scaling(&r, &config->rope.scaling);
    if (status == OTA_OK) status = refuse_rest(&r);
    if (status == OTA_OK) status = count_words(gguf, config, error);
    if (status == OTA_OK) status = ota_config_finish(row, config, true, gguf->shard.path, error);
    return status;
}
