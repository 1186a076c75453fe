/* What a checkpoint may hold though nothing reads it: the one table of it, by which all that is neither read nor
 * named here is refused.
 *
 * Sources: the configuration classes of transformers and what they save, and the key lists of ggml's format. */
#include "config.h"

#include <ctype.h>
#include <string.h>

#define CONFIG OTA_IGNORED_CONFIG
#define ROPE OTA_IGNORED_ROPE
#define GGUF OTA_IGNORED_GGUF
#define HUB OTA_IGNORED_HUB_TENSORS
#define PARTS OTA_IGNORED_GGUF_TENSORS

/* docs/development/model-files.md prints this table: one string a line. */
static const ota_ignored table[] = {
    /* ---- config.json: any value ---- */
    {CONFIG, NULL, NULL,
     "_name_or_path name_or_path _commit_hash _auto_class architectures auto_map custom_pipelines "
     "transformers_version transformers.js_config sentence_transformers unsloth_* is_llama_config "
     "model_name language license tags",
     "who made the file, and with what"},
    {CONFIG, NULL, NULL, "torch_dtype dtype",
     "weights are read in the type that they are stored in"},
    {CONFIG, NULL, NULL,
     "initializer_range initializer_factor attn_pdrop embd_pdrop resid_pdrop hidden_dropout "
     "hidden_dropout_prob attention_dropout attention_probs_dropout_prob classifier_dropout "
     "summary_first_dropout summary_last_dropout gradient_checkpointing loss_type use_bfloat16 "
     "neftune_noise_alpha embed_dropout embedding_dropout resid_dropout dropout "
     "activation_dropout layerdrop init_std",
     "training alone"},
    {CONFIG, NULL, NULL,
     "use_cache cache_implementation attn_implementation _attn_implementation "
     "_attn_implementation_internal _attn_implementation_autoset _flash_attn_2_enabled "
     "experts_implementation _experts_implementation _experts_implementation_internal "
     "output_attentions output_hidden_states output_past return_dict torchscript tf_legacy_loss "
     "xla_device model_parallel chunk_size_feed_forward pretraining_tp reorder_and_upcast_attn "
     "keys_to_ignore_at_inference tie_last_hidden_states",
     "how a program computes or returns the same numbers"},
    {CONFIG, NULL, NULL,
     "bos_token_id eos_token_id pad_token_id sep_token_id cls_token_id mask_token_id unk_token_id "
     "decoder_start_token_id tokenizer_* prefix model_max_length max_sequence_length n_ctx",
     "the tokenizer's, or lengths that the position table says"},
    {CONFIG, NULL, NULL,
     "max_length min_length max_new_tokens min_new_tokens do_sample early_stopping num_beams "
     "num_beam_groups num_return_sequences temperature top_k top_p top_h min_p typical_p "
     "epsilon_cutoff eta_cutoff penalty_alpha repetition_penalty encoder_repetition_penalty "
     "length_penalty diversity_penalty exponential_decay_length_penalty no_repeat_ngram_size "
     "encoder_no_repeat_ngram_size bad_words_ids forced_bos_token_id forced_eos_token_id "
     "suppress_tokens begin_suppress_tokens remove_invalid_values output_scores output_logits "
     "return_dict_in_generate guidance_scale num_assistant_tokens num_assistant_tokens_schedule "
     "assistant_confidence_threshold assistant_lookbehind target_lookbehind",
     "generation of transformers; generate here takes the likeliest word"},
    {CONFIG, NULL, NULL,
     "id2label label2id num_labels _num_labels problem_type finetuning_task task_specific_params "
     "summary_type summary_use_proj summary_activation summary_proj_to_labels n_special "
     "predict_special_tokens sbert_ce_default_activation_function",
     "heads for other tasks"},
    {CONFIG, "mixtral qwen2moe qwen3moe gpt-oss deepseek_v2 deepseek_v3", NULL,
     "output_router_logits router_aux_loss_coef router_jitter_noise", "training alone"},
    {CONFIG, "deepseek_v2 deepseek_v3", NULL, "aux_loss_alpha seq_aux", "training alone"},
    {CONFIG, "deepseek_v2 deepseek_v3", NULL, "ep_size", "how a program computes the same numbers"},
    {CONFIG, "deepseek_v2 deepseek_v3", NULL, "qk_head_dim", "its parts say it"},
    {CONFIG, "deepseek_v2 deepseek_v3", "1", "moe_layer_freq", "not run otherwise"},
    {CONFIG, "deepseek_v2", "false", "norm_topk_prob", "not run otherwise"},
    {CONFIG, "deepseek_v2", "\"softmax\"", "scoring_func", "not run otherwise"},
    {CONFIG, "deepseek_v3", "\"sigmoid\"", "scoring_func", "not run otherwise"},
    {CONFIG, "deepseek_v3", "\"noaux_tc\"", "topk_method", "not run otherwise"},
    {CONFIG, "vit", NULL, "encoder_stride pooler_act pooler_output_size", "heads for other tasks"},
    {CONFIG, "mpnet", NULL, "type_vocab_size", "it has no types"},
    {CONFIG, "t5encoder", NULL, "dropout_rate", "training alone"},
    {CONFIG, "t5encoder", NULL,
     "num_decoder_layers scale_decoder_outputs tie_word_embeddings is_encoder_decoder",
     "the decoder, which is not run"},
    {CONFIG, "t5encoder", NULL, "n_positions output_past",
     "distances are all there is of positions"},
    {CONFIG, "distilbert", NULL, "qa_dropout seq_classif_dropout", "training alone"},
    {CONFIG, "distilbert", NULL, "sinusoidal_pos_embds", "the file holds the table"},
    {CONFIG, "modern-bert", NULL,
     "mlp_dropout initializer_cutoff_factor deterministic_flash_attn sparse_prediction "
     "sparse_pred_ignore_index repad_logits_with_grad compile reference_compile "
     "unpad_inputs unpad_no_grad layer_norm_eps",
     "training alone, or how a program computes the same numbers"},
    {CONFIG, "modern-bert", NULL, "classifier_pooling classifier_dropout", "heads for other tasks"},
    {CONFIG, "modern-bert", "true", "decoder_bias", "the file says it"},
    {CONFIG, "bert roberta xlm-roberta camembert", NULL,
     "directionality pooler_fc_size pooler_num_attention_heads pooler_num_fc_layers "
     "pooler_size_per_head pooler_type",
     "the pooler, which is not run"},
    {CONFIG, "t5encoder", "false", "is_decoder", "not run otherwise"},
    {CONFIG, NULL, NULL, "is_decoder", "no effect without cross attention"},
    {CONFIG, "gemma3", NULL, "_sliding_window_pattern", "layer_types beside it says the same"},
    {CONFIG, "gemma3", NULL,
     "boi_token_index eoi_token_index image_token_index mm_tokens_per_image",
     "images, which are not read"},
    {CONFIG, "gemma3", NULL, "attn_logit_softcapping", "no effect in this class"},
    {CONFIG, "gpt-oss", NULL, "initial_context_length", "no effect in this class"},
    {CONFIG, "gptj", NULL, "rope_scaling rope_parameters", "no effect in this class"},
    {CONFIG, "bloom", NULL, "slow_but_exact unk_token_id offset_alibi masked_softmax_fusion",
     "how a program computes the same numbers"},
    {CONFIG, "gptj gpt_neo bloom falcon", NULL, "rotary scale_attn_weights rotary_base",
     "no effect in these classes"},
    {CONFIG, "gptneox", NULL, "max_length", "generation of transformers"},
    /* ---- config.json: one value ---- */
    {CONFIG, NULL, "false",
     "add_cross_attention is_encoder_decoder tie_encoder_decoder use_sliding_window "
     "use_bidirectional_attention rope_interleaved _remove_final_layer_norm "
     "apply_residual_connection_post_layernorm alibi",
     "not run otherwise"},
    {CONFIG, NULL, "null",
     "quantization_config cross_attention_hidden_size attn_logit_softcapping "
     "final_logit_softcapping",
     "not run otherwise"},
    {CONFIG, NULL, "{}", "pruned_heads per_layer_config", "not run otherwise"},
    {CONFIG, NULL, "\"absolute\"", "position_embedding_type", "not run otherwise"},
    {CONFIG, "opt", "true", "layer_norm_elementwise_affine", "not run otherwise"},
    {CONFIG, NULL, "1", "partial_rotary_factor", "not run otherwise"},
    {ROPE, NULL, "1", "partial_rotary_factor", "not run otherwise"},
    {CONFIG, "gemma3", "\"gelu_pytorch_tanh\"", "hidden_act", "hidden_activation says it"},
    /* ---- keys of gguf files ---- */
    {GGUF, NULL, "model", "general.type", "not run otherwise"},
    {GGUF, NULL, "2", "general.quantization_version", "blocks are laid out otherwise"},
    {GGUF, NULL, NULL, "general.*", "who made the file, from what and for whom"},
    {GGUF, NULL, NULL, "tokenizer.*", "the tokenizer's"},
    {GGUF, NULL, NULL, "quantize.imatrix.* mradermacher.*", "how the file was quantized"},
    {GGUF, NULL, NULL, ".pooling_type .classifier.output_labels", "heads for other tasks"},
    {GGUF, "granite", "true", ".rope.scaling.finetuned", "no rotary positions otherwise"},
    {GGUF, NULL, NULL, ".rope.scaling.finetuned .rope.scaling.original_context_length",
     "no effect but with scalings that are refused"},
    {GGUF, NULL, "1", ".rope.scaling.attn_factor", "not run otherwise"},
    {GGUF, NULL, "0",
     ".expert_count .expert_used_count .attention.max_alibi_bias .attention.clamp_kqv "
     ".final_logit_softcapping .attn_logit_softcapping .logit_scale .residual_scale "
     ".embedding_scale .attention.scale",
     "not run otherwise"},
    {GGUF, NULL, "false", ".use_parallel_residual", "not run otherwise"},
    {GGUF, "falcon", "jploski", ".tensor_data_layout", "not run otherwise"},
    {GGUF, NULL, "reference|Meta AI original pth", ".tensor_data_layout", "not run otherwise"},
    {GGUF, "t5encoder", NULL, ".context_length", "distances are all there is of positions"},
    {GGUF, "t5encoder", NULL, ".attention.layer_norm_epsilon", "layer_norm_rms_epsilon says it"},
    {GGUF, "t5encoder", NULL, ".decoder_start_token_id .decoder_block_count",
     "the decoder, which is not run"},
    {GGUF, "gemma3", NULL, ".mm.tokens_per_image", "images, which are not read"},
    /* ---- tensors ---- */
    {HUB, "gpt2 gptj", NULL, "h.#.attn.bias h.#.attn.masked_bias",
     "the causal mask, which is computed"},
    {HUB, "gpt_neo", NULL, "h.#.attn.attention.bias h.#.attn.attention.masked_bias",
     "the causal mask, which is computed"},
    {HUB, "gptneox", NULL, "layers.#.attention.bias layers.#.attention.masked_bias",
     "the causal mask, which is computed"},
    {HUB, NULL, NULL,
     "score.weight classifier.weight classifier.bias qa_outputs.weight qa_outputs.bias "
     "multiple_choice_head.summary.weight multiple_choice_head.summary.bias",
     "heads for other tasks"},
    {HUB, "electra", NULL,
     "discriminator_predictions.dense.weight discriminator_predictions.dense.bias "
     "discriminator_predictions.dense_prediction.weight "
     "discriminator_predictions.dense_prediction.bias sequence_summary.summary.weight "
     "sequence_summary.summary.bias",
     "heads for other tasks"},
    {HUB, "bert electra roberta xlm-roberta camembert distilbert", NULL,
     "embeddings.position_ids embeddings.token_type_ids", "counted up, or 0"},
    {HUB, "vit", NULL,
     "embeddings.mask_token pooler.dense.weight pooler.dense.bias decoder.0.weight decoder.0.bias",
     "heads for other tasks"},
    {HUB, "gemma3", NULL, "vision_tower.* multi_modal_projector.*", "images, which are not read"},
    {HUB, "t5encoder", NULL, "decoder.* lm_head.weight", "the decoder, which is not run"},
    {HUB, "t5encoder", NULL, "shared.weight", "encoder.embed_tokens.weight beside it holds"},
    {HUB, "mpnet roberta xlm-roberta camembert", NULL, "lm_head.bias",
     "lm_head.decoder.bias beside it holds"},
    {HUB, "bert electra roberta xlm-roberta camembert distilbert mpnet modern-bert", NULL,
     "classifier.dense.weight classifier.dense.bias classifier.out_proj.weight "
     "classifier.out_proj.bias pre_classifier.weight pre_classifier.bias "
     "pooler.dense.weight pooler.dense.bias cls.seq_relationship.weight cls.seq_relationship.bias "
     "classifier.weight classifier.bias qa_outputs.weight qa_outputs.bias",
     "heads for other tasks"},
    {HUB, "bert", NULL, "cls.predictions.bias", "cls.predictions.decoder.bias beside it holds"},
    {HUB, NULL, NULL,
     "rotary_emb.inv_freq layers.#.self_attn.rotary_emb.inv_freq "
     "layers.#.attention.rotary_emb.inv_freq h.#.self_attention.rotary_emb.inv_freq "
     "h.#.self_attention.maybe_rotary.inv_freq",
     "computed from the configuration"},
    {HUB, "gemma3", NULL, "rotary_emb.inv_freq rotary_emb_local.inv_freq",
     "computed from the configuration"},
    {PARTS, "bert modern-bert", NULL,
     "cls.weight cls.bias cls.output.weight cls.output.bias cls.norm.weight",
     "heads for other tasks"},
    {PARTS, "llama", NULL, "blk.#.attn_rot_embd blk.#.attn_rot_embd.weight",
     "computed from the configuration"},
};

/* `pattern` ends at `end`. */
static bool matches(const char *pattern, const char *end, const char *name) {
    while (pattern < end) {
        if (*pattern == '*') return true;
        if (*pattern == '#') {
            if (!isdigit((unsigned char)*name)) return false;
            while (isdigit((unsigned char)*name)) name++;
        } else if (*name++ != *pattern) {
            return false;
        }
        pattern++;
    }
    return *name == '\0';
}

/* One of the words between separators. */
static bool among(const char *words, const char *separator, const char *name, bool patterns) {
    while (*words != '\0') {
        const size_t size = strcspn(words, separator);
        if (patterns ? matches(words, words + size, name)
                     : strlen(name) == size && strncmp(words, name, size) == 0)
            return true;
        words += size + (words[size] != '\0');
    }
    return false;
}

static const ota_ignored *find_plain(ota_ignored_kind kind, const char *of, const char *name) {
    for (size_t k = 0; k < sizeof table / sizeof *table; k++) {
        const ota_ignored *row = &table[k];
        if (row->kind == kind && (row->of == NULL || among(row->of, " ", of, false)) &&
            among(row->names, " ", name, true))
            return row;
    }
    return NULL;
}

const ota_ignored *ota_ignored_find(ota_ignored_kind kind, const ota_architecture *architecture,
                                    const char *name) {
    const char *const plain[] = {"", NULL};
    const char *const *prefixes = kind == OTA_IGNORED_HUB_TENSORS ? architecture->prefixes : plain;
    for (int i = 0; prefixes[i] != NULL; i++) {
        const size_t size = strlen(prefixes[i]);
        if (strncmp(name, prefixes[i], size) != 0) continue;
        const ota_ignored *row = find_plain(kind, architecture->name, name + size);
        if (row != NULL) return row;
    }
    return NULL;
}

bool ota_ignored_takes(const ota_ignored *row, const char *text) {
    return row->values == NULL || among(row->values, "|", text, false);
}
