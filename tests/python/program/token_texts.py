"""Drawn texts in many scripts for the tests of tokenizers."""

from __future__ import annotations

import random
import unicodedata

SCRIPTS = {
    "latin": "Größe naïve café Łódź señor crème brûlée straße ﬁne ĳ Ǆ the quick brown fox's don't I'LL",
    "cyrillic": "Съешь же ещё этих мягких французских булок да выпей чаю ЙОД",
    "greek": "Ξεσκεπάζω την ψυχοφθόρα βδελυγμία ΣΊΣΥΦΟΣ ς",
    "arabic": "نص حكيم له سر قاطع وذو شأن عظيم مكتوب ، ؟ ١٢٣ ﻻ",
    "hebrew": "דג סקרן שט בים מאוכזב ולפתע מצא חברה שָׁלוֹם",
    "devanagari": "ऋषियों को सताने वाले दुष्ट राक्षसों क्षत्रिय हिन्दी । १२३",
    "thai": "เป็นมนุษย์สุดประเสริฐเลิศคุณค่า น้ำ กำ",
    "chinese": "視野無限廣 窗外有藍天 中文字符测试。，！",
    "japanese": "いろはにほへと ちりぬるを カタカナ ｶﾀｶﾅ 日本語テキスト ー が",
    "korean": "키스의 고유조건은 입술끼리 만나야 한국어 각",
    "emoji": "👩\u200d👩\u200d👧 🇩🇪 ❤️ 👍🏽 🏳️\u200d🌈 1️⃣",
    "control": "\x01\x7f\x0b\x0c\x1c\u0085\u200b\u200e\ufeff\u2028\u00ad\ufffd",
    "blanks": "  \t \n\n  \r\n   \u00a0\u2003\u3000 \u2581 \u2581\u2581",
    "numbers": "123456 1.5e10 ½ ² ٣ Ⅷ 1,000,000 12:30 3rd",
    "signs": "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~ “q” ‘s’ … — – ¿¡ «»",
    "code": "def f(x):\n    return x**2  # ok\n\tif a==b: pass\n",
}  # fmt: skip


def draw(source: random.Random, parts: int = 14) -> str:
    """Pieces of the scripts one after another, doubled letters, runs of blanks, other Unicode forms."""
    out = []
    for _ in range(source.randrange(1, parts)):
        text = SCRIPTS[source.choice(list(SCRIPTS))]
        which = source.random()
        if which < 0.5:
            at = source.randrange(len(text))
            out.append(text[at : at + source.randrange(1, 20)])
        elif which < 0.7:
            out.append(source.choice(text) * source.randrange(1, 4))
        elif which < 0.8:
            out.append(" " * source.randrange(1, 5))
        elif which < 0.85:
            out.append("\n" * source.randrange(1, 4))
        elif which < 0.9:
            out.append(unicodedata.normalize(source.choice(["NFD", "NFKC"]), text[:15]))
        else:
            out.append(f" {source.choice(text.split() or ['x'])} ")
    return "".join(out)


def corpus(count: int = 600) -> list[str]:
    source = random.Random(1)
    return [*(draw(source) for _ in range(count)), *SCRIPTS.values()]
