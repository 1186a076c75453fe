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
/* Numbers, since editors and formatters bring some of these letters into another form. */
#define LATIN                                                                                      \
    "\\s?[A-Za-z\\x{B5}\\x{C0}-\\x{D6}\\x{D8}-\\x{F6}\\x{F8}-\\x{1BA}\\x{1BC}-\\x{1BF}"            \
    "\\x{1C4}-\\x{293}\\x{295}-\\x{2AF}\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37B}-\\x{37D}"         \
    "\\x{37F}\\x{386}\\x{388}-\\x{38A}\\x{38C}\\x{38E}-\\x{3A1}\\x{3A3}-\\x{3F5}"                  \
    "\\x{3F7}-\\x{481}\\x{48A}-\\x{52F}\\x{531}-\\x{556}\\x{10A0}-\\x{10C5}"                       \
    "\\x{13A0}-\\x{13F5}\\x{13F8}-\\x{13FD}\\x{1C90}-\\x{1CBA}\\x{1CBD}-\\x{1CBF}"                 \
    "\\x{1D00}-\\x{1D2B}\\x{1D6B}-\\x{1D77}\\x{1D79}-\\x{1D9A}\\x{1E00}-\\x{1F15}"                 \
    "\\x{1F18}-\\x{1F1D}\\x{1F20}-\\x{1F45}\\x{1F48}-\\x{1F4D}\\x{1F50}-\\x{1F57}"                 \
    "\\x{1F59}\\x{1F5B}\\x{1F5D}\\x{1F5F}-\\x{1F7D}\\x{1F80}-\\x{1FB4}\\x{1FB6}-\\x{1FBC}"         \
    "\\x{1FBE}\\x{1FC2}-\\x{1FC4}\\x{1FC6}-\\x{1FCC}\\x{1FD0}-\\x{1FD3}"                           \
    "\\x{1FD6}-\\x{1FDB}\\x{1FE0}-\\x{1FEC}\\x{1FF2}-\\x{1FF4}\\x{1FF6}-\\x{1FFC}"                 \
    "\\x{2102}\\x{2107}\\x{210A}-\\x{2113}\\x{2115}\\x{2119}-\\x{211D}\\x{2124}\\x{2126}"          \
    "\\x{2128}\\x{212A}-\\x{212D}\\x{212F}-\\x{2134}\\x{2139}\\x{213C}-\\x{213F}"                  \
    "\\x{2145}-\\x{2149}\\x{214E}\\x{2183}\\x{2184}\\x{2C00}-\\x{2C7B}\\x{2C7E}-\\x{2CE4}"         \
    "\\x{2CEB}-\\x{2CEE}\\x{2CF2}\\x{2CF3}\\x{A640}-\\x{A66D}\\x{A680}-\\x{A69B}"                  \
    "\\x{A722}-\\x{A76F}\\x{A771}-\\x{A787}\\x{A78B}-\\x{A78E}\\x{AB70}-\\x{ABBF}"                 \
    "\\x{FB00}-\\x{FB06}\\x{FB13}-\\x{FB17}\\x{FF21}-\\x{FF3A}\\x{FF41}-\\x{FF5A}"                 \
    "\\x{10400}-\\x{1044F}\\x{104B0}-\\x{104D3}\\x{104D8}-\\x{104FB}\\x{10C80}-\\x{10CB2}"         \
    "\\x{10CC0}-\\x{10CF2}\\x{118A0}-\\x{118DF}\\x{1E900}-\\x{1E943}]+"

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
    /* What llama.cpp does with files that name no cut. */
    {"ggml", {"[\\p{P}$+<=>^~|]+", GPT2, "\\p{N}+", "[0-9][0-9][0-9]"}},
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
