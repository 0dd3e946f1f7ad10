"""Patterns of personal data: e-mail addresses, phone numbers, payment cards and IBANs.

`mask` replaces what they match. `masking.py` calls it where the settings say so.

Cards and IBANs count only if their check digits are right. A phone number needs an international
prefix or the usual groups of a national one, so that dates and other numbers are not masked. Every
pattern is bounded, so the time is proportional to the length of the text.
"""

from __future__ import annotations

import re

from memorist.base.lazy_pattern import LazyPattern

_GAPS = " \u00a0\u202f\u2011-"
"""Characters between the groups of a number: spaces and hyphens, including non-breaking ones."""
# The ends of a number: not within a word or a longer number. `_` may surround it, as in Markdown.
_START = r"(?<![^\W_])(?<!\w_)(?<![+-])"
_END = r"(?![^\W_]|[_-][^\W_])"
EMAIL = LazyPattern(
    r"(?<![\w.+%-])[\w.+%-]{1,64}@(?:[^\W_](?:[\w-]{0,61}[^\W_])?\.){1,8}[^\W\d_]{2,24}" + _END
)
PHONE = LazyPattern(
    _START + r"(?<!/)(?<!\d[.,])(?:"
    r"(?:\+|00(?=[1-9]))\(?[1-9](?:[()./"
    + _GAPS
    + r"]{0,3}\d){6,14}"  # +49 30 1234567, 0049 30 1234567
    r"|\(0?\d{2,5}\)[ -]?\d(?:[.-]?\d| [1-9]){4,9}"  # (030) 1234567, (555) 123-4567
    r"|[2-9]\d{2}[." + _GAPS + r"]\d{3}[." + _GAPS + r"]\d{4}"  # 555-123-4567
    r"|0[1-9](?:[ .-]\d{2}){4}"  # 01 23 45 67 89
    r"|0[1-9]\d{1,4}[ /-]{1,3}\d(?:-?\d| [1-9]){4,9}"  # 030 1234567, 0171/1234567
    r"|0[1-9]\d{8,10}"  # 01711234567
    r")" + _END
)
CARD = LazyPattern(_START + r"(?<!\d\.)(?:[3-6]\d|2[2-7])(?:[" + _GAPS + r"]?\d){11,17}" + _END)
IBAN = LazyPattern(r"(?<![A-Za-z0-9])[A-Za-z]{2}\d{2}(?=(?:[" + _GAPS + r"]?[A-Za-z0-9]){11})")
"""The beginning of an IBAN; its length depends on the country."""
MIN_CARD_DIGITS = 13
_DIGITS = LazyPattern(r"\d{2}")
_IBANS = """
    AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BI27 BR29 BY28 CH21 CR22 CY28 CZ24
    DE22 DJ27 DK18 DO28 EE20 EG29 ES24 FI18 FK18 FO18 FR27 GB22 GE22 GI23 GL18 GR27
    GT28 HN28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30 KW30 KZ20 LB28 LC32 LI21 LT20
    LU20 LV21 LY25 MC27 MD24 ME22 MK19 MN20 MR27 MT31 MU30 NI28 NL18 NO15 OM23 PK24
    PL28 PS29 PT25 QA29 RO24 RS22 RU33 SA24 SC31 SD18 SE24 SI19 SK24 SM27 SO23 ST25
    SV28 TL23 TN24 TR26 UA29 VA22 VG24 XK20 YE30
"""
_IBAN_LENGTHS = {code[:2]: int(code[2:]) for code in _IBANS.split()}
"""The length of an IBAN by its country."""
_MARK = "[personal: {}]"


def mask(text: str) -> str:
    """Replace personal data with marks such as `[personal: email]`."""
    if "@" in text:
        text = EMAIL.sub(_MARK.format("email"), text)
    if _DIGITS.search(text):
        text = _mask_ibans(text)
        text = CARD.sub(_mask_card, text)
        text = PHONE.sub(_MARK.format("phone"), text)
    return text


def is_card(digits: str) -> bool:
    """Return True if the Luhn check digit of a card number is right."""
    total = 0
    for index, digit in enumerate(reversed(digits)):
        value = int(digit) * (1 + index % 2)
        total += value - 9 if value > 9 else value
    return total % 10 == 0


def is_iban(characters: str) -> bool:
    """Return True if an IBAN has the length of its country and the right check digits (mod 97)."""
    text = characters.upper()
    if len(text) != _IBAN_LENGTHS.get(text[:2]) or not text.isascii():
        return False
    rotated = text[4:] + text[:4]
    digits = "".join(str(int(character, 36)) for character in rotated)
    return int(digits) % 97 == 1


def _mask_card(match: re.Match[str]) -> str:
    """Mask a card number; digits that follow it, such as its check value, may be in the match."""
    text = match[0]
    ends = [index for index, character in enumerate(text) if character in _GAPS]
    for end in [len(text), *reversed(ends)]:
        digits = "".join(character for character in text[:end] if character not in _GAPS)
        if len(digits) >= MIN_CARD_DIGITS and is_card(digits):
            return _MARK.format("card") + text[end:]
    return text


def _mask_ibans(text: str) -> str:
    parts = []
    position = 0
    for match in IBAN.finditer(text):
        end = _iban_end(text, match.start())
        if end and match.start() >= position:
            parts += [text[position : match.start()], _MARK.format("iban")]
            position = end
    return "".join([*parts, text[position:]])


def _iban_end(text: str, start: int) -> int:
    """Return the end of the IBAN that starts at a position; 0 if there is none."""
    length = _IBAN_LENGTHS.get(text[start : start + 2].upper(), 0)
    characters = ""
    end = start
    while len(characters) < length and end < len(text):
        if text[end].isalnum():
            characters += text[end]
        elif text[end] not in _GAPS or text[end - 1] in _GAPS:
            return 0
        end += 1
    is_whole = end == len(text) or not text[end].isalnum()
    return end if length and is_whole and is_iban(characters) else 0
