/* Frequencies of rotary positions, in f32 as the programs that such models were trained with round them.
 *
 *     w_k = base^(-2k / rotary width)                turns of pair k in the original context: n w_k / (2 pi)
 *     linear    w_k / factor
 *     llama3    w_k where the turns are above `high`, w_k / factor where they are below `low`, between them
 *               (1 - u) w_k / factor + u w_k with u = (turns - low) / (high - low)
 *     yarn      (1 - u) w_k / factor + u w_k with u = 1 - (k - first) / (last - first) within 0 to 1, first and last being
 *               where pairs make `high` and `low` turns; cosines and sines times 1 + log(factor) / 10, or as said
 *     longrope  w_k / divisor_k, of one list up to the original context and of another beyond; cosines and sines times
 *               sqrt(1 + log(factor) / log(n)), or as said
 *     dynamic   up to the original context n w_k, in longer texts of e tokens the same of the base
 *               base (factor e / n - factor + 1)^(width / (width - 2))
 *     divisors  w_k / divisor_k, from a gguf file that holds them; also before linear scaling
 *
 * Sources: the definitions of hub configurations and of llama.cpp's rope_freqs. */
#include <math.h>
#include <string.h>

#include "models/checkpoint/config.h"

static const double two_pi = 6.283185307179586;

bool ota_rope_named(const char *word, ota_rope_kind *kind) {
    static const struct {
        const char *word;
        ota_rope_kind kind;
    } words[] = {{"default", OTA_ROPE_PLAIN}, {"none", OTA_ROPE_PLAIN},
                 {"linear", OTA_ROPE_LINEAR}, {"llama3", OTA_ROPE_LLAMA3},
                 {"yarn", OTA_ROPE_YARN},     {"longrope", OTA_ROPE_LONG},
                 {"su", OTA_ROPE_LONG},       {"dynamic", OTA_ROPE_DYNAMIC}};
    for (size_t k = 0; k < sizeof words / sizeof *words; k++) {
        if (strcmp(words[k].word, word) != 0) continue;
        *kind = words[k].kind;
        return true;
    }
    return false;
}

const char *ota_rope_fault(const ota_rope_scaling *scaling) {
    if (scaling->kind == OTA_ROPE_PLAIN) return NULL;
    const bool is_long = scaling->kind == OTA_ROPE_LONG;
    /* longrope's is the ratio of the two contexts where it is not said. */
    if (!(is_long && scaling->factor == 0) && !(scaling->factor >= 1 && scaling->factor <= 1e6))
        return "\"factor\" must lie in 1 to 1e6";
    if (scaling->kind == OTA_ROPE_LINEAR || scaling->kind == OTA_ROPE_DYNAMIC) return NULL;
    if (!is_long && !(scaling->low > 0 && scaling->high > scaling->low && scaling->high <= 1e6))
        return scaling->kind == OTA_ROPE_YARN
                   ? "\"beta_slow\" and \"beta_fast\" must be positive and rise"
                   : "\"low_freq_factor\" and \"high_freq_factor\" must be positive and rise";
    if (!(scaling->attention >= 0 && scaling->attention <= 1e3))
        return "\"attention_factor\" must lie in 0 to 1000";
    /* longrope divides by its logarithm. */
    if (!(scaling->original >= (is_long ? 2 : 1) && scaling->original <= 1e9))
        return is_long ? "\"original_max_position_embeddings\" must lie in 2 to 1e9"
                       : "\"original_max_position_embeddings\" must lie in 1 to 1e9";
    return NULL;
}

int ota_rope_tables(const ota_config *config) {
    const bool two = config->rope.local_base > 0 || config->rope.scaling.kind == OTA_ROPE_LONG ||
                     config->rope.scaling.kind == OTA_ROPE_DYNAMIC;
    return two ? OTA_ROPE_TABLES : 1;
}

bool ota_rope_is_long(const ota_config *config, int64_t end) {
    const ota_rope_scaling *scaling = &config->rope.scaling;
    return (scaling->kind == OTA_ROPE_LONG || scaling->kind == OTA_ROPE_DYNAMIC) &&
           (double)end > scaling->original;
}

/* The base of a text up to `end`. */
static double base_of(const ota_config *config, ota_rope_table table, int64_t end) {
    const ota_rope_scaling *scaling = &config->rope.scaling;
    if (table == OTA_ROPE_TABLE || scaling->kind == OTA_ROPE_LONG) return config->rope.base;
    if (scaling->kind != OTA_ROPE_DYNAMIC) return config->rope.local_base;
    const double width = (double)config->rotary_width;
    const double ratio = scaling->factor * (double)end / scaling->original - (scaling->factor - 1);
    return config->rope.base * pow(ratio > 1 ? ratio : 1, width / (width - 2));
}

/* Yarn: the share of pair k that is not stretched. */
static float plain_share(const ota_config *config, int64_t k) {
    const ota_rope_scaling *scaling = &config->rope.scaling;
    const double width = (double)config->rotary_width, full = 2 * log(config->rope.base);
    double first = width * log(scaling->original / (scaling->high * two_pi)) / full;
    double last = width * log(scaling->original / (scaling->low * two_pi)) / full;
    if (scaling->whole) {
        first = floor(first);
        last = ceil(last);
    }
    if (first < 0) first = 0;
    if (last > width - 1) last = width - 1;
    if (last == first) last += 0.001;
    const float ramp = ((float)k - (float)first) / (float)(last - first);
    return 1 - (ramp < 0 ? 0 : ramp > 1 ? 1 : ramp);
}

static double logarithm(double factor, double scale) {
    return factor > 1 ? 0.1 * scale * log(factor) + 1 : 1;
}

double ota_rope_attention(const ota_config *config, ota_rope_table table) {
    const ota_rope_scaling *scaling = &config->rope.scaling;
    if (table != OTA_ROPE_TABLE && scaling->kind != OTA_ROPE_LONG) return 1;
    if (scaling->attention > 0) return scaling->attention;
    if (scaling->kind == OTA_ROPE_YARN)
        return scaling->scale != 0 && scaling->scale_all != 0
                   ? logarithm(scaling->factor, scaling->scale) /
                         logarithm(scaling->factor, scaling->scale_all)
                   : logarithm(scaling->factor, 1);
    if (scaling->kind != OTA_ROPE_LONG) return 1;
    const double positions = (double)config->sizes[OTA_SIZE_POSITIONS];
    const double factor = scaling->factor > 0 ? scaling->factor : positions / scaling->original;
    return factor > 1 ? sqrt(1 + log(factor) / log(scaling->original)) : 1;
}

float ota_rope_frequency(const ota_config *config, ota_rope_table table, const float *divisors,
                         int64_t k, int64_t end) {
    const ota_rope_scaling *scaling = &config->rope.scaling;
    const bool other = table != OTA_ROPE_TABLE, is_long = scaling->kind == OTA_ROPE_LONG;
    const double base = base_of(config, table, end);
    const float power = (float)pow(base, 2 * (double)k / (double)config->rotary_width);
    if (is_long) {
        const float *own = other ? scaling->longer : scaling->shorter;
        return 1 / ((divisors != NULL ? divisors[k] : own[k]) * power);
    }
    const float plain = (float)(1 / pow(base, 2 * (double)k / (double)config->rotary_width));
    if (other) return plain;
    const float divided = divisors != NULL ? plain / divisors[k] : plain;
    if (scaling->kind == OTA_ROPE_PLAIN || scaling->kind == OTA_ROPE_DYNAMIC) return divided;
    const float stretched = divided / (float)scaling->factor;
    if (scaling->kind == OTA_ROPE_LINEAR) return stretched;
    if (scaling->kind == OTA_ROPE_YARN) {
        const float share = plain_share(config, k);
        return stretched * (1 - share) + divided * share;
    }
    const double turns = scaling->original * (double)plain / two_pi;
    if (turns < scaling->low) return stretched;
    if (turns > scaling->high) return plain;
    const double u = (turns - scaling->low) / (scaling->high - scaling->low);
    return (float)((1 - u) * (double)stretched + u * (double)plain);
}
