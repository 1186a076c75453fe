/* The tokens that the files beside a vocabulary add, in the order of transformers 5:
 *
 *   added_tokens_decoder of tokenizer_config.json, by id; where it is missing, added_tokens.json
 *   the named tokens (bos, eos, unk, sep, pad, cls, mask), then those of other names, then the extra ones
 *
 * Where added_tokens_decoder is there, special_tokens_map.json says nothing; else its values replace those of
 * tokenizer_config.json. A token that has no piece gets the next id. */
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "token_settings.h"

static const char decoder_key[] = "added_tokens_decoder", extra_key[] = "extra_special_tokens",
                  older_key[] = "additional_special_tokens",
                  specific_key[] = "model_specific_special_tokens";

/* Tokens that a class has without being told. */
static const char *const class_tokens[OTA_CLASS_OTHER + 1][OTA_TOKEN_ROLES] = {
    [OTA_CLASS_BERT] = {[OTA_TOKEN_ROLE_UNKNOWN] = "[UNK]",
                        [OTA_TOKEN_ROLE_SEPARATOR] = "[SEP]",
                        [OTA_TOKEN_ROLE_PAD] = "[PAD]",
                        [OTA_TOKEN_ROLE_CLASS] = "[CLS]",
                        [OTA_TOKEN_ROLE_MASK] = "[MASK]"},
    [OTA_CLASS_GPT2] = {[OTA_TOKEN_ROLE_BEGIN] = "<|endoftext|>",
                        [OTA_TOKEN_ROLE_END] = "<|endoftext|>",
                        [OTA_TOKEN_ROLE_UNKNOWN] = "<|endoftext|>"},
};

static const json_t *of_config(const ota_token_settings *settings, const char *key) {
    return json_object_get(settings->trees[OTA_SETTINGS_CONFIG], key);
}

/* special_tokens_map.json, where it counts, and NULL. */
static const json_t *counted_map(const ota_token_settings *settings) {
    return of_config(settings, decoder_key) == NULL ? settings->trees[OTA_SETTINGS_MAP] : NULL;
}

/* ---- one token ---- */

static ota_status refuse(const ota_token_settings *settings, ota_settings_file file,
                         const char *key, const char *rule) {
    return ota_token_settings_fail(settings, file, OTA_EFORMAT, "%.80s: %s", key, rule);
}

/* {"content": "[MASK]", "lstrip": true, ...} */
static ota_status read_object(const ota_token_settings *settings, const char *where,
                              const json_t *tree, ota_token_wish *wish) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)tree, key, value) {
        const char *text = json_string_value(value);
        size_t k = 0;
        while (k < OTA_ADDED_KEYS && strcmp(key, ota_added_keys[k].name) != 0) k++;
        if (k < OTA_ADDED_KEYS && json_is_boolean(value)) {
            const unsigned flag = ota_added_keys[k].flag;
            wish->flags = json_is_true(value) ? wish->flags | flag : wish->flags & ~flag;
            wish->normalized_said = wish->normalized_said || flag == OTA_ADDED_NORMALIZED;
        } else if (strcmp(key, "content") == 0 && text != NULL) {
            wish->text = text;
        } else if (strcmp(key, "__type") != 0 || text == NULL || strcmp(text, "AddedToken") != 0) {
            return ota_token_settings_fail(
                settings, wish->file, k < OTA_ADDED_KEYS ? OTA_EFORMAT : OTA_UNSUPPORTED,
                "%.80s: the member \"%.80s\" of a token %s", where, key,
                k < OTA_ADDED_KEYS ? "must be true or false" : "is not known here");
        }
    }
    return wish->text != NULL ? OTA_OK
                              : refuse(settings, wish->file, where, "a token must have a content");
}

/* A text, which is special, or an object. Null and an empty text are no token. */
static ota_status read_token(const ota_token_settings *settings, const char *where,
                             const json_t *value, ota_token_wish *wish) {
    ota_status status = OTA_OK;
    wish->id = -1;
    if (json_is_string(value)) {
        wish->text = json_string_value(value);
        wish->flags |= OTA_ADDED_SPECIAL;
        wish->plain_text = true;
    } else if (json_is_object(value)) {
        status = read_object(settings, where, value, wish);
    } else if (!json_is_null(value)) {
        return refuse(settings, wish->file, where, "a token must be a text or an object");
    }
    if (wish->text != NULL && wish->text[0] == '\0') wish->text = NULL;
    return status;
}

static ota_status put(const ota_token_settings *settings, ota_token_wishes *list,
                      const ota_token_wish *wish) {
    if (wish->text == NULL) return OTA_OK;
    const ota_status looked = ota_look(settings->ending, OTA_WISH_WORK, settings->error);
    if (looked != OTA_OK) return looked;
    void *items = list->items;
    const bool grown = ota_token_grow(&items, &list->room, list->count + 1, sizeof *list->items);
    list->items = items;
    if (!grown) return ota_token_no_memory(settings->error);
    list->items[list->count++] = *wish;
    return OTA_OK;
}

/* ---- tokens without numbers ---- */

static json_int_t marks_of(const ota_token_settings *settings, const char *text) {
    return json_integer_value(json_object_get(settings->marks, text));
}

static ota_status put_marked(ota_token_settings *settings, const ota_token_wish *wish, int marks) {
    if (wish->text == NULL) return OTA_OK;
    json_t *all = json_integer(marks_of(settings, wish->text) | marks);
    if (all == NULL || json_object_set_new(settings->marks, wish->text, all) != 0)
        return ota_token_no_memory(settings->error);
    return put(settings, &settings->others, wish);
}

/* An object of tokenizer_config.json is no text yet when transformers looks for its token in added_tokens.json. */
static int named_mark(const json_t *value, ota_settings_file file) {
    return json_is_string(value) || (json_is_object(value) && file == OTA_SETTINGS_MAP)
               ? OTA_MARK_NAMED
               : 0;
}

static ota_status put_roles(ota_token_settings *settings) {
    for (size_t k = 0; k < OTA_TOKEN_ROLES; k++) {
        const char *key = ota_token_role_keys[k];
        ota_token_wish *role = &settings->roles[k];
        const json_t *value = json_object_get(counted_map(settings), key);
        *role = (ota_token_wish){.file = value != NULL ? OTA_SETTINGS_MAP : OTA_SETTINGS_CONFIG};
        if (value == NULL) value = of_config(settings, key);
        ota_status status = OTA_OK;
        if (value != NULL) {
            status = read_token(settings, key, value, role);
        } else {
            role->id = -1;
            role->text = class_tokens[settings->class][k];
            role->flags = OTA_ADDED_SPECIAL;
            role->plain_text = true;
        }
        if (status == OTA_OK)
            status = put_marked(settings, role, OTA_MARK_SPECIAL | named_mark(value, role->file));
        if (status != OTA_OK) return status;
    }
    return OTA_OK;
}

typedef enum chosen { CHOSEN_MEMBERS, CHOSEN_KEYS, CHOSEN_OBJECTS, CHOSEN_TEXTS } chosen;

/* Notes the tokens that an object names: each member, or those of a file whose keys are further names. */
static ota_status note(ota_token_settings *settings, const json_t *tree, ota_settings_file file,
                       chosen which) {
    const char *key;
    json_t *value;
    if (!json_is_object(tree)) return OTA_OK;
    json_object_foreach((json_t *)(uintptr_t)tree, key, value) {
        if (which != CHOSEN_MEMBERS && !ota_token_other_key(key, value)) continue;
        if (which == CHOSEN_OBJECTS && !json_is_object(value)) continue;
        if (which == CHOSEN_TEXTS && json_is_object(value)) continue;
        ota_token_wish wish = {.file = file};
        const ota_status status = read_token(settings, key, value, &wish);
        if (status != OTA_OK) return status;
        if (json_object_set(settings->named, key, value) != 0)
            return ota_token_no_memory(settings->error);
    }
    return OTA_OK;
}

static ota_status put_named(ota_token_settings *settings) {
    const char *key;
    json_t *value;
    json_object_foreach(settings->named, key, value) {
        ota_token_wish wish = {.file = OTA_SETTINGS_CONFIG};
        ota_status status = read_token(settings, key, value, &wish);
        if (status == OTA_OK) status = put_marked(settings, &wish, OTA_MARK_SPECIAL);
        if (status != OTA_OK) return status;
    }
    return OTA_OK;
}

typedef struct extra_list {
    const json_t *tree;
    const char *key;
    ota_settings_file file;
    int marks;
} extra_list;

static ota_status put_list(ota_token_settings *settings, const extra_list *list) {
    if (list->tree == NULL || json_is_null(list->tree) || json_is_object(list->tree)) return OTA_OK;
    if (!json_is_array(list->tree))
        return refuse(settings, list->file, list->key,
                      "must be a list of tokens or an object with them");
    for (size_t k = 0; k < json_array_size(list->tree); k++) {
        ota_token_wish wish = {.file = list->file,
                               .flags = list->file == OTA_SETTINGS_MAP ? OTA_ADDED_SPECIAL : 0U};
        ota_status status = read_token(settings, list->key, json_array_get(list->tree, k), &wish);
        if (status == OTA_OK)
            status =
                put_marked(settings, &wish,
                           list->marks & named_mark(json_array_get(list->tree, k), list->file));
        if (status != OTA_OK) return status;
    }
    return OTA_OK;
}

static bool holds_tokens(const json_t *value) {
    return json_array_size(value) > 0 || json_object_size(value) > 0;
}

/* The extra tokens are lists, or objects of named ones. The list of tokenizer_config.json is that of the newer
 * key, or of the older one where the newer says nothing; special_tokens_map.json adds to it, or drops it for an
 * object of its own. The older key, the map's before the other's, counts also where no list is left. */
static void choose_lists(const ota_token_settings *settings, extra_list lists[3]) {
    const json_t *config = of_config(settings, extra_key), *older = of_config(settings, older_key),
                 *map = counted_map(settings), *second = json_object_get(map, extra_key),
                 *older_map = json_object_get(map, older_key);
    const bool newer = older == NULL || holds_tokens(config);
    const bool dropped = json_is_object(second),
               left = !dropped && ((newer ? config : older) != NULL || second != NULL) &&
                      !(second == NULL && json_is_object(newer ? config : older));
    lists[0] = (extra_list){dropped ? NULL
                            : newer ? config
                                    : older,
                            newer ? extra_key : older_key, OTA_SETTINGS_CONFIG, OTA_MARK_NAMED};
    lists[1] = (extra_list){second, extra_key, OTA_SETTINGS_MAP, OTA_MARK_NAMED};
    lists[2] = (extra_list){NULL, older_key, OTA_SETTINGS_CONFIG, 0};
    if (left) return;
    lists[2].tree = older_map != NULL ? older_map : newer ? older : NULL;
    if (older_map != NULL) lists[2].file = OTA_SETTINGS_MAP;
}

/* The roles, those of other names, the extra ones. */
static ota_status put_others(ota_token_settings *settings) {
    const json_t *config = settings->trees[OTA_SETTINGS_CONFIG], *map = counted_map(settings);
    extra_list lists[3];
    choose_lists(settings, lists);
    const struct {
        const json_t *tree;
        ota_settings_file file;
        chosen which;
    } notes[] = {{config, OTA_SETTINGS_CONFIG, CHOSEN_OBJECTS},
                 {map, OTA_SETTINGS_MAP, CHOSEN_KEYS},
                 {of_config(settings, specific_key), OTA_SETTINGS_CONFIG, CHOSEN_MEMBERS},
                 {config, OTA_SETTINGS_CONFIG, CHOSEN_TEXTS},
                 {lists[0].tree, OTA_SETTINGS_CONFIG, CHOSEN_MEMBERS},
                 {lists[1].tree, OTA_SETTINGS_MAP, CHOSEN_MEMBERS}};
    ota_status status = put_roles(settings);
    for (size_t k = 0; k < sizeof notes / sizeof *notes && status == OTA_OK; k++)
        status = note(settings, notes[k].tree, notes[k].file, notes[k].which);
    if (status == OTA_OK) status = put_named(settings);
    for (size_t k = 0; k < 3 && status == OTA_OK; k++) status = put_list(settings, &lists[k]);
    return status;
}

/* ---- tokens with numbers ---- */

static ota_status put_decoder(ota_token_settings *settings, const json_t *tree) {
    const char *key;
    json_t *value;
    if (!json_is_object(tree))
        return refuse(settings, OTA_SETTINGS_CONFIG, decoder_key, "must be an object");
    json_object_foreach((json_t *)(uintptr_t)tree, key, value) {
        char *end;
        ota_token_wish wish = {.file = OTA_SETTINGS_CONFIG};
        const long long id = strtoll(key, &end, 10);
        if (key[0] < '0' || key[0] > '9' || *end != '\0' || id >= OTA_TOKEN_PIECES_MOST)
            return ota_token_settings_fail(settings, OTA_SETTINGS_CONFIG, OTA_EFORMAT,
                                           "%s: \"%.80s\" is no id from 0 to %d", decoder_key, key,
                                           OTA_TOKEN_PIECES_MOST - 1);
        if (!json_is_object(value))
            return refuse(settings, OTA_SETTINGS_CONFIG, decoder_key, "a token must be an object");
        ota_status status = read_token(settings, decoder_key, value, &wish);
        wish.id = id;
        if (status == OTA_OK) status = put(settings, &settings->numbered, &wish);
        if (status != OTA_OK) return status;
    }
    return OTA_OK;
}

static ota_status put_encoder(ota_token_settings *settings) {
    const char *key;
    json_t *value;
    json_object_foreach(settings->trees[OTA_SETTINGS_ADDED], key, value) {
        const int64_t id = json_is_integer(value) ? json_integer_value(value) : -1;
        if (id < 0 || id >= OTA_TOKEN_PIECES_MOST || key[0] == '\0')
            return ota_token_settings_fail(
                settings, OTA_SETTINGS_ADDED, OTA_EFORMAT,
                "\"%.80s\" must be a token's text with an id from 0 to %d", key,
                OTA_TOKEN_PIECES_MOST - 1);
        const bool special = (marks_of(settings, key) & OTA_MARK_NAMED) != 0;
        const ota_token_wish wish = {.text = key,
                                     .id = id,
                                     .file = OTA_SETTINGS_ADDED,
                                     .flags = special ? OTA_ADDED_SPECIAL : OTA_ADDED_NORMALIZED,
                                     .normalized_said = true};
        const ota_status status = put(settings, &settings->numbered, &wish);
        if (status != OTA_OK) return status;
    }
    return OTA_OK;
}

static int by_id(const void *left, const void *right) {
    const ota_token_wish *a = left, *b = right;
    return (a->id > b->id) - (a->id < b->id);
}

ota_status ota_token_plan(ota_token_settings *settings) {
    settings->named = json_object();
    settings->marks = json_object();
    if (settings->named == NULL || settings->marks == NULL)
        return ota_token_no_memory(settings->error);
    ota_status status = put_others(settings);
    const json_t *decoder = of_config(settings, decoder_key);
    if (status == OTA_OK)
        status = decoder != NULL ? put_decoder(settings, decoder) : put_encoder(settings);
    if (status == OTA_OK)
        status =
            ota_sort(settings->numbered.items, settings->numbered.count,
                     sizeof *settings->numbered.items, by_id, settings->ending, settings->error);
    return status;
}

/* ---- their ids ---- */

enum { MET_NOT, MET_BY_NUMBER, MET_BY_NAME };

typedef struct settling {
    const ota_token_settings *settings;
    ota_tokenizer *tokenizer;
    ota_added_list *added;
    int32_t *places; /* [room] by id: place in added, -1: none */
    uint8_t *met;    /* [room] by id: MET_* */
    uint64_t *said;  /* [room] by id: flags that names gave it */
    size_t room;
} settling;

static ota_status piece_of(settling *s, const ota_token_wish *wish, int32_t *id) {
    ota_vocabulary *vocabulary = &s->tokenizer->vocabulary;
    const size_t size = strlen(wish->text);
    *id = ota_vocabulary_find(vocabulary, wish->text, size);
    const int64_t given = *id >= 0 ? *id : vocabulary->count;
    if (wish->id >= 0 && wish->id != given)
        return ota_token_settings_fail(
            s->settings, wish->file, OTA_EFORMAT, "\"%.80s\" has the id %lld, but %s", wish->text,
            (long long)wish->id,
            *id >= 0 ? "the vocabulary gives it another one"
                     : "the next id behind the vocabulary is another one");
    if (*id >= 0) return OTA_OK;
    if (size > OTA_TOKEN_PIECE_MOST || given >= OTA_TOKEN_PIECES_MOST)
        return ota_token_settings_fail(s->settings, wish->file, OTA_ELIMIT,
                                       "a token has %zu bytes, or there are more than %d pieces",
                                       size, OTA_TOKEN_PIECES_MOST);
    if (!ota_vocabulary_append(vocabulary, wish->text, size))
        return ota_token_no_memory(s->settings->error);
    *id = (int32_t)given;
    return OTA_OK;
}

/* A class that builds its tokenizer anew says of every token whether it is special. */
static bool builds_anew(const ota_token_settings *settings) {
    return settings->class == OTA_CLASS_BERT || settings->class == OTA_CLASS_GPT2;
}

/* Of a wish whose flags are these. */
static unsigned with_normalized(const ota_token_wish *wish, unsigned flags) {
    return wish->normalized_said || (flags & OTA_ADDED_SPECIAL) != 0 ? flags
                                                                     : flags | OTA_ADDED_NORMALIZED;
}

/* A bit for every set of flags; a text of which nothing else is said has one of its own. */
static uint64_t bit_of(const ota_token_wish *wish) {
    return UINT64_C(1) << (wish->plain_text ? 32U : with_normalized(wish, wish->flags));
}

/* Whether a token that is there already is said anew: by a number in tokenizer_config.json, where it says
 * otherwise; by a name unless a number said it, or another name the same. */
static bool counts(const settling *s, const ota_token_wish *wish, bool numbered, int32_t id) {
    const ota_added *there = &s->added->tokens[s->places[id]];
    const ota_token_wish said = {.flags = there->flags, .normalized_said = true};
    if (numbered) return wish->file == OTA_SETTINGS_CONFIG && bit_of(&said) != bit_of(wish);
    return s->met[id] == MET_BY_NAME && (s->said[id] & bit_of(wish)) == 0;
}

static ota_status settle(settling *s, const ota_token_wish *wish, bool numbered) {
    const bool special = (marks_of(s->settings, wish->text) & OTA_MARK_SPECIAL) != 0;
    int32_t id;
    ota_status status = ota_look(s->settings->ending, OTA_WISH_WORK, s->settings->error);
    if (status == OTA_OK) status = piece_of(s, wish, &id);
    if (status != OTA_OK) return status;
    const int32_t place = s->places[id];
    if (place >= 0 && !counts(s, wish, numbered, id)) {
        if (builds_anew(s->settings) && special) s->added->tokens[place].flags |= OTA_ADDED_SPECIAL;
        if (s->met[id] == MET_NOT) s->met[id] = MET_BY_NUMBER;
        return OTA_OK;
    }
    ota_added token = {
        .id = id, .flags = with_normalized(wish, wish->flags | (special ? OTA_ADDED_SPECIAL : 0U))};
    s->met[id] = numbered ? MET_BY_NUMBER : MET_BY_NAME;
    s->said[id] |= bit_of(wish);
    if (place >= 0) {
        /* `tokenizers` never forgets that a token was special. */
        if (!(numbered && builds_anew(s->settings)))
            token.flags |= s->added->tokens[place].flags & OTA_ADDED_SPECIAL;
        s->added->tokens[place] = token;
        return OTA_OK;
    }
    void *tokens = s->added->tokens;
    const bool grown =
        ota_token_grow(&tokens, &s->added->room, s->added->count + 1, sizeof *s->added->tokens);
    s->added->tokens = tokens;
    if (!grown) return ota_token_no_memory(s->settings->error);
    s->places[id] = (int32_t)s->added->count;
    s->added->tokens[s->added->count++] = token;
    return OTA_OK;
}

/* A class that builds its tokenizer anew would leave out tokens of tokenizer.json that the list lacks. */
static ota_status check_met(const settling *s, size_t of_file) {
    if (of_config(s->settings, decoder_key) == NULL || !builds_anew(s->settings)) return OTA_OK;
    for (size_t k = 0; k < of_file; k++) {
        const int32_t id = s->added->tokens[k].id;
        const ota_text text = ota_vocabulary_text(&s->tokenizer->vocabulary, id);
        if (s->met[id] == MET_NOT)
            return ota_token_settings_fail(
                s->settings, OTA_SETTINGS_CONFIG, OTA_UNSUPPORTED,
                "added_tokens_decoder lacks \"%.*s\", an added token of tokenizer.json",
                (int)(text.size < 80 ? text.size : 80), text.data);
    }
    return OTA_OK;
}

/* T5's class adds <extra_id_0> and so on where there are none; here they must be there. */
static ota_status check_extra_ids(const ota_token_settings *settings,
                                  const ota_tokenizer *tokenizer) {
    const double count = json_number_value(of_config(settings, "extra_ids"));
    char text[40];
    if (!(count >= 1)) return OTA_OK;
    (void)ota_snprintf(text, sizeof text, "<extra_id_%.0f>", count - 1);
    if (ota_vocabulary_find(&tokenizer->vocabulary, text, strlen(text)) >= 0) return OTA_OK;
    return ota_token_settings_fail(settings, OTA_SETTINGS_CONFIG, OTA_UNSUPPORTED,
                                   "extra_ids asks for %s, which the vocabulary lacks", text);
}

ota_status ota_token_settle(const ota_token_settings *settings, ota_tokenizer *tokenizer,
                            ota_added_list *added) {
    settling s = {.settings = settings, .tokenizer = tokenizer, .added = added};
    const size_t of_file = added->count;
    s.room =
        (size_t)tokenizer->vocabulary.count + settings->numbered.count + settings->others.count + 1;
    s.places = malloc(s.room * sizeof *s.places);
    s.met = calloc(s.room, sizeof *s.met);
    s.said = calloc(s.room, sizeof *s.said);
    ota_status status = s.places == NULL || s.met == NULL || s.said == NULL
                            ? ota_token_no_memory(settings->error)
                            : OTA_OK;
    if (status == OTA_OK) {
        memset(s.places, 0xFF, s.room * sizeof *s.places);
        for (size_t k = 0; k < of_file; k++) s.places[added->tokens[k].id] = (int32_t)k;
    }
    for (size_t k = 0; k < settings->numbered.count && status == OTA_OK; k++)
        status = settle(&s, &settings->numbered.items[k], true);
    for (size_t k = 0; k < settings->others.count && status == OTA_OK; k++)
        status = settle(&s, &settings->others.items[k], false);
    if (status == OTA_OK) status = check_met(&s, of_file);
    if (status == OTA_OK) status = check_extra_ids(settings, tokenizer);
    free(s.places);
    free(s.met);
    free(s.said);
    return status;
}

int32_t ota_token_role_id(const ota_token_settings *settings, const ota_tokenizer *tokenizer,
                          ota_token_role role) {
    const char *text = settings->roles[role].text;
    return text == NULL ? -1 : ota_vocabulary_find(&tokenizer->vocabulary, text, strlen(text));
}
