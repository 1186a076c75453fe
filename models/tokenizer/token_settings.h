/* What stands beside a vocabulary: tokenizer_config.json, special_tokens_map.json, added_tokens.json, and of
 * config.json the names that choose a class. Every key of the first three is read, known to be without effect
 * on ids (a table of token_settings.c), or refused by name.
 *
 *   token_settings.c   the files, their keys, the class of transformers whose rules hold
 *   added_plan.c       the tokens that the files add, in the order in which transformers adds them */
#ifndef OTATTN_MODELS_TOKEN_SETTINGS_H
#define OTATTN_MODELS_TOKEN_SETTINGS_H

#include <jansson.h>

#include "tokenizer_parts.h"

typedef enum ota_settings_file {
    OTA_SETTINGS_CONFIG,
    OTA_SETTINGS_MAP,
    OTA_SETTINGS_ADDED,
    OTA_SETTINGS_MODEL,
    OTA_SETTINGS_FILES
} ota_settings_file;

/* Whose rules the settings follow. */
typedef enum ota_token_class {
    OTA_CLASS_UNSAID, /* no file names one */
    OTA_CLASS_FILE,   /* tokenizer.json as it is */
    OTA_CLASS_BERT,
    OTA_CLASS_GPT2,
    OTA_CLASS_OTHER /* has steps of its own: right only where tokenizer.json holds them */
} ota_token_class;

typedef enum ota_token_switch {
    OTA_SWITCH_LOWER,
    OTA_SWITCH_ACCENTS,
    OTA_SWITCH_CHINESE,
    OTA_SWITCH_PREFIX,
    OTA_SWITCH_BEGIN,
    OTA_SWITCH_END,
    OTA_SWITCH_SPLIT,
    OTA_SWITCHES
} ota_token_switch;

/* The named tokens, in the order in which they are added. */
typedef enum ota_token_role {
    OTA_TOKEN_ROLE_BEGIN,
    OTA_TOKEN_ROLE_END,
    OTA_TOKEN_ROLE_UNKNOWN,
    OTA_TOKEN_ROLE_SEPARATOR,
    OTA_TOKEN_ROLE_PAD,
    OTA_TOKEN_ROLE_CLASS,
    OTA_TOKEN_ROLE_MASK,
    OTA_TOKEN_ROLES
} ota_token_role;

extern const char *const ota_token_role_keys[OTA_TOKEN_ROLES];

/* One token that is to be added; its text is borrowed from the trees. */
typedef struct ota_token_wish {
    const char *text;
    int64_t id; /* that the file gives it, -1: none */
    ota_settings_file file;
    unsigned flags;       /* OTA_ADDED_ bits */
    bool normalized_said; /* else it is where it is not special */
    bool plain_text;      /* that says nothing else */
} ota_token_wish;

/* What one, or a key of a file, counts for in looks. */
enum { OTA_WISH_WORK = 16 };

typedef struct ota_token_wishes {
    ota_token_wish *items;
    size_t count, room;
} ota_token_wishes;

struct ota_token_settings {
    json_t *trees[OTA_SETTINGS_FILES]; /* NULL: there is no such file */
    char *paths[OTA_SETTINGS_FILES];
    ota_token_class class;
    const char *class_key, *class_name; /* what named it, and how; NULL: nothing */
    const char *class_model;            /* its algorithm, NULL: any */
    ota_settings_file class_file;
    signed char switches[OTA_SWITCHES];    /* 0, 1, or -1: not said */
    ota_token_wish roles[OTA_TOKEN_ROLES]; /* text NULL: there is none */
    ota_token_wishes numbered, others;     /* in the order in which they are added */
    json_t *named;                         /* key: token, beside the roles */
    json_t *marks; /* text: OTA_MARK_* bits of its tokens without a number */
    ota_ending *ending;
    ota_error *error;
};

/* Nothing is said. */
void ota_token_settings_start(ota_token_settings *settings, ota_ending *ending, ota_error *error);
/* The files of `folder` that there are, after the start. Freed by the caller also after a failure. */
ota_status ota_token_settings_read(ota_token_settings *settings, const char *folder,
                                   ota_error *error);
void ota_token_settings_free(ota_token_settings *settings);
/* What holds where no class is named: `class`, that the files of the vocabulary suggest. Another one is refused,
 * for they cannot be read by it. */
ota_status ota_token_settings_expect(ota_token_settings *settings, ota_token_class class,
                                     const char *vocabulary);
static inline bool ota_token_switch_on(const ota_token_settings *settings, ota_token_switch which,
                                       bool standard) {
    return settings->switches[which] < 0 ? standard : settings->switches[which] > 0;
}
ota_status ota_token_settings_fail(const ota_token_settings *settings, ota_settings_file file,
                                   ota_status status, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Whether a key names one more token, none of the roles. */
bool ota_token_other_key(const char *key, const json_t *value);

/* What BERT's class runs on a text (tokenizer_lists.c): its normalisation, false where there is no room; the
 * unknown piece and the frame. */
bool ota_tokenizer_bert_switches(ota_tokenizer *tokenizer, const ota_token_settings *settings);
ota_status ota_tokenizer_bert_roles(ota_tokenizer *tokenizer, const ota_token_settings *settings,
                                    const char *path, ota_error *error);

/* ---- added_plan.c ---- */

/* Fills roles and wishes; the class is known. */
ota_status ota_token_plan(ota_token_settings *settings);

typedef struct ota_added_list {
    ota_added *tokens;
    size_t count, room;
} ota_added_list;

/* Gives every wish its id, a new one behind the vocabulary where no piece is spelled so, and puts it into
 * `added`, which holds those of tokenizer.json. */
ota_status ota_token_settle(const ota_token_settings *settings, ota_tokenizer *tokenizer,
                            ota_added_list *added);
/* The piece of a role, which has been settled; -1: there is none. */
int32_t ota_token_role_id(const ota_token_settings *settings, const ota_tokenizer *tokenizer,
                          ota_token_role role);

/* What a token without a number says about one with a number and the same text. */
enum {
    OTA_MARK_NAMED = 1,  /* of added_tokens.json: it is special and not normalised */
    OTA_MARK_SPECIAL = 2 /* it is special */
};

#endif
