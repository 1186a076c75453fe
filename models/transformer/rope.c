/* Frequencies of rotary positions, in f32 as the programs that such models were trained with round them.
 *
 *     w_k = base^(-2k / head width)                  turns of pair k in the original context: n w_k / (2 pi)
 *     linear    w_k / factor
 *     llama3    w_k where the turns are above `high`, w_k / factor where they are below `low`, between them
 *               (1 - u) w_k / factor + u w_k with u = (turns - low) / (high - low)
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
    } words[] = {{"default", OTA_ROPE_PLAIN},
                 {"none", OTA_ROPE_PLAIN},
                 {"linear", OTA_ROPE_LINEAR},
                 {"llama3", OTA_ROPE_LLAMA3}};
    for (size_t k = 0; k < sizeof words / sizeof *words; k++) {
        if (strcmp(words[k].word, word) != 0) continue;
        *kind = words[k].kind;
        return true;
    }
    return false;
}

const char *ota_rope_fault(const ota_rope_scaling *scaling) {
    if (scaling->kind == OTA_ROPE_PLAIN) return NULL;
    if (!(scaling->factor >= 1 && scaling->factor <= 1e6)) return "\"factor\" must lie in 1 to 1e6";
    if (scaling->kind == OTA_ROPE_LINEAR) return NULL;
    if (!(scaling->low > 0 && scaling->high > scaling->low && scaling->high <= 1e6))
        return "\"low_freq_factor\" and \"high_freq_factor\" must be positive and rise";
    if (!(scaling->original >= 1 && scaling->original <= 1e9))
        return "\"original_max_position_embeddings\" must lie in 1 to 1e9";
    return NULL;
}

float ota_rope_frequency(const ota_config *config, bool local, const float *divisors, int64_t k) {
    const ota_rope_scaling *scaling = &config->rope.scaling;
    const double base = local ? config->rope.local_base : config->rope.base;
    const float plain = (float)(1 / pow(base, 2 * (double)k / (double)config->head_width));
    if (local) return plain;
    const float divided = divisors != NULL ? plain / divisors[k] : plain;
    if (scaling->kind == OTA_ROPE_PLAIN) return divided;
    const float stretched = divided / (float)scaling->factor;
    if (scaling->kind == OTA_ROPE_LINEAR) return stretched;
    const double turns = scaling->original * (double)plain / two_pi;
    if (turns < scaling->low) return stretched;
    if (turns > scaling->high) return plain;
    const double u = (turns - scaling->low) / (scaling->high - scaling->low);
    return (float)((1 - u) * (double)stretched + u * (double)plain);
}
