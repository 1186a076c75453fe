/* Classes of characters in patterns, as the engines of the `tokenizers` package have them. */
#ifndef OTATTN_MODELS_TOKEN_PATTERNS_H
#define OTATTN_MODELS_TOKEN_PATTERNS_H

#include "tokenizer_parts.h"

#define SPACES                                                                                     \
    "\\x09-\\x0d\\x20\\x85\\xa0\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}"   \
    "\\x{3000}"
#define LETTERS                                                                                    \
    "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}\\x{1f150}-\\x{"     \
    "1f169}"                                                                                       \
    "\\x{1f170}-\\x{1f189}"
/* \w of Oniguruma, whose patterns files hold: letters in circles too, and six numbers of Latin-1. */
#define WORDS LETTERS "\\xb2\\xb3\\xb9\\xbc-\\xbe"
/* \w of Rust's regex, in which the step Whitespace is written: without those numbers, with the two joiners. */
#define RUST_WORDS LETTERS "\\x{200c}\\x{200d}"

#endif
