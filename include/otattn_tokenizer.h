/* otattn_tokenizer.h: text to token ids and back, as the tokenizers of trained models do it.
 *
 *     ota_tokenizer *tokenizer;
 *     ota_error error;
 *     int64_t count;
 *     if (ota_tokenizer_open(&tokenizer, "gpt2", &error) < 0) puts(error.message);
 *     ota_tokenizer_encode(tokenizer, text, size, 0, NULL, 0, &count, &error);
 *     int32_t *ids = malloc(count * sizeof *ids);
 *     ota_tokenizer_encode(tokenizer, text, size, 0, ids, count, &count, &error);
 *
 * Byte-level BPE (GPT-2, SmolLM, Llama 3, Qwen, Mistral's tekken.json), for which decoding gives back every byte of any text, valid
 * UTF-8 or not, unless the file asks for a normalisation; BPE on characters (Llama 2, Mistral, Gemma) and Unigram (T5,
 * XLM-R), out of tokenizer.json or SentencePiece's own files, which keep every byte where the vocabulary has pieces
 * for bytes; WordPiece (BERT) and whole words. Elsewhere broken bytes count as U+FFFD. Ids equal those of the Python
 * packages `tokenizers` and `sentencepiece` on text of characters that both know.
 *
 * A tokenizer is never changed after it is made: any number of threads may use one. The caller owns
 * texts and ids. Errors: an ota_status and, when `error` is not NULL, one sentence; for a file
 * `NAME: at byte N: the rule it breaks`. */
#ifndef OTATTN_TOKENIZER_H
#define OTATTN_TOKENIZER_H

#include <stddef.h>
#include <stdint.h>

#include "otattn.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Opaque: pieces, rules and what is made of them. */
typedef struct ota_tokenizer ota_tokenizer;

/* Reads a folder or a file. Of a folder, the first of: tokenizer.json; vocab.json or encoder.json with merges.txt or
 * vocab.bpe; vocab.txt; tokenizer.model, spiece.model or sentencepiece.bpe.model; tekken.json; and the settings beside it:
 * tokenizer_config.json, special_tokens_map.json, added_tokens.json, and of config.json tokenizer_class and model_type. A
 * key that is not known is refused. A file is tekken.json under a name with "tekken" ending in .json, tokenizer.json under
 * any other ending so, a model of SentencePiece under any name ending in .model, or a vocab.txt. *tokenizer is NULL on failure. Limits: 64 MiB a file, 2^20 pieces of at most 4
 * KiB with ids 0, 1, 2 ... without a hole, 2^21 merges. [TOT-66] */
OTA_API ota_status ota_tokenizer_open(ota_tokenizer **tokenizer, const char *path,
                                      ota_error *error);
/* Zero means default. */
typedef struct ota_token_options {
    size_t size;    /* of this struct */
    unsigned flags; /* of encoding or decoding; others take 0 */
    /* The call ends with OTA_CANCELLED or OTA_TIMEOUT within a tenth of a second of work after *cancel is not 0 or the
       deadline has passed, both as in ota_options; a tokenizer is NULL then, *count and *size are 0, and ids and text are of no
       use. Looks are 64 KiB of text apart; the search for one match of a file's pattern is not ended, which may take seconds
       where a match has megabytes. */
    const int *cancel;
    int64_t deadline_ns;
} ota_token_options;

/* ota_tokenizer_open with options; NULL: none. */
OTA_API ota_status ota_tokenizer_open_with(ota_tokenizer **tokenizer, const char *path,
                                           const ota_token_options *options, ota_error *error);
/* Frees it; NULL is fine. */
OTA_API void ota_tokenizer_free(ota_tokenizer *tokenizer);

/* ---- a tokenizer whose parts the caller holds, such as a reader of GGUF ---- */

/* Bytes, not ended by NUL. */
typedef struct ota_text {
    const char *data;
    size_t size;
} ota_text;

/* What a piece is for: the numbers of tokenizer.ggml.token_type. */
typedef enum ota_piece_kind {
    OTA_PIECE_NORMAL = 1,
    OTA_PIECE_UNKNOWN = 2,
    OTA_PIECE_CONTROL =
        3,              /* special: matched as a whole in text, left out by OTA_DECODE_NO_SPECIAL */
    OTA_PIECE_USER = 4, /* matched as a whole in text */
    OTA_PIECE_UNUSED = 5,
    OTA_PIECE_BYTE = 6 /* sentencepiece: <0x00> to <0xFF>, for characters that are no piece */
} ota_piece_kind;

/* What WordPiece does with accents. */
typedef enum ota_accents {
    OTA_ACCENTS_AS_CASE, /* stripped where case is lowered */
    OTA_ACCENTS_KEPT,
    OTA_ACCENTS_STRIPPED
} ota_accents;

/* Everything is borrowed for the call. Zero means default. */
typedef struct ota_tokenizer_parts {
    size_t size;        /* of this struct */
    const char *source; /* named in errors */
    const char *
        model; /* "bpe" (byte-level), "sentencepiece" (BPE by scores), "unigram" or "words" (the same pieces),
                  "plamo2" (of scores, too), "rwkv" (the longest piece; bytes as Python escapes them) or "wordpiece" */
    /* How text is cut before merging: "gpt-2" (default), "smollm", "llama-3", "qwen-2", "qwen-3.5", "gpt-4o", "tekken",
       "deepseek-llm", "deepseek-coder", "deepseek-3", "falcon", "bloom", "viking", "seed-coder", "superbpe",
       "bailing", "ggml" (what llama.cpp does where a file names none). BPE only. */
    const char *cut;
    const ota_text *pieces; /* [piece_count]; id = index. BPE: in the byte alphabet of GPT-2.
                               SentencePiece: U+2581 stands for a blank.
                               WordPiece: with ## in front of what continues a word */
    int64_t piece_count;
    const int32_t *kinds;   /* [piece_count] of ota_piece_kind, or NULL: all normal */
    const ota_text *merges; /* [merge_count] "left right", best first; BPE only */
    int64_t merge_count;
    /* Pieces set before and after every text; absent when data is NULL. */
    ota_text begin, end;
    /* WordPiece: for words that no pieces make, "[UNK]" when absent. SentencePiece without pieces of bytes:
       for a run of characters that are no piece. */
    ota_text unknown;
    int keep_case;       /* WordPiece: 0 lowers the case */
    int keep_whole_word; /* BPE: a word that is a piece is taken without merging (Llama 3) */
    const float *scores; /* [piece_count] SentencePiece: pieces of higher scores are made first */
    int accents;         /* WordPiece: ota_accents */
    /* SentencePiece, BPE or Unigram: a blank is put in front of every text that is not empty; runs of blanks are
       one and none stands at the ends; what its normalisation replaces (precompiled_charsmap), absent: nothing. */
    int space_in_front;
    int space_once;
    ota_text charsmap;
    int space_behind; /* SentencePiece: the blank of space_in_front is put behind instead */
} ota_tokenizer_parts;

/* A tokenizer of these parts, to be freed by ota_tokenizer_free; *tokenizer is NULL on failure: OTA_EINVAL, OTA_EFORMAT (parts
 * that do not fit together), OTA_UNSUPPORTED, OTA_ENOMEM. */
OTA_API ota_status ota_tokenizer_create(ota_tokenizer **tokenizer, const ota_tokenizer_parts *parts,
                                        ota_error *error);
/* ota_tokenizer_create with options; NULL: none. */
OTA_API ota_status ota_tokenizer_create_with(ota_tokenizer **tokenizer,
                                             const ota_tokenizer_parts *parts,
                                             const ota_token_options *options, ota_error *error);

/* ---- text to ids ---- */

enum {
    /* leave out what the model's configuration puts before and after a text ([CLS], [SEP], BOS) */
    OTA_ENCODE_NO_SPECIAL = 1,
    /* "<|endoftext|>" and the like in the text are plain characters; SentencePiece's pieces of kind USER
       stay pieces */
    OTA_ENCODE_PLAIN = 2
};

/* The ids of a text: writes the first `capacity` and sets *count to how many there are, which may be more: 0 only
 * counts. `text` holds at most 64 MiB (OTA_ELIMIT). A byte that the vocabulary lacks becomes its unknown
 * piece, or nothing when it has none. */
OTA_API ota_status ota_tokenizer_encode(const ota_tokenizer *tokenizer, const char *text,
                                        int64_t text_size, unsigned flags, int32_t *ids,
                                        int64_t capacity, int64_t *count, ota_error *error);

/* ota_tokenizer_encode with options; NULL: none. */
OTA_API ota_status ota_tokenizer_encode_with(const ota_tokenizer *tokenizer, const char *text,
                                             int64_t text_size, const ota_token_options *options,
                                             int32_t *ids, int64_t capacity, int64_t *count,
                                             ota_error *error);

/* ---- ids to text ---- */

enum {
    OTA_DECODE_NO_SPECIAL = 1, /* special pieces become nothing */
    OTA_DECODE_INNER = 2 /* other ids stand before these: a blank in front is one of the text */
};

/* The text of ids: writes the first `capacity` bytes and sets *size to how many there are; adds no NUL. An id outside of
 * the vocabulary is OTA_EINVAL. */
OTA_API ota_status ota_tokenizer_decode(const ota_tokenizer *tokenizer, const int32_t *ids,
                                        int64_t count, unsigned flags, char *text, int64_t capacity,
                                        int64_t *size, ota_error *error);

/* ota_tokenizer_decode with options; NULL: none. */
OTA_API ota_status ota_tokenizer_decode_with(const ota_tokenizer *tokenizer, const int32_t *ids,
                                             int64_t count, const ota_token_options *options,
                                             char *text, int64_t capacity, int64_t *size,
                                             ota_error *error);

/* ---- the vocabulary ---- */

/* The kind of model: "bpe", "sentencepiece" (BPE out of a file of SentencePiece), "unigram", "wordpiece", "words", "rwkv" or "plamo2". */
OTA_API const char *ota_tokenizer_model(const ota_tokenizer *tokenizer);
/* How many ids there are, from 0 to count - 1. */
OTA_API int64_t ota_tokenizer_count(const ota_tokenizer *tokenizer);
/* A piece as its file spells it, valid UTF-8 (byte-level BPE writes a space as U+0120); owned by the
 * tokenizer. Absent (data NULL) outside of the vocabulary. */
OTA_API ota_text ota_tokenizer_piece(const ota_tokenizer *tokenizer, int64_t id);
/* The id of a piece so spelled, -1 when there is none. */
OTA_API int64_t ota_tokenizer_id(const ota_tokenizer *tokenizer, ota_text piece);
/* Is a piece special? 1 for special pieces such as [CLS] and <|endoftext|>, else 0. */
OTA_API int ota_tokenizer_is_special(const ota_tokenizer *tokenizer, int64_t id);
/* The ids set before (after = 0) or after (1) every text: writes the first `capacity`, returns how many. */
OTA_API int64_t ota_tokenizer_frame(const ota_tokenizer *tokenizer, int after, int32_t *ids,
                                    int64_t capacity);

#ifdef __cplusplus
}
#endif
#endif
