"""English: stop words, irregular forms and a light stemmer.

`stem` removes plural, past, -ing and common derivations, a final `e`, and the difference of `y` and
`i`. It is our own, and must stay as it is: existing indexes were built with it, and a Snowball
stemmer yields other words. To change it, add a migration that has rows analysed again.
"""

from __future__ import annotations

import re

_STOP = """
a about above after again against all am an and any are aren as at be because been before being below between both but
by can cannot could couldn did didn do does doesn doing don down during each either else ever few for from further had
hadn has hasn have haven having he her here hers herself him himself his how i if in into is isn it its itself just let
ll me might mine more most much must my myself neither no nor not now of off on once only onto or other our ours
ourselves out over own per please rather re really s same shall she should shouldn since so some such t than that the
their theirs them themselves then there these they this those though through thus to too toward towards under until unto
up upon us ve very was wasn we well were weren what whatever when whenever where wherever whether which while who
whoever whom whose why will with within without would wouldn yes yet you your yours yourself yourselves d m o tell told
ask asked remind remember mention mentioned said say says
"""
STOP = frozenset(_STOP.split())

MONTHS = (
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
)
# A form of two words belongs to the verb or the whole word: `lives` to live, `sat` to sit.
_FORMS = """
go went gone goes going; buy bought; bring brought; think thought; catch caught; teach taught; seek sought;
fight fought; make made; take took taken; give gave given; get got gotten; see saw seen; come came; become became;
run ran; begin began begun; write wrote written; drive drove driven; ride rode ridden; rise rose risen;
choose chose chosen; speak spoke spoken; break broke broken; wake woke woken; steal stole stolen; freeze froze frozen;
wear wore worn; tear tore torn; bear bore born; swear swore sworn; know knew known; grow grew grown; throw threw thrown;
blow blew blown; fly flew flown; draw drew drawn; show shown; eat ate eaten; fall fell fallen; forget forgot forgotten;
hide hid hidden; bite bit bitten; sing sang sung; swim swam swum; drink drank drunk; ring rang rung; sink sank sunk;
win won; find found; hold held; stand stood; understand understood; keep kept; sleep slept; feel felt; leave left;
meet met; lead led; feed fed; read; build built; send sent; spend spent; lend lent; bend bent; lose lost; sell sold;
hear heard; pay paid; lay laid; sit sat; shoot shot; stick stuck; strike struck; hang hung; dig dug; spin spun;
light lit; slide slid; learn learnt; dream dreamt; burn burnt; deal dealt; mean meant; sweep swept; weep wept;
creep crept; bind bound; wind wound; grind ground; child children; man men; woman women; person people; foot feet;
tooth teeth; mouse mice; goose geese; wife wives; knife knives; shelf shelves; half halves;
wolf wolves; loaf loaves; thief thieves; good better best; bad worse worst; mother mom mum mommy; father dad daddy;
grandmother grandma; grandfather grandpa; photograph photo pic picture; television tv; telephone phone; bicycle bike;
refrigerator fridge; advertisement ad advert; application app; mathematics math maths; examination exam; laboratory lab;
favorite favourite fave; color colour; neighbor neighbour; center centre; theater theatre; organize organise;
program programme; gray grey; traveling travelling; jewelry jewellery; one 1; two 2; three 3; four 4; five 5; six 6;
seven 7; eight 8; nine 9; ten 10; january jan; february feb; august aug; september sep sept; october oct; november nov;
december dec; tuesday tue; thursday thu; friday fri
"""

_VOWEL = re.compile(r"[aeiouy]")
_DOUBLE = re.compile(r"([^aeiouylsz])\1$")
# Ending, its replacement, and the minimum letters before it.
_ENDINGS = (
    ("ization", "iz", 2),
    ("isation", "iz", 2),
    ("ational", "at", 3),
    ("fulness", "", 3),
    ("iveness", "iv", 2),
    ("ousness", "ou", 2),
    ("ability", "abl", 3),
    ("ibility", "ibl", 3),
    ("ication", "i", 3),
    ("ation", "", 3),
    ("ition", "it", 3),
    ("ment", "", 3),
    ("ness", "", 3),
    ("fully", "", 3),
    ("ally", "al", 3),
    ("ly", "", 3),
    ("ful", "", 3),
    ("ing", "", 3),
    ("ise", "iz", 3),
    ("ize", "iz", 3),
)
_ANY_ENDING = tuple(ending for ending, _, _ in _ENDINGS)


def stem(word: str) -> str:
    """Return a lower-case English word without its endings; words under four letters stay."""
    if len(word) < 4 or not word.isalpha():
        return word
    word = _plural(word)
    word = _past(word)
    if word.endswith(_ANY_ENDING):
        word = _without_ending(word)
    if len(word) > 3 and word[-1] == "e":
        word = word[:-1]
    if len(word) > 2 and word[-1] == "y" and word[-2] not in "aeiou":
        word = word[:-1] + "i"
    return word


def _without_ending(word: str) -> str:
    for ending, left, min_length in _ENDINGS:
        if word.endswith(ending):
            base = word[: -len(ending)]
            is_valid_stem = len(base) >= min_length and _VOWEL.search(base)
            return base + left if is_valid_stem else word
    return word


def _plural(word: str) -> str:
    if word[-1] != "s" or word[-2:] in ("ss", "us", "is"):
        return word
    if word.endswith("ies"):
        return word[:-3] + ("y" if len(word) > 4 else "ie")
    if word.endswith(("sses", "shes", "ches", "xes", "zes", "oes")):
        return word[:-2]
    return word[:-1]


def _past(word: str) -> str:
    if not word.endswith(("ing", "ed")):
        return word
    for ending in ("ing", "ed"):
        base = word[: -len(ending)]
        if (
            word.endswith(ending)
            and len(base) > 2
            and _VOWEL.search(base)
            and not (ending == "ed" and base[-1] == "e")
        ):
            if base[-1] == "i" and ending == "ed":
                return base[:-1] + "y"
            return _DOUBLE.sub(r"\1", base)
    return word


IRREGULAR = {
    form: stem(forms[0])
    for forms in (line.split() for line in _FORMS.split(";"))
    for form in forms[1:]
}
