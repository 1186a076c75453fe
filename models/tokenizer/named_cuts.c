/* How texts are cut into words by the tokenizers that go by one name: `tokenizer.ggml.pre` of gguf files, `cut` of
 * ota_tokenizer_parts. The steps are those of the tokenizer.json that models of that name come with. */
#include <string.h>

#include "tokenizer_parts.h"

#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define SHORTENED "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define LETTERS "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+"
#define SIGNS " ?[^\\s\\p{L}\\p{N}]+"
#define BLANKS "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define UPPER_LOWER                                                                                \
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+"
#define UPPERS                                                                                     \
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*"
#define CHINESE "[一-龥ࠀ-一가-퟿]+"
#define LATIN                                                                                                                                                       \
    "\\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-"                                                                   \
    "ՖႠ-"                                                                                                                                                        \
    "ჅᎠ-"                                                                                                                                                       \
    "Ᏽᏸ-"                                                                                                                                                       \
    "ᏽᲐ-"                                                                                                                                                       \
    "ᲺᲽ-"                                                                                                                                                       \
    "Ჿᴀ-"                                                                                                                                                       \
    "ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼι"                                                                          \
    "ῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-" \
    "ꚛꜢ-"                                                                                                                                                       \
    "ꝯꝱ-"                                                                                                                                                       \
    "ꞇꞋ-"                                                                                                                                                       \
    "ꞎꭰ-"                                                                                                                                                       \
    "ꮿﬀ-"                                                                                                                                                       \
    "ﬆﬓ-"                                                                                                                                                       \
    "ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲"                                                                                                \
    "𑢠-𑣟𞤀-𞥃]+"

enum { STEPS = 6 };

/* Matches of each step are words for the next. The empty one spells bytes as characters. */
static const struct {
    const char *name;
    const char *steps[STEPS];
} rows[] = {
    {"gpt-2", {GPT2}},
    {"smollm", {"\\p{N}", GPT2}},
    {"llama-3", {SHORTENED "|" LETTERS "|\\p{N}{1,3}|" SIGNS "[\\r\\n]*|" BLANKS}},
    {"qwen-2", {SHORTENED "|" LETTERS "|\\p{N}|" SIGNS "[\\r\\n]*|" BLANKS}},
    {"qwen-3.5",
     {SHORTENED "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| "
                "?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" BLANKS}},
    {"gpt-4o",
     {UPPER_LOWER SHORTENED "?|" UPPERS SHORTENED "?|\\p{N}{1,3}|" SIGNS "[\\r\\n/]*|" BLANKS}},
    {"tekken", {UPPER_LOWER "|" UPPERS "|\\p{N}|" SIGNS "[\\r\\n/]*|" BLANKS}},
    {"deepseek-llm",
     {"[\\r\\n]", LATIN, "\\s?[!-/:-~！-／：-～‘-‟　-。]+", "\\s+$", CHINESE, "\\p{N}"}},
    {"deepseek-coder", {"[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", CHINESE, "\\p{N}"}},
    {"deepseek-3",
     {"\\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+",
      "[!\"#$%&'()*+,\\-./"
      ":;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
      "| ?[\\p{P}\\p{S}]+[\\r\\n]*|" BLANKS}},
    {"falcon", {"[!-/:-@\\[-`{-~\\p{P}]+", GPT2, "", "\\p{N}+", "[0-9][0-9][0-9]"}},
    {"bloom", {" ?[^(\\s|[.,!?…。，、।۔،])]+"}},
    {"viking", {" ?[^(\\s|[.,!?…。，、।۔،])]+", "\\p{N}"}},
    {"seed-coder", {SHORTENED "|" LETTERS "|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\\r\\n]+|" BLANKS}},
    {"superbpe", {"\\p{N}+", "(?=(\\d{3})+(?!\\d))"}},
    {"bailing",
     {"'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*"
      "|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"}},
};

ota_status ota_tokenizer_named_cut(ota_tokenizer *tokenizer, const char *name, ota_error *error) {
    const size_t count = sizeof rows / sizeof *rows;
    size_t k = 0;
    if (name == NULL) name = "gpt-2";
    while (k < count && strcmp(name, rows[k].name) != 0) k++;
    if (k == count)
        return ota_token_fail(
            error, OTA_UNSUPPORTED, "", -1,
            "the pre-tokenizer \"%.60s\" is not known (otattn_tokenizer.h has the "
            "names)",
            name);
    ota_status status = OTA_OK;
    for (int step = 0; step < STEPS && status == OTA_OK; step++) {
        const char *pattern = rows[k].steps[step];
        if (pattern == NULL) break;
        const bool spells = *pattern == '\0';
        /* Bytes that are spelled for the steps behind are characters to the merges, too. */
        tokenizer->bpe.characters = tokenizer->bpe.characters || spells;
        status = ota_tokenizer_cut(tokenizer, spells ? OTA_CUT_ALPHABET : OTA_CUT_ISOLATED, false,
                                   spells ? NULL : pattern, error);
    }
    return status;
}
