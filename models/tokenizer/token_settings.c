/* Settings beside a vocabulary: see token_settings.h. What each key means is what transformers 5 makes of it. */
#define _GNU_SOURCE
#include "token_settings.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "models/checkpoint/files.h"
#include "models/checkpoint/json_text.h"

enum { SETTINGS_MOST = 4 << 20 };

static const char *const file_names[OTA_SETTINGS_FILES] = {
    "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "config.json"};

const char *const ota_token_role_keys[OTA_TOKEN_ROLES] = {
    "bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"};

/* ---- which keys there are ---- */

static const char *const switch_keys[OTA_SWITCHES] = {
    [OTA_SWITCH_LOWER] = "do_lower_case",
    [OTA_SWITCH_ACCENTS] = "strip_accents",
    [OTA_SWITCH_CHINESE] = "tokenize_chinese_chars",
    [OTA_SWITCH_PREFIX] = "add_prefix_space",
    [OTA_SWITCH_BEGIN] = "add_bos_token",
    [OTA_SWITCH_END] = "add_eos_token",
    [OTA_SWITCH_SPLIT] = "split_special_tokens",
};

/* Read by added_plan.c, besides the roles and every other key that ends in _token. */
static const char *const token_keys[] = {"added_tokens_decoder", "additional_special_tokens",
                                         "extra_special_tokens", "model_specific_special_tokens"};

/* Keys of tokenizer_config.json that change no id, and why. */
static const char *const idle_keys[] = {
    /* Texts are encoded whole and alone: none is cut off or filled up. */
    "model_max_length", "max_len", "max_length", "truncation", "truncation_side",
    "truncation_strategy", "stride", "padding", "padding_side", "pad_to_multiple_of",
    "pad_token_type_id", "tokenizer_truncation", "tokenizer_padding",
    /* Ids that follow from the named tokens. */
    "bos_token_id", "eos_token_id", "unk_token_id", "sep_token_id", "pad_token_id", "cls_token_id",
    "mask_token_id", "vocab_size",
    /* How ids become text again in transformers; here they become what the pieces say. */
    "clean_up_tokenization_spaces",
    "clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output",
    "spaces_between_special_tokens", "errors",
    /* What is beside the ids: names of arrays, offsets. */
    "model_input_names", "return_token_type_ids", "return_attention_mask", "trim_offsets",
    /* Conversations. */
    "chat_template", "response_template", "response_schema", "chat_control_tokens",
    "use_default_system_prompt",
    /* Of the tokenizers in Python that transformers 5 no longer runs for these files. */
    "do_basic_tokenize", "never_split", "clean_text", "from_slow", "use_fast",
    /* How older tokenizers in Python read SentencePiece's files; and steps that tokenizer.json holds. */
    "legacy", "sp_model_kwargs", "remove_space", "keep_accents",
    /* Where the files lay, which program wrote them, and what other classes are made with them. */
    "name_or_path", "_name_or_path", "model_type", "_commit_hash", "is_local", "local_files_only",
    "backend", "files_loaded", "transformers_version", "tokenizer_file", "vocab_file",
    "merges_file", "special_tokens_map_file", "added_tokens_file", "tokenizer_config_file",
    "full_tokenizer_file", "processor_class", "verbose", "device_map"};

static bool is_among(const char *word, const char *const *words, size_t count) {
    for (size_t k = 0; k < count; k++)
        if (strcmp(word, words[k]) == 0) return true;
    return false;
}

static bool is_switch(const char *key) { return is_among(key, switch_keys, OTA_SWITCHES); }

/* ---- classes ---- */

static const struct {
    ota_token_class class;
    const char *model; /* its algorithm; NULL: whatever tokenizer.json says */
    const char *names; /* with a blank around each */
} class_rows[] = {
    {OTA_CLASS_BERT, "WordPiece",
     " BertTokenizer DistilBertTokenizer ElectraTokenizer LayoutLMTokenizer LxmertTokenizer "
     "MobileBertTokenizer SqueezeBertTokenizer ConvBertTokenizer DPRContextEncoderTokenizer "
     "DPRQuestionEncoderTokenizer "},
    {OTA_CLASS_GPT2, "BPE", " GPT2Tokenizer "},
    {OTA_CLASS_FILE, NULL,
     " PreTrainedTokenizer PreTrainedTokenizerFast TokenizersBackend PythonBackend "
     "BloomTokenizer "},
    /* transformers 5 builds it anew with the sign of Metaspace in front; here the steps of the file hold. */
    {OTA_CLASS_FILE, "BPE", " LlamaTokenizer "},
    {OTA_CLASS_OTHER, "WordPiece",
     " FunnelTokenizer LayoutLMv2Tokenizer MPNetTokenizer SplinterTokenizer RoFormerTokenizer "},
    {OTA_CLASS_OTHER, "BPE",
     " BartTokenizer BlenderbotTokenizer CLIPTokenizer CodeGenTokenizer CodeLlamaTokenizer "
     "CohereTokenizer DebertaTokenizer EsmcTokenizer GPTNeoXTokenizer GemmaTokenizer "
     "HerbertTokenizer LEDTokenizer LayoutLMv3Tokenizer LongformerTokenizer "
     "LukeTokenizer MarkupLMTokenizer MvpTokenizer NllbTokenizer NougatTokenizer "
     "OpenAIGPTTokenizer Qwen2Tokenizer Qwen3_5Tokenizer ReformerTokenizer RobertaTokenizer "
     "SeamlessM4TTokenizer Siglip2Tokenizer Tipsv2Tokenizer WhisperTokenizer "},
    {OTA_CLASS_OTHER, "Unigram",
     " AlbertTokenizer BarthezTokenizer BigBirdTokenizer CamembertTokenizer DebertaV2Tokenizer "
     "FNetTokenizer LasrTokenizer LayoutXLMTokenizer MBart50Tokenizer MBartTokenizer "
     "MLukeTokenizer PegasusTokenizer RemBertTokenizer T5Tokenizer UdopTokenizer "
     "VideoPrismTokenizer XGLMTokenizer XLMRobertaTokenizer XLNetTokenizer "},
    /* Programs in Python, which read no tokenizer.json. */
    {OTA_CLASS_OTHER, "none",
     " BartphoTokenizer BertGenerationTokenizer BertJapaneseTokenizer BertweetTokenizer "
     "BioGptTokenizer BlenderbotSmallTokenizer ByT5Tokenizer CTRLTokenizer CanineTokenizer "
     "ClvpTokenizer CpmAntTokenizer CpmTokenizer DiaTokenizer EsmTokenizer FSMTTokenizer "
     "FlaubertTokenizer GPTNeoXJapaneseTokenizer GPTSw3Tokenizer M2M100Tokenizer MarianTokenizer "
     "MgpstrTokenizer MyT5Tokenizer PLBartTokenizer PerceiverTokenizer PhobertTokenizer "
     "ProphetNetTokenizer RagTokenizer RoCBertTokenizer SiglipTokenizer Speech2TextTokenizer "
     "SpeechT5Tokenizer TapasTokenizer VitsTokenizer Wav2Vec2CTCTokenizer "
     "Wav2Vec2PhonemeCTCTokenizer XLMTokenizer "},
};

/* Kinds of models (model_type of config.json) and the class that they imply. For those of the last row
 * transformers takes tokenizer.json as it is, whatever class the files name. */
static const struct {
    ota_token_class class;
    const char *model;
    const char *names;
} model_rows[] = {
    {OTA_CLASS_BERT, "WordPiece",
     " align bark bert blip bros chinese_clip convbert distilbert electra ernie flava git "
     "grounding-dino layoutlm lxmert megatron-bert mm-grounding-dino mobilebert nezha "
     "nomic_bert qdqbert realm retribert squeezebert tvp vilt visual_bert "},
    {OTA_CLASS_GPT2, "BPE",
     " blip-2 codegen dbrx emu3 gpt2 gpt_neo gptj instructblip instructblipvideo jais2 opt phi "
     "starcoder2 "},
    {OTA_CLASS_FILE, NULL,
     " aria arctic beam bigbird_pegasus camembertv2-base canary chatlm cohere_asr ernie4_5 "
     "ernie4_5_moe flex_olmo fuyu glm glm4 glm4_moe glm4_moe_lite glm4v glm4v_moe glm_image glmasr "
     "got_ocr2 gpt_bigcode granite granitemoe granitemoehybrid granitemoeshared h2ovl_chat "
     "hyperclovax hyperclovax_vlm internlm2 internlm3 iquestcoder jamba kimi_k25 kimi_linear "
     "kosmos-2 "
     "llava llava_next mimo_v2_flash minicpm3 minicpm_ocr minicpmv minicpmv4_6 minicpmv4_7 "
     "minimax_m2 ministral ministral3 mistral mistral3 mistral_large4 mixtral modernbert "
     "modernbert-decoder molmo molmo2 nemo_speechlm nemotron nvfp4 nystromformer olmo2 olmo3 "
     "olmo_hybrid opencua openvla paddleocr_vl pegasus_x persimmon phi3 phi3_v phimoe pix2struct "
     "pixtral pocket_tts smolvlm stablelm step3_vl umt5 vipllava voxtral voxtral_realtime "
     "xlm-roberta-xl "},
};

/* Whether the first `size` characters of `word` are one of the names. */
static bool is_named(const char *names, const char *word, size_t size) {
    if (size == 0 || memchr(word, ' ', size) != NULL) return false;
    for (const char *at = names; (at = strchr(at, ' ')) != NULL;)
        if (strncmp(++at, word, size) == 0 && at[size] == ' ') return true;
    return false;
}

static void take_class(ota_token_settings *settings, const char *name) {
    size_t size = strlen(name);
    if (size > 4 && strcmp(name + size - 4, "Fast") == 0) size -= 4;
    /* A class that transformers does not know, either. */
    settings->class = OTA_CLASS_FILE;
    for (size_t k = 0; k < sizeof class_rows / sizeof *class_rows; k++) {
        if (!is_named(class_rows[k].names, name, size)) continue;
        settings->class = class_rows[k].class;
        settings->class_model = class_rows[k].model;
        return;
    }
}

static ota_status find_class(ota_token_settings *settings) {
    static const ota_settings_file files[] = {OTA_SETTINGS_CONFIG, OTA_SETTINGS_MODEL};
    const char *model =
        json_string_value(json_object_get(settings->trees[OTA_SETTINGS_MODEL], "model_type"));
    settings->class_key = "model_type";
    settings->class_name = model;
    settings->class_file = OTA_SETTINGS_MODEL;
    for (size_t k = 0; model != NULL && k < sizeof model_rows / sizeof *model_rows; k++) {
        if (!is_named(model_rows[k].names, model, strlen(model))) continue;
        settings->class = model_rows[k].class;
        settings->class_model = model_rows[k].model;
    }
    for (int k = 0; k < 2; k++) {
        const json_t *name = json_object_get(settings->trees[files[k]], "tokenizer_class");
        if (name == NULL || json_is_null(name)) continue;
        if (!json_is_string(name) || json_string_length(name) == 0)
            return ota_token_settings_fail(settings, files[k], OTA_EFORMAT,
                                           "tokenizer_class must be the name of a class");
        settings->class_key = "tokenizer_class";
        settings->class_name = json_string_value(name);
        settings->class_file = files[k];
        if (settings->class != OTA_CLASS_FILE) take_class(settings, settings->class_name);
        break;
    }
    return OTA_OK;
}

ota_status ota_token_settings_expect(ota_token_settings *settings, ota_token_class class,
                                     const char *vocabulary) {
    if (settings->class_name == NULL) settings->class = class;
    if (settings->class == class) return OTA_OK;
    return ota_token_settings_fail(settings, settings->class_file, OTA_UNSUPPORTED,
                                   "%s \"%.60s\" is not run on %s, which is read as %s reads it; "
                                   "write a tokenizer.json",
                                   settings->class_key, settings->class_name, vocabulary,
                                   class == OTA_CLASS_BERT ? "BertTokenizer" : "GPT2Tokenizer");
}

/* ---- reading ---- */

ota_status ota_token_settings_fail(const ota_token_settings *settings, ota_settings_file file,
                                   ota_status status, const char *format, ...) {
    char rule[400];
    va_list arguments;
    va_start(arguments, format);
    (void)ota_vsnprintf(rule, sizeof rule, format, arguments);
    va_end(arguments);
    return ota_token_fail(settings->error, status, settings->paths[file], -1, "%s", rule);
}

static ota_status refuse_key(const ota_token_settings *settings, ota_settings_file file,
                             const char *key) {
    return ota_token_settings_fail(settings, file, OTA_UNSUPPORTED,
                                   "the key \"%.80s\" is not known here; take it out where it has "
                                   "no effect on ids",
                                   key);
}

/* Any key that ends so names a token; its value is a text or an object. */
static bool is_token_key(const char *key, const json_t *value) {
    static const char tail[] = "_token";
    const size_t size = strlen(key);
    return size >= sizeof tail && strcmp(key + size + 1 - sizeof tail, tail) == 0 &&
           (json_is_string(value) || json_is_object(value) || json_is_null(value));
}

bool ota_token_other_key(const char *key, const json_t *value) {
    return is_token_key(key, value) && !is_switch(key) &&
           !is_among(key, ota_token_role_keys, OTA_TOKEN_ROLES);
}

static bool is_read(const char *key, const json_t *value) {
    return is_among(key, token_keys, sizeof token_keys / sizeof *token_keys) ||
           is_among(key, ota_token_role_keys, OTA_TOKEN_ROLES) || ota_token_other_key(key, value);
}

/* Keys with values that change nothing, and others that would need what is not here. */
static ota_status check_value(const ota_token_settings *settings, const char *key,
                              const json_t *value, bool *known) {
    const char *rule = NULL;
    *known = true;
    if (strcmp(key, "fast_tokenizer_files") == 0) {
        for (size_t k = 0; k < json_array_size(value); k++) {
            const char *name = json_string_value(json_array_get(value, k));
            if (name == NULL || strcmp(name, "tokenizer.json") != 0)
                rule = "names another file than tokenizer.json, and no other is read";
        }
    } else if (strcmp(key, "auto_map") == 0) {
        if (json_is_array(value) || json_object_get(value, "AutoTokenizer") != NULL)
            rule = "names a program in Python for the tokenizer, which is not run";
    } else if (strcmp(key, "extra_ids") == 0) {
        /* Read by added_plan.c. */
        if (!json_is_integer(value) && !json_is_real(value)) rule = "must be a number";
    } else if (strcmp(key, "init_inputs") == 0) {
        if (json_array_size(value) > 0) rule = "must be empty: no other way of calling is known";
    } else {
        *known = false;
    }
    return rule == NULL ? OTA_OK
                        : ota_token_settings_fail(settings, OTA_SETTINGS_CONFIG, OTA_UNSUPPORTED,
                                                  "%s %s", key, rule);
}

static ota_status check_config(const ota_token_settings *settings) {
    const char *key;
    json_t *value;
    json_object_foreach(settings->trees[OTA_SETTINGS_CONFIG], key, value) {
        bool known = false;
        ota_status status = ota_look(settings->ending, OTA_WISH_WORK, settings->error);
        if (status == OTA_OK) status = check_value(settings, key, value, &known);
        if (status != OTA_OK) return status;
        if (known || strcmp(key, "tokenizer_class") == 0 || is_switch(key) || is_read(key, value) ||
            is_among(key, idle_keys, sizeof idle_keys / sizeof *idle_keys))
            continue;
        return refuse_key(settings, OTA_SETTINGS_CONFIG, key);
    }
    return OTA_OK;
}

static ota_status check_map(const ota_token_settings *settings) {
    const char *key;
    json_t *value;
    json_object_foreach(settings->trees[OTA_SETTINGS_MAP], key, value) {
        if (is_read(key, value) && strcmp(key, "added_tokens_decoder") != 0) continue;
        return refuse_key(settings, OTA_SETTINGS_MAP, key);
    }
    return OTA_OK;
}

static ota_status read_switches(ota_token_settings *settings) {
    for (size_t k = 0; k < OTA_SWITCHES; k++) {
        const json_t *value = json_object_get(settings->trees[OTA_SETTINGS_CONFIG], switch_keys[k]);
        if (value == NULL || json_is_null(value)) continue;
        if (!json_is_boolean(value))
            return ota_token_settings_fail(settings, OTA_SETTINGS_CONFIG, OTA_EFORMAT,
                                           "%s must be true or false", switch_keys[k]);
        settings->switches[k] = json_is_true(value);
    }
    return OTA_OK;
}

/* Takes over the text. */
static ota_status parse_file(ota_token_settings *settings, size_t file, char *text, size_t size) {
    /* model_max_length is often a whole number of 31 digits; only the ids of added_tokens.json are read as integers. */
    const size_t flags =
        JSON_REJECT_DUPLICATES | (file == OTA_SETTINGS_ADDED ? 0 : (size_t)JSON_DECODE_INT_AS_REAL);
    json_error_t cause;
    bool no_memory;
    json_t *tree = ota_json_text(text, size, flags, settings->ending, &cause, &no_memory);
    free(text);
    settings->trees[file] = tree;
    if (no_memory) return ota_token_no_memory(settings->error);
    const ota_status looked = ota_look(settings->ending, 0, settings->error);
    if (tree == NULL && looked != OTA_OK) return looked;
    if (tree == NULL)
        return ota_token_fail(settings->error, OTA_EFORMAT, settings->paths[file],
                              cause.position > 0 ? cause.position - 1 : 0, "not valid JSON: %.120s",
                              cause.text);
    return json_is_object(tree)
               ? OTA_OK
               : ota_token_fail(settings->error, OTA_EFORMAT, settings->paths[file], 0,
                                "the file must hold a JSON object");
}

static ota_status read_file(ota_token_settings *settings, const char *folder, size_t file) {
    const size_t room = strlen(folder) + strlen(file_names[file]) + 2;
    settings->paths[file] = malloc(room);
    if (settings->paths[file] == NULL) return ota_token_no_memory(settings->error);
    (void)ota_snprintf(settings->paths[file], room, "%s/%s", folder, file_names[file]);
    if (!ota_path_exists(settings->paths[file])) return OTA_OK;
    char *text;
    size_t size;
    const ota_status status = ota_file_text(settings->paths[file], true, SETTINGS_MOST,
                                            settings->ending, &text, &size, settings->error);
    return status == OTA_OK ? parse_file(settings, file, text, size) : status;
}

void ota_token_settings_start(ota_token_settings *settings, ota_ending *ending, ota_error *error) {
    *settings = (ota_token_settings){.ending = ending, .error = error};
    memset(settings->switches, -1, sizeof settings->switches);
}

ota_status ota_token_settings_read(ota_token_settings *settings, const char *folder,
                                   ota_error *error) {
    ota_status status = OTA_OK;
    settings->error = error;
    for (size_t k = 0; k < OTA_SETTINGS_FILES && status == OTA_OK; k++)
        status = read_file(settings, folder, k);
    if (status == OTA_OK) status = check_config(settings);
    if (status == OTA_OK) status = check_map(settings);
    if (status == OTA_OK) status = read_switches(settings);
    return status == OTA_OK ? find_class(settings) : status;
}

void ota_token_settings_free(ota_token_settings *settings) {
    for (size_t k = 0; k < OTA_SETTINGS_FILES; k++) {
        json_decref(settings->trees[k]);
        free(settings->paths[k]);
    }
    json_decref(settings->named);
    json_decref(settings->marks);
    free(settings->numbered.items);
    free(settings->others.items);
}
