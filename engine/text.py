"""Makes texts from other programs safe to show."""

import unicodedata
from typing import Final

# Categories of Unicode: control characters of terminals (Cc, Cf), halves of characters, which no stream can
# write (Cs), and line ends that few programs know (Zl, Zp).
_HIDDEN: Final = ("Cc", "Cf", "Cs", "Zl", "Zp")
# Characters without ink: fillers of Hangul, the blank of Braille, and characters that join or vary others.
_BLANK: Final = frozenset("\u115f\u1160\u3164\uffa0\u2800\u034f\u17b4\u17b5\u180b\u180c\u180d\u180f")
_VARIATIONS: Final = range(0xFE00, 0xFE10), range(0xE0100, 0xE01F0)


def visible(text: str) -> str:
    """The text, with codes in place of invisible and control characters. Line ends and tabs stay."""
    return text if text.isascii() and text.isprintable() else "".join(map(_visible_character, text))


def _visible_character(character: str) -> str:
    if character in "\n\t":
        return character
    is_hidden = unicodedata.category(character) in _HIDDEN or character in _BLANK
    varies = any(ord(character) in variations for variations in _VARIATIONS)
    return ascii(character)[1:-1] if is_hidden or varies else character
