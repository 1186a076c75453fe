/* Is every weight a number? A sweep over the bytes as the file has them, before anything is computed from them.
 *
 *   f32, f16, bf16   every element: all bits of its exponent set is an infinity or NaN
 *   blocks           the f16 factors (d, and m or e) of every block: the rest are integers, so the block decodes to
 *                    numbers if and only if they are
 *   others           what their blocks decode to: other factors, and f64 beyond f32 */
#include "base/base.h"
#include "base/integers.h"
#include "base/little_endian.h"
#include "model.h"
#include "models/kernels/ops.h"

#include <inttypes.h>
#include <string.h>

enum { PIECE = 4096 }; /* elements looked at before asking whether one was found */

static unsigned half_at(const unsigned char *at) { return (unsigned)at[0] | (unsigned)at[1] << 8; }

/* `exponent`: its bits as the data have them. */
static bool any_word(const unsigned char *data, int64_t count, uint32_t exponent) {
    uint32_t found = 0;
    for (int64_t k = 0; k < count; k++) {
        uint32_t word;
        memcpy(&word, data + 4 * k, sizeof word);
        found |= (word & exponent) == exponent;
    }
    return found != 0;
}

static bool any_half(const unsigned char *data, int64_t count, uint16_t exponent) {
    uint16_t found = 0;
    for (int64_t k = 0; k < count; k++) {
        uint16_t half;
        memcpy(&half, data + 2 * k, sizeof half);
        found |= (half & exponent) == exponent;
    }
    return found != 0;
}

static bool any_factor(const unsigned char *data, int64_t count, const ota_element *type) {
    for (int64_t k = 0; k < count; k++)
        for (int i = 0; i < type->halves; i++)
            if ((half_at(data + k * type->bytes + type->half_at[i]) & 0x7C00U) == 0x7C00U)
                return true;
    return false;
}

static bool any_decoded(const unsigned char *data, int64_t count, const ota_element *type) {
    float values[1024];
    const int64_t most = (int64_t)(sizeof values / sizeof *values) / type->block;
    for (int64_t k = 0; k < count; k += most) {
        const int64_t elements = ota_int_min(most, count - k) * type->block;
        ota_ops_named(NULL)->decode[ota_element_index(type)](data + k * type->bytes, values,
                                                             elements);
        if (any_word((const unsigned char *)values, elements, 0x7F800000U)) return true;
    }
    return false;
}

static bool any(const unsigned char *data, int64_t count, const ota_element *type) {
    switch (ota_element_index(type)) {
    case OTA_STORED_F32: return any_word(data, count, ota_little_32(0x7F800000U));
    case OTA_STORED_F16: return any_half(data, count, ota_little_16(0x7C00U));
    case OTA_STORED_BF16: return any_half(data, count, ota_little_16(0x7F80U));
    default: return (type->halves > 0 ? any_factor : any_decoded)(data, count, type);
    }
}

/* Has the caller asked to end? */
static bool ends(const ota_session_options *options) {
    return options != NULL && ota_interruption(options->cancel, options->deadline_ns) != OTA_OK;
}

int64_t ota_weight_nonfinite(const ota_weight *weight, const ota_session_options *options) {
    const ota_element *type = weight->type;
    const int64_t blocks = weight->rows * weight->columns / type->block;
    if (weight->scales != NULL) return -1; /* every code and scale of MXFP4 is a number */
    for (int64_t first = 0; first < blocks && !ends(options); first += PIECE) {
        const int64_t count = ota_int_min(PIECE, blocks - first);
        if (!any(weight->data + first * type->bytes, count, type)) continue;
        int64_t k = first;
        while (!any(weight->data + k * type->bytes, 1, type)) k++;
        return k * type->block;
    }
    return -1;
}

static const ota_found *tensor_of(const ota_checkpoint *checkpoint, const ota_weight *weight) {
    for (int64_t k = 0; k < checkpoint->count; k++) {
        const ota_found *found = &checkpoint->tensors[k];
        /* An expert's weights may lie within a tensor of all. */
        const unsigned char *begin = found->shard->map + found->tensor->offset;
        if (weight->data >= begin && weight->data < begin + found->tensor->bytes) return found;
    }
    return NULL;
}

static ota_status check_weight(const ota_model *model, const ota_weight *weight,
                               const ota_session_options *options, ota_error *error) {
    const int64_t place = ota_weight_present(weight) ? ota_weight_nonfinite(weight, options) : -1;
    if (place < 0) return OTA_OK;
    const ota_found *found = tensor_of(&model->checkpoint, weight);
    (void)ota_refuse(error, OTA_NONFINITE,
                     "%s: \"%.80s\" holds NaN or infinity at element %" PRId64,
                     ota_path_end(found != NULL ? found->shard->path : model->path),
                     found != NULL ? found->tensor->name : "", place);
    return ota_advise(error, OTA_NONFINITE,
                      "the checkpoint is damaged or diverged; allow_nonfinite (--allow-nonfinite) "
                      "runs it all the same");
}

ota_status ota_model_check_weights(const ota_model *model, const ota_session_options *options,
                                   ota_error *error) {
    ota_status status = OTA_OK;
    for (int role = OTA_BLOCK_ROLES; status == OTA_OK && role < OTA_ROLES; role++) {
        const ota_weight *weight = &model->weights[role];
        const bool tied = role == OTA_HEAD && weight->data == model->weights[OTA_EMBED].data;
        if (!tied) status = check_weight(model, weight, options, error);
    }
    for (int64_t layer = 0; status == OTA_OK && layer < model->config.layers; layer++)
        for (int role = 0; status == OTA_OK && role < OTA_BLOCK_ROLES; role++)
            status = check_weight(model, &model->blocks[layer].weights[role], options, error);
    const int64_t experts =
        model->config.layers * model->config.sizes[OTA_SIZE_EXPERTS] * OTA_EXPERT_ROLES;
    for (int64_t k = 0; status == OTA_OK && k < experts; k++)
        status = check_weight(model, &model->experts[k], options, error);
    return status;
}

ota_status ota_model_check_finite(const ota_model *model, ota_error *error) {
    return ota_model_check_weights(model, NULL, error);
}
