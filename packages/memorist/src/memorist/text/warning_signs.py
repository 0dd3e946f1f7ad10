"""Warning signs in a text: hints for a reviewer that it may try to instruct an agent.

They are hints, not a protection: a determined author can avoid every pattern. Prompts are protected
by review: text from an untrusted source is used only after a person has accepted it.
"""

from __future__ import annotations

from memorist.base import masking
from memorist.base.lazy_pattern import LazyPattern

_SHAPES = {
    "instruction": r"(?i)\b(?:always|never|from now on|every time|whenever|at all times|without (?:asking|telling|question)"
    r"|do not (?:tell|mention|ask|reveal)|don't (?:tell|mention|ask|reveal)|must (?:first|now|always|never)"
    r"|(?:ignore|disregard|forget|override) (?:all|any|the|your|every|previous|prior)"
    r"|immer|niemals|ab sofort|ignoriere|toujours|jamais|désormais|ignorez|siempre|nunca|ignora"
    r"|sempre|mai più|всегда|никогда|игнорируй)\b|总是|永远|忽略|必ず|常に|無視",
    "order": r"(?i)\b(?:send|forward|post|upload|transfer|email|e-mail|submit|run|execute|install|download|delete|wire|pay"
    r"|schicke|sende|envoie|envoyez|envía|envíe)\b[^\n]{0,50}(?:https?://|www\.|@|\bto\b|\ban\b|\bà\b|\$|`)",
    "authority": r"(?i)\b(?:(?:admin(?:istrator)?|operator|developer|manager|support|security|ceo|boss|owner|root)s?"
    r" (?:said|says|approved|allowed|confirmed|wants|told)|pre-?approved|is authori[sz]ed|has permission|no (?:need|reason)"
    r" to (?:ask|check|confirm|verify))\b",
    "role": r"(?im)^[ \t>*#-]{0,8}(?:system|assistant|developer|user|human|tool)(?: (?:message|prompt))?[ \t]{0,3}:"
    r"|<\|[a-z_]{2,40}\|>|\[/?INST\]|<</?SYS>>|</?(?:system|assistant|instructions?|user)>",
    "placeholder": r"(?i)\[\s{0,3}MemoryRef\b",
    "address": r"(?i)\b(?:[a-z][a-z0-9+.-]{1,12}://|(?:javascript|data|mailto|file):\S|www\.[\w-]{2})",
    "image": r"(?i)!\[[^\]\n]{0,300}\]\s{0,3}[(\[]|<(?:img|svg|iframe|object|embed|script|link)\b",
    "encoded": r"[A-Za-z0-9+/_-]{64,}={0,2}|(?:[0-9a-fA-F]{2}[ :,]){24,}|(?:\\x[0-9a-fA-F]{2}){8,}|(?:%[0-9a-fA-F]{2}){8,}",
    "invisible": "[\u00ad\u200b\u2028\u2029\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff\U000e0000-\U000e007f]"
    "|[\u200c-\u200f]{2}",
}
_PATTERNS = tuple((name, LazyPattern(shape)) for name, shape in _SHAPES.items())


def find_warning_signs(text: str) -> list[str]:
    """Return the names of the signs in a text. No sign does not mean that a text is safe."""
    names = [name for name, pattern in _PATTERNS if pattern.search(text)]
    if masking.find_secrets(text):
        names.append("secret")
    return names
