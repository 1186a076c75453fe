/* The table of architectures: one row a family of models (families/), and nowhere else its name. */
#include "base/base.h"
#include "config.h"
#include "families/rows.h"

#include <string.h>

static const ota_architecture *const families[] = {ota_llama_family, ota_deepseek_family,
                                                   ota_gemma_family, ota_gpt_family,
                                                   ota_bert_family,  ota_image_family};

const ota_architecture *ota_architecture_at(int index) {
    for (size_t k = 0; k < sizeof families / sizeof *families; k++)
        for (const ota_architecture *row = families[k]; row->name != NULL; row++)
            if (index-- == 0) return row;
    return NULL;
}

/* Are there gguf files of it? Its first tensor has a name there. */
static bool is_in_gguf(const ota_architecture *row) {
    return row->rows[0].rows[0].gguf != NULL && !ota_architecture_has(row, OTA_ARCH_HUB_ALONE);
}

const ota_architecture *ota_architecture_named(const char *name, bool gguf) {
    const ota_architecture *row;
    for (int i = 0; (row = ota_architecture_at(i)) != NULL; i++)
        if (gguf ? is_in_gguf(row) && strcmp(row->name, name) == 0
                 : row->model_type != NULL && strcmp(row->model_type, name) == 0)
            return row;
    return NULL;
}

const ota_architecture *ota_architecture_inside(const char *outer_type) {
    const ota_architecture *row;
    for (int i = 0; (row = ota_architecture_at(i)) != NULL; i++)
        if (row->outer_type != NULL && strcmp(row->outer_type, outer_type) == 0) return row;
    return NULL;
}

const ota_config_key *ota_architecture_key(const ota_architecture *architecture, int index) {
    for (int k = 0; k < OTA_LISTS_MOST; k++) {
        const ota_key_list *list = &architecture->keys[k];
        if (index < list->count) return &list->keys[index];
        index -= list->count;
    }
    return NULL;
}

const ota_tensor_row *ota_architecture_row(const ota_architecture *architecture, int index) {
    for (int k = 0; k < OTA_LISTS_MOST; k++) {
        const ota_row_list *list = &architecture->rows[k];
        if (index < list->count) return &list->rows[index];
        index -= list->count;
    }
    return NULL;
}
