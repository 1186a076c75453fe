/* models/tokenizer/: Text to ids and back: normalisation, cutting into words, BPE on bytes and on characters, Unigram,
 * WordPiece and whole words, and the files that tokenizers come in. It may call the public headers and
 * models/checkpoint/.
 *
 * What the files of the tokenizer share.
 *
 *   text --added.c--> stretches between added tokens --normalize.c--> --pretokenize.c--> words
 *        --bpe.c | unigram.c | wordpiece.c--> ids --decode.c--> text
 *
 * A tokenizer is built once by tokenizer_json.c, tokenizer_lists.c or tokenizer_create.c and is constant
 * from then on; whatever changes while a text is encoded lives in ota_token_encoder. */
#ifndef OTATTN_MODELS_TOKENIZER_PARTS_H
#define OTATTN_MODELS_TOKENIZER_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "models/checkpoint/files.h"
#include "otattn_tokenizer.h"
#include "piece_tree.h"

/* ---- limits of the loader rules ---- */

enum {
    OTA_TOKEN_FILE_MOST = 64 << 20,
    OTA_TOKEN_TEXT_MOST = 64 << 20,
    OTA_TOKEN_PIECES_MOST = 1 << 20,
    OTA_TOKEN_MERGES_MOST = 1 << 21,
    OTA_TOKEN_PIECE_MOST = 4096,
    OTA_TOKEN_STEPS_MOST = 16,
    OTA_TOKEN_FRAME_MOST = 16
};

/* ---- errors (tokenizer_files.c) ---- */

/* "path: at byte offset: rule"; offset < 0 names no place. Hostile bytes in the sentence become '?'. */
ota_status ota_token_fail(ota_error *error, ota_status status, const char *path, int64_t offset,
                          const char *format, ...) __attribute__((format(printf, 5, 6)));
ota_status ota_token_no_memory(ota_error *error);

/* ---- interruption (encode.c) ---- */

/* What a caller's options (or NULL) say, or a refusal; the first look is now. `flags` NULL: the call has none. */
ota_status ota_token_ending_begin(const ota_token_options *options, unsigned *flags,
                                  ota_ending *ending, ota_error *error);

/* ---- files (tokenizer_files.c) ---- */

typedef struct ota_token_file {
    char *text; /* owned, ended by one NUL beyond size */
    size_t size;
    const char *path;   /* borrowed */
    ota_ending *ending; /* of who has it read, NULL: nobody ends that */
} ota_token_file;

ota_status ota_token_file_bytes(const char *path, ota_ending *ending, ota_token_file *file,
                                ota_error *error);
/* The same for a text: its bytes are UTF-8. */
ota_status ota_token_file_read(const char *path, ota_ending *ending, ota_token_file *file,
                               ota_error *error);
void ota_token_file_free(ota_token_file *file);

/* ---- UTF-8 (utf8.c) ---- */

/* Bytes at the start of `text` that are valid UTF-8. */
size_t ota_token_valid(const char *text, size_t size);
/* The same of a long text, in steps between which the ending looks. */
ota_status ota_token_valid_within(const char *text, size_t size, ota_ending *ending, size_t *valid,
                                  ota_error *error);
/* Bytes at the start that belong to no character; `text` begins with such a byte. */
size_t ota_token_malformed(const char *text, size_t size);
/* The same for the largest malformed part that counts as one U+FFFD. */
size_t ota_token_malformed_part(const char *text, size_t size);
bool ota_token_is_space(int32_t character);
/* Bytes of valid UTF-8 without the white space at its end. */
size_t ota_token_trimmed(const char *text, size_t size);
bool ota_token_is_word(int32_t character);
/* Bytes of the first character, 1 where none begins there. */
size_t ota_token_step(const char *text, size_t size, int32_t *character);

/* ---- growing bytes (buffer.c) ---- */

typedef struct ota_token_buffer {
    char *bytes; /* owned */
    size_t used, room;
} ota_token_buffer;

/* Both false without memory. */
bool ota_token_reserve(ota_token_buffer *buffer, size_t more);
bool ota_token_append(ota_token_buffer *buffer, const char *bytes, size_t size);
/* Room for `count` elements of `size` bytes in *array; *room counts elements. */
bool ota_token_grow(void **array, size_t *room, size_t count, size_t size);

/* ---- vocabulary (vocabulary.c) ---- */

/* Pieces found in a file, in any order, before they are checked. */
typedef struct ota_token_entry {
    size_t begin, size; /* in list.text */
    int64_t id;
    int64_t offset; /* in the file, for errors */
} ota_token_entry;

typedef struct ota_token_list {
    ota_token_buffer text;
    ota_token_entry *entries;
    size_t count, room;
    size_t outside; /* the last entries, which are added tokens and no pieces of the model */
    const char *path;
    ota_ending *ending;
} ota_token_list;

/* The piece whose bytes were appended to list->text since `begin`. Refuses empty and long ones. */
ota_status ota_token_list_add(ota_token_list *list, size_t begin, int64_t id, int64_t offset,
                              ota_error *error);
void ota_token_list_free(ota_token_list *list);

typedef struct ota_vocabulary {
    char *bytes;     /* pieces one after another */
    uint32_t *begin; /* [count + 1] */
    int32_t count;
    int32_t *slots; /* [mask + 1] ids by hash, -1 empty; NULL: no index */
    uint64_t mask;
    size_t longest;   /* bytes of the longest piece */
    uint8_t *outside; /* [room] 1: an added token, which the model does not know */
    size_t room;      /* pieces that begin and outside have room for */
} ota_vocabulary;

/* Packs the entries by id, which must be 0 ... count - 1 without a hole, texts unique. */
ota_status ota_vocabulary_build(ota_vocabulary *vocabulary, const ota_token_list *list,
                                ota_error *error);
/* One more piece, which only added tokens name; its text is new. False without memory. */
bool ota_vocabulary_append(ota_vocabulary *vocabulary, const char *text, size_t size);
/* The piece of the model that is spelled so, -1. */
int32_t ota_vocabulary_find_model(const ota_vocabulary *vocabulary, const char *text, size_t size);
/* An index over pieces that may repeat: the first wins. */
ota_status ota_vocabulary_index(ota_vocabulary *vocabulary, ota_ending *ending, ota_error *error);
void ota_vocabulary_free(ota_vocabulary *vocabulary);
int32_t ota_vocabulary_find(const ota_vocabulary *vocabulary, const char *text, size_t size);
ota_text ota_vocabulary_text(const ota_vocabulary *vocabulary, int32_t id);

/* ---- the byte alphabet (byte_alphabet.c) ---- */

/* The character that stands for a byte in byte-level pieces, and back: -1 for a character that is none. */
int32_t ota_token_byte_character(unsigned byte);
int ota_token_character_byte(int32_t character);
/* Appends that character; false without memory. */
bool ota_token_put_byte(ota_token_buffer *out, unsigned byte);
/* The bytes that a text stands for, to raw [text.size], or the text itself where a character stands for none;
 * returns how many. */
size_t ota_token_unspell(ota_text text, char *raw);

/* ---- BPE (bpe.c) ---- */

typedef struct ota_merge {
    uint64_t pair; /* left id << 32 | right id; UINT64_MAX: empty slot */
    uint32_t rank;
    int32_t product;
} ota_merge;

typedef struct ota_bpe {
    ota_merge *merges; /* [mask + 1] by hash of the pair */
    uint64_t mask;
    uint32_t merge_count;
    ota_vocabulary raw; /* on bytes: pieces as the bytes they stand for */
    bool whole_word;    /* a word that is a piece is taken as it is */
    bool characters;    /* words start as characters, not bytes */
    char prefix[32];    /* of characters that continue a word; on characters alone */
    char suffix[32];    /* of the character that ends one; on characters alone */
} ota_bpe;

typedef struct ota_token_merge_list {
    ota_merge *merges;
    size_t count, room;
    size_t prefix_size; /* bytes that the right piece of a merge loses in their product */
    ota_ending *ending;
} ota_token_merge_list;

/* One more, up to as many as there may be. */
ota_status ota_bpe_put_merge(ota_token_merge_list *list, ota_merge merge, const char *path,
                             int64_t offset, ota_error *error);
/* The merge of two pieces spelled as in the vocabulary, ranked behind all others; both and their product must exist. */
ota_status ota_bpe_merge(const ota_vocabulary *vocabulary, ota_token_merge_list *list,
                         ota_text left, ota_text right, const char *path, int64_t offset,
                         ota_error *error);
/* "left right" with exactly one space. */
ota_status ota_bpe_merge_line(const ota_vocabulary *vocabulary, ota_token_merge_list *list,
                              ota_text line, const char *path, int64_t offset, ota_error *error);
/* On bytes also their pieces. */
ota_status ota_bpe_build(ota_tokenizer *tokenizer, const ota_token_merge_list *list,
                         ota_error *error);
void ota_bpe_free(ota_bpe *bpe);
/* The pieces as the bytes that they stand for, of which there are no more than of a piece. */
ota_status ota_bpe_raw(ota_vocabulary *raw, const ota_vocabulary *vocabulary,
                       size_t (*unspell)(ota_text piece, char *bytes), ota_ending *ending,
                       ota_error *error);

/* ---- pieces of SentencePiece (sentencepiece.c) ---- */

/* The merges that follow from the scores of pieces. */
ota_status ota_sentencepiece_merges(const ota_vocabulary *vocabulary,
                                    const ota_tokenizer_parts *parts, ota_token_merge_list *list,
                                    ota_error *error);
/* The byte that a piece <0x00> to <0xFF> stands for, -1: it is none. */
int ota_sentencepiece_byte(ota_text piece);
/* Fills tokenizer->byte_ids with the pieces of kind BYTE; without kinds, with all that are spelled so. */
ota_status ota_sentencepiece_bytes(ota_tokenizer *tokenizer, const ota_tokenizer_parts *parts,
                                   ota_error *error);
/* Appends `text` with U+2581 for every blank. Files of gguf spell blanks of pieces of kind USER as blanks. */
bool ota_sentencepiece_spell(ota_text text, ota_token_buffer *out);
/* The pieces of the bytes of a character, to ids [size]; false where one is missing. */
bool ota_token_bytes(const ota_tokenizer *tokenizer, const char *text, size_t size, int32_t *ids);

/* ---- Unigram (unigram.c) ---- */

typedef struct ota_unigram {
    double *scores; /* [count]; of plamo2 whole numbers */
    ota_piece_tree tree;
    double unknown_score; /* of a character that is no piece */
} ota_unigram;

/* Over tokenizer->vocabulary and unigram.scores. use[id]: 0 for a piece that no text becomes, 1 for others, 2 where its
 * score says nothing about what is unknown; NULL: all 1. */
ota_status ota_unigram_build(ota_tokenizer *tokenizer, const uint8_t *use, ota_error *error);
void ota_unigram_free(ota_unigram *unigram);

/* ---- the longest piece (longest.c), and PLaMo's rule (plamo.c) ---- */

/* Pieces whose bytes are escaped as Python writes them; `parts` says which are found in a text. */
ota_status ota_longest_build(ota_tokenizer *tokenizer, const ota_tokenizer_parts *parts,
                             const char *source, ota_error *error);
ota_status ota_plamo_build(ota_tokenizer *tokenizer, const ota_tokenizer_parts *parts,
                           const char *source, ota_error *error);

/* ---- WordPiece (wordpiece.c) ---- */

typedef struct ota_wordpiece {
    char prefix[32]; /* of pieces that continue a word */
    size_t prefix_size;
    int64_t longest_word; /* characters; longer words are unknown */
} ota_wordpiece;

/* ---- added tokens (added.c) ---- */

enum {
    OTA_ADDED_SINGLE_WORD = 1, /* not within a word */
    OTA_ADDED_STRIP_LEFT = 2,
    OTA_ADDED_STRIP_RIGHT = 4,
    OTA_ADDED_SPECIAL = 8,
    OTA_ADDED_NORMALIZED = 16 /* looked for in normalised text */
};

/* What the flags are called in files. */
typedef struct ota_added_key {
    const char *name;
    unsigned flag;
} ota_added_key;
enum { OTA_ADDED_KEYS = 5 };
extern const ota_added_key ota_added_keys[OTA_ADDED_KEYS];

typedef struct ota_added {
    ota_token_entry text; /* in ota_added_set.text */
    int32_t id;
    unsigned flags; /* OTA_ADDED_ bits */
} ota_added;

/* Sorted by text. */
typedef struct ota_added_set {
    ota_token_buffer text;
    ota_added *tokens;
    size_t count, room;
    bool begins[256];    /* bytes that some token begins with */
    bool splits_special; /* special tokens are looked for like others and then read as plain text */
} ota_added_set;

typedef struct ota_added_match {
    size_t begin, end; /* with the blanks that the token strips */
    size_t
        after; /* where the next token may begin: in the blanks that this one strips behind it, too */
    size_t
        blanks; /* where the last run of stripped blanks ended, so that none is walked through twice */
    int32_t id;
} ota_added_match;

bool ota_added_put(ota_added_set *set, ota_text text, ota_added token);
ota_status ota_added_sort(ota_added_set *set, ota_ending *ending, ota_error *error);
/* The first token at or after match->after, the longest of those that begin there; begin is match->end of the token
 * before at the least where blanks are stripped. *match is all zero before the first. */
/* Bytes of the longest token that the text begins with, whatever its flags; 0: none. */
size_t ota_added_begins(const ota_added_set *set, const char *text, size_t size);
bool ota_added_next(const ota_added_set *set, const char *text, size_t size,
                    ota_added_match *match);
void ota_added_free(ota_added_set *set);

/* ---- what SentencePiece replaces before anything else (charsmap.c) ---- */

/* A double array over UTF-8 whose values are places in texts ended by NUL. */
typedef struct ota_charsmap {
    uint32_t *units; /* owned */
    size_t unit_count;
    char *texts; /* owned, ended by NUL */
    size_t text_size;
} ota_charsmap;

/* `blob`: the size of the double array, the array, the texts. All of it is checked. */
ota_status ota_charsmap_build(ota_charsmap *map, ota_text blob, const char *path, int64_t offset,
                              ota_ending *ending, ota_error *error);
void ota_charsmap_free(ota_charsmap *map);
/* What the longest (or shortest) beginning of `text` that has a replacement becomes; *taken = its bytes, 0: none. */
ota_text ota_charsmap_find(const ota_charsmap *map, ota_text text, bool shortest, size_t *taken);

/* ---- normalisation (normalize.c) ---- */

typedef enum ota_normal_kind {
    OTA_NORMAL_NFC,
    OTA_NORMAL_NFD,
    OTA_NORMAL_NFKC,
    OTA_NORMAL_NFKD,
    OTA_NORMAL_LOWERCASE,
    OTA_NORMAL_STRIP_MARKS,   /* combining marks of every kind */
    OTA_NORMAL_STRIP_ACCENTS, /* decomposes, then drops marks that take no room */
    OTA_NORMAL_CLEAN,         /* control characters go, every white space becomes a blank */
    OTA_NORMAL_SPACE_CHINESE, /* a blank on both sides of every CJK ideograph */
    OTA_NORMAL_NMT,           /* some control characters go, others become blanks */
    OTA_NORMAL_ALPHABET,      /* bytes become the characters that stand for them */
    OTA_NORMAL_PRECOMPILED,   /* `map`, as the package `tokenizers` uses it: cluster by cluster */
    OTA_NORMAL_REPLACE,       /* matches of `pattern` become `text` */
    OTA_NORMAL_PREPEND,       /* `text` in front of what is not empty */
    OTA_NORMAL_STRIP,         /* white space at the ends that `flags` name */
    OTA_NORMAL_SENTENCEPIECE  /* `map` and `flags`, as SentencePiece does; blanks become U+2581 */
} ota_normal_kind;

enum {
    OTA_STRIP_LEFT = 1,
    OTA_STRIP_RIGHT = 2,
    /* a blank in front; runs of blanks are one, and none stands at the ends; a blank behind those */
    OTA_SPACE_IN_FRONT = 4,
    OTA_SPACE_ONCE = 8,
    OTA_SPACE_BEHIND = 16
};

typedef struct ota_normal {
    ota_normal_kind kind;
    unsigned flags;
    char *text; /* owned */
    size_t text_size;
    void *pattern; /* owned: pcre2_code */
    ota_charsmap map;
} ota_normal;

typedef struct ota_normalizing {
    const ota_tokenizer *tokenizer;
    ota_token_buffer *out, *spare;
    ota_ending *ending; /* NULL: nobody ends it */
    bool removed;       /* out: the beginning of the text left nothing */
} ota_normalizing;

/* The result, which has malformed bytes where the text has them, replaces what `out` holds. */
ota_status ota_normalize(ota_normalizing *run, ota_text text, ota_error *error);
/* The steps that are wanted are one more; NULL where there is no room. */
ota_normal *ota_tokenizer_normal(ota_tokenizer *tokenizer, ota_normal_kind kind);
bool ota_normal_text(ota_normal *step, const char *text, size_t size);
void ota_normal_free(ota_normal *step);

/* ---- patterns (pattern.c) ---- */

/* `literal`: the pattern is plain text. Its classes become those of the `tokenizers` package. */
ota_status ota_pattern_compile(void **pattern, ota_text text, bool literal, const char *path,
                               int64_t offset, ota_error *error);
/* A run of letters of one script with the blanks behind them; the scripts of Japan are one. */
ota_status ota_pattern_scripts(void **pattern, const char *path, int64_t offset, ota_error *error);
void ota_pattern_free(void *pattern);

/* PCRE2's memory for matches in texts of at most `size` bytes. */
typedef struct ota_matching {
    void *data, *context;
} ota_matching;
bool ota_matching_start(ota_matching *matching, size_t size);
void ota_matching_end(ota_matching *matching);
/* The next match at or after `from` in valid UTF-8, at the end where there is none. OTA_ELIMIT: too many steps. */
ota_status ota_pattern_find(const void *pattern, const ota_matching *matching, ota_text text,
                            size_t from, size_t *begin, size_t *end);
/* Where the search goes on behind a match. */
size_t ota_pattern_after(ota_text text, size_t begin, size_t end);
/* Appends `text` with `by` for every match. */
ota_status ota_pattern_replace(const void *pattern, ota_text text, ota_text by,
                               ota_token_buffer *out, ota_ending *ending, ota_error *error);

/* ---- cutting into words (pretokenize.c) ---- */

typedef enum ota_cut_rule {
    OTA_CUT_ISOLATED, /* matches and what lies between them */
    OTA_CUT_REMOVED,
    OTA_CUT_WITH_PREVIOUS,
    OTA_CUT_WITH_NEXT,
    OTA_CUT_CONTIGUOUS, /* like isolated, neighbouring matches together */
    /* what follows changes a piece and does not cut it */
    OTA_CUT_PREFIX_SPACE, /* a blank is put in front where there is none */
    OTA_CUT_ALPHABET,     /* bytes become the characters that stand for them */
    OTA_CUT_SPELL,        /* blanks become `sign` */
    OTA_CUT_SPELL_FIRST,  /* the same, and one is put in front of the first piece of a text */
    OTA_CUT_SPELL_ALL     /* the same, in front of every piece */
} ota_cut_rule;

typedef struct ota_cut {
    ota_cut_rule rule;
    bool invert;   /* matches are what lies between */
    void *pattern; /* owned: pcre2_code; NULL for rules without one */
    char sign[8];  /* of OTA_CUT_SPELL and its like: a character, ended by NUL */
} ota_cut;

extern const char *const ota_cut_gpt2,
    *const ota_cut_space, *const ota_cut_number, *const ota_cut_numbers, *const ota_cut_punctuation,
                                                                             *const ota_cut_words;

/* ---- decoding (decode.c) ---- */

typedef enum ota_undo_kind {
    OTA_UNDO_BYTES,    /* the bytes that the characters of pieces stand for */
    OTA_UNDO_FALLBACK, /* <0x00> to <0xFF> become bytes; where `keep`, also those that are no UTF-8 */
    OTA_UNDO_FUSE,     /* all is one piece */
    OTA_UNDO_SPELL,    /* `text` becomes a blank, in the first piece nothing where `count` */
    OTA_UNDO_STRIP,    /* up to `count` times `text` at the beginning, `last` at the end */
    OTA_UNDO_FRONT, /* a blank at the beginning goes; where `last`, one of every piece until something is left */
    OTA_UNDO_REPLACE,   /* matches of `pattern` become `text` */
    OTA_UNDO_WORDPIECE, /* blanks between words; `text` continues one; clean-up where `count` */
    OTA_UNDO_SUFFIX,    /* `text` ends a word */
    OTA_UNDO_JOIN       /* blanks between all pieces */
} ota_undo_kind;

typedef struct ota_undo {
    ota_undo_kind kind;
    bool keep;
    int64_t count, last;
    char *text; /* owned */
    size_t text_size;
    void *pattern; /* owned: pcre2_code */
} ota_undo;

/* ---- the tokenizer ---- */

typedef enum ota_token_model {
    OTA_TOKEN_BPE,
    OTA_TOKEN_UNIGRAM,
    OTA_TOKEN_WORDPIECE,
    OTA_TOKEN_WORDS,
    OTA_TOKEN_LONGEST,
    OTA_TOKEN_PLAMO
} ota_token_model;

typedef struct ota_token_frame {
    int32_t ids[OTA_TOKEN_FRAME_MOST];
    int count;
} ota_token_frame;

struct ota_tokenizer {
    ota_token_model model;
    ota_vocabulary vocabulary;
    ota_bpe bpe;
    ota_unigram unigram;
    ota_wordpiece wordpiece;
    int32_t unknown; /* -1: none */
    int32_t byte_ids
        [256]; /* on bytes, or with pieces <0x00> to <0xFF>; -1: the vocabulary lacks the byte */
    bool fuse_unknown;
    bool fallback;      /* a character that no piece has becomes its bytes */
    bool sentencepiece; /* its normalisation, and its pieces of kind USER */
    bool literal_users; /* a blank in those is one, as in its own files; in gguf's it is U+2581 */
    ota_normal normal[OTA_TOKEN_STEPS_MOST];
    int normal_count;
    ota_cut cuts[OTA_TOKEN_STEPS_MOST];
    int cut_count;
    ota_undo undo[OTA_TOKEN_STEPS_MOST];
    int undo_count;
    ota_added_set raw_added, normal_added; /* looked for before and after normalisation */
    uint8_t *kinds;                        /* [count] of OTA_TOKEN_IS_* bits */
    int32_t *
        normalized; /* [count] where among normal_added a piece is spelled as it is looked for, -1: it is not one
                            of them; NULL: none is */
    ota_token_frame before, after;
    ota_ending *ending; /* of the call that makes it; NULL afterwards */
};

enum { OTA_TOKEN_IS_ADDED = 1, OTA_TOKEN_IS_SPECIAL = 2 };

/* Adds a piece that is matched as a whole. The id must be in the vocabulary. */
ota_status ota_tokenizer_add(ota_tokenizer *tokenizer, ota_added token, ota_error *error);
ota_status ota_tokenizer_cut(ota_tokenizer *tokenizer, ota_cut_rule rule, bool invert,
                             const char *pattern, ota_error *error);
/* The steps of a name of otattn_tokenizer.h, NULL: gpt-2 (named_cuts.c). */
ota_status ota_tokenizer_named_cut(ota_tokenizer *tokenizer, const char *name, ota_error *error);
/* Everything but the last checks (tokenizer_create.c). */
ota_status ota_tokenizer_fill(ota_tokenizer *tokenizer, const ota_tokenizer_parts *parts,
                              ota_error *error);
/* One more step of decoding; `text` may be NULL. NULL where there is no room; the text is NULL without memory. */
ota_undo *ota_tokenizer_undo(ota_tokenizer *tokenizer, ota_undo_kind kind, const char *text);
void ota_tokenizer_undo_clear(ota_tokenizer *tokenizer);
ota_status ota_tokenizer_undo_wordpiece(ota_tokenizer *tokenizer, const char *prefix, bool clean_up,
                                        ota_error *error);
/* Decoding as SentencePiece does it: U+2581 to a blank, bytes; without the blank that was put in front. */
ota_status ota_tokenizer_undo_sentencepiece(ota_tokenizer *tokenizer, bool front, bool once,
                                            ota_error *error);
/* BERT's steps that are wanted, in their order; false where there is no room. */
bool ota_tokenizer_bert_normal(ota_tokenizer *tokenizer, bool clean, bool chinese, bool accents,
                               bool lower);
/* BERT's words: blanks go, each punctuation character is one. */
ota_status ota_tokenizer_bert_words(ota_tokenizer *tokenizer, ota_error *error);
/* After the last change: sorts, and makes the table of kinds. */
ota_status ota_tokenizer_finish(ota_tokenizer *tokenizer, ota_error *error);

/* What stands beside the file, token_settings.h; all zero where it stands alone. */
typedef struct ota_token_settings ota_token_settings;
ota_status ota_tokenizer_read_json(ota_tokenizer *tokenizer, const ota_token_file *file,
                                   ota_token_settings *settings, ota_error *error);
ota_status ota_tokenizer_read_lists(ota_tokenizer *tokenizer, const ota_token_file *vocabulary,
                                    const ota_token_file *merges, ota_token_settings *settings,
                                    ota_error *error);
/* tekken.json of Mistral (tekken.c), beside which nothing has a say. */
ota_status ota_tokenizer_read_tekken(ota_tokenizer *tokenizer, const ota_token_file *file,
                                     ota_error *error);
/* tokenizer.model of SentencePiece (sentencepiece_model.c). */
ota_status ota_tokenizer_read_model(ota_tokenizer *tokenizer, const ota_token_file *file,
                                    ota_token_settings *settings, ota_error *error);
ota_status ota_tokenizer_read_lines(ota_tokenizer *tokenizer, const ota_token_file *file,
                                    ota_token_settings *settings, ota_error *error);

/* ---- encoding ---- */

enum { OTA_TOKEN_CACHED_WORD = 24 };

/* A short word and where its ids were first written. */
typedef struct ota_token_cached {
    uint64_t word[OTA_TOKEN_CACHED_WORD / 8]; /* padded with zeros */
    uint32_t place;                           /* in encoder.ids */
    uint8_t size, count;                      /* bytes of the word (0: empty slot), ids */
} ota_token_cached;

typedef struct ota_token_encoder {
    const ota_tokenizer *tokenizer;
    int32_t *ids;
    int64_t capacity, count;
    ota_token_cached *cache; /* [cache_mask + 1] */
    uint64_t cache_mask;
    ota_matching matching;
    ota_token_buffer normal, spare, prefixed[OTA_TOKEN_STEPS_MOST];
    const char *origin; /* where a piece lies that begins where the text does; NULL: none does */
    void *symbols;      /* bpe.c's and unigram.c's arrays for one word */
    size_t symbol_room; /* bytes */
    ota_ending ending;
    ota_error *error;
} ota_token_encoder;

static inline void ota_token_put(ota_token_encoder *encoder, int32_t id) {
    if (encoder->count < encoder->capacity) encoder->ids[encoder->count] = id;
    encoder->count++;
}

/* One word, through the cache, into encoder->ids. */
ota_status ota_token_word(ota_token_encoder *encoder, const char *word, size_t size);
/* Cuts valid UTF-8 into words and encodes each. */
ota_status ota_token_cut_words(ota_token_encoder *encoder, ota_text text);
/* Bytes that are no UTF-8: a word, unless a step spells bytes. */
ota_status ota_token_cut_malformed(ota_token_encoder *encoder, ota_text text);
/* At least `bytes` of encoder->symbols. */
bool ota_token_symbols(ota_token_encoder *encoder, size_t bytes);
ota_status ota_bpe_word(ota_token_encoder *encoder, const char *word, size_t size);
ota_status ota_unigram_word(ota_token_encoder *encoder, const char *word, size_t size);
ota_status ota_wordpiece_word(ota_token_encoder *encoder, const char *word, size_t size);
ota_status ota_longest_word(ota_token_encoder *encoder, const char *word, size_t size);
ota_status ota_plamo_word(ota_token_encoder *encoder, const char *word, size_t size);
/* Words that begin with U+2581 each, as they are pieces or unknown. */
ota_status ota_sentencepiece_words(ota_token_encoder *encoder, const char *text, size_t size);

#endif
