"""German: how people say facts about themselves and about those close to them.

The forms are read as in `patterns_en`. Two orders of words are turned into the plain one before:
the verb before its subject ("seit Mai wohne ich in Köln") and the verb at the end ("weil ich in
Köln wohne"). The statements are English; the objects stay as the user said them, except for the
words of the table `TRANSLATIONS`.
"""

from __future__ import annotations

from memorist.base.lazy_pattern import LazyPattern
from memorist.kinds.facts.form import Language, any_of, form

# --- Words -----------------------------------------------------------------------------------

RELATIONS = {
    "Schwester": "sister",
    "Bruder": "brother",
    "Mutter": "mother",
    "Mama": "mother",
    "Vater": "father",
    "Papa": "father",
    "Frau": "wife",
    "Ehefrau": "wife",
    "Mann": "husband",
    "Ehemann": "husband",
    "Partnerin": "partner",
    "Partner": "partner",
    "Verlobte": "fiancée",
    "Verlobter": "fiancé",
    "Sohn": "son",
    "Tochter": "daughter",
    "Oma": "grandmother",
    "Großmutter": "grandmother",
    "Opa": "grandfather",
    "Großvater": "grandfather",
    "Tante": "aunt",
    "Onkel": "uncle",
    "Cousine": "cousin",
    "Cousin": "cousin",
    "Nichte": "niece",
    "Neffe": "nephew",
    "Mitbewohnerin": "roommate",
    "Mitbewohner": "roommate",
    "Freundin": "friend",
    "Freund": "friend",
    "Kollegin": "colleague",
    "Kollege": "colleague",
    "Nachbarin": "neighbor",
    "Nachbar": "neighbor",
    "Chefin": "boss",
    "Chef": "boss",
}
PETS = {
    "Hund": "dog",
    "Hündin": "dog",
    "Welpe": "dog",
    "Katze": "cat",
    "Kater": "cat",
    "Kaninchen": "rabbit",
    "Pferd": "horse",
    "Papagei": "parrot",
}
PLURALS = {
    "Eltern": "parents",
    "Großeltern": "grandparents",
    "Kinder": "children",
    "Söhne": "sons",
    "Töchter": "daughters",
    "Geschwister": "siblings",
}
TRAITS = {
    "Vegetarier": "vegetarian",
    "Vegetarierin": "vegetarian",
    "Veganer": "vegan",
    "Veganerin": "vegan",
    "vegan": "vegan",
    "Diabetiker": "diabetic",
    "Diabetikerin": "diabetic",
    "Linkshänder": "left-handed",
    "Linkshänderin": "left-handed",
    "laktoseintolerant": "lactose intolerant",
    "farbenblind": "color-blind",
}
STATUSES = {
    "verheiratet": "married",
    "verlobt": "engaged",
    "geschieden": "divorced",
    "ledig": "single",
    "Single": "single",
    "verwitwet": "widowed",
}
LANGUAGES = {
    "Deutsch": "German",
    "Englisch": "English",
    "Französisch": "French",
    "Spanisch": "Spanish",
    "Italienisch": "Italian",
    "Portugiesisch": "Portuguese",
    "Niederländisch": "Dutch",
    "Polnisch": "Polish",
    "Russisch": "Russian",
    "Ukrainisch": "Ukrainian",
    "Türkisch": "Turkish",
    "Arabisch": "Arabic",
    "Chinesisch": "Chinese",
    "Japanisch": "Japanese",
    "Koreanisch": "Korean",
    "Schwedisch": "Swedish",
    "Dänisch": "Danish",
    "Norwegisch": "Norwegian",
    "Griechisch": "Greek",
    "Latein": "Latin",
}
TRANSLATIONS = {
    **RELATIONS,
    **PETS,
    **PLURALS,
    **TRAITS,
    **STATUSES,
    **LANGUAGES,
    "meinen Job": "their job",
    "Rentner": "retired",
    "Rentnerin": "retired",
    "arbeitslos": "unemployed",
    "selbstständig": "self-employed",
    "selbständig": "self-employed",
    "schwanger": "pregnant",
    "farbe": "colour",
    "essen": "food",
    "gericht": "dish",
    "getränk": "drink",
    "buch": "book",
    "musik": "music",
    "stadt": "city",
    "tier": "animal",
    "serie": "series",
    "lied": "song",
    "spiel": "game",
}
JOBS = (
    "Anwalt Anwältin Apotheker Architekt Arzt Ärztin Assistent Autor Bäcker Berater Buchhalter "
    "Designer Elektriker Entwickler Erzieher Fahrer Florist Fotograf Friseur Gärtner Grafiker "
    "Handwerker Hebamme Informatiker Ingenieur Journalist Kellner Koch Köchin Krankenpfleger "
    "Krankenschwester Kauffrau Kaufmann Künstler Landwirt Lehrer Maler Manager Mechaniker Musiker "
    "Optiker Pfarrer Pfleger Physiker Pilot Polizist Professor Programmierer Psychologe "
    "Psychologin "
    "Redakteur Richter Sänger Schauspieler Schreiner Schriftsteller Sekretär Soldat Sozialarbeiter "
    "Steuerberater Student Techniker Therapeut Tierarzt Tierärztin Tischler Übersetzer Verkäufer "
    "Wissenschaftler Zahnarzt Zahnärztin"
)
INSTRUMENTS = (
    "Gitarre Klavier Geige Bratsche Cello Bass Schlagzeug Flöte Querflöte Blockflöte Klarinette "
    "Saxophon Trompete Posaune Ukulele Harfe Akkordeon"
)
SPORTS = (
    "Fußball Basketball Handball Tennis Tischtennis Badminton Volleyball Golf Hockey Eishockey "
    "Schach"
)
CONDITIONS = (
    "Asthma Diabetes Arthritis Epilepsie ADHS Autismus Depressionen Migräne Heuschnupfen "
    "Neurodermitis Bluthochdruck Zöliakie Rheuma Tinnitus Legasthenie"
)
NOT_NAMES = (
    "Angst Hunger Durst Geburtstag Lust Zeit Urlaub Probleme Krebs Fieber Besuch Recht Glück "
    "Kinder "
    "Hilfe Arbeit Geld Sport Deutsch Mathe Pech Spaß Schmerzen Corona Grippe Kopfschmerzen Ruhe "
    "Weihnachten"
)

# --- Parts of patterns -----------------------------------------------------------------------

RELATION = any_of(" ".join([*RELATIONS, *PETS]))
MODIFIER = r"(?:(?:ältere|jüngere|kleine|große|beste|liebe|neue)[rsnm]? |Lieblings)"
MY = r"[Mm]ein(?:e[rnms]?)?"
NAME_WORD = rf"(?!{any_of(NOT_NAMES)}\b)[A-ZÄÖÜ][a-zäöüßé][\w-]*"
NAME = rf"(?:Dr\.? |Prof\.? |Frau |Herr )?{NAME_WORD}(?: {NAME_WORD})?"
PLACE = r"[A-ZÄÖÜ][\w.&-]*\w(?: (?:am |an der |im )?[A-ZÄÖÜ][\w&-]*\w){0,3}"
ORGANISATION = rf"(?:{PLACE}|(?:eine[rm]?|der|dem) (?:\w+ )?[A-ZÄÖÜ][\w-]+)"
# One adjective may stand before a job, but no word that denies it or begins another phrase.
JOB = (
    r"(?:(?!(?:kein|nicht|der|die|das|ein|mein|dein|sein|ihr|fast|wie|mit)\w*\b)[a-zäöü]+ )?"
    rf"(?:\w+)?(?i:{any_of(JOBS)})(?:in)?"
)
WORDS = r"[\w'&/%+-]+(?: [\w'&/%+-]+){0,9}"
MONTH = r"(?:Jan|Jän|Feb|Mär|Apr|Mai|Jun|Jul|Aug|Sep|Okt|Nov|Dez)\w*"
BIRTHDAY = rf"\d{{1,2}}\.? ?(?:{MONTH}|\d{{1,2}}\.)(?: ?(?:19|20)\d\d)?"
NUMBER = r"(?:einen?|zwei|drei|vier|fünf|sechs|\d)"
BIN = r"(?:bin|ist|sind)"
HABE = r"(?:habe|hab|hat|haben)"
END = (
    r"(?!\w)(?=\s*(?:$|(?:und|aber|weil|denn|mit|als|bei|in|seit|für|zusammen|von Beruf|"
    r"geworden)\b))"
)
AGE = "{subject} is {object} years old."
NAMED_SO = "{subject}'s name is {object}."

# --- Forms: what follows "ich" or "meine Schwester Clara" -----------------------------------

VERB_FORMS = (
    # Home and identity.
    form(
        "lives in",
        "home",
        r"(?:wohn|leb)(?:e|t|en) in (?:der |den |die )?"
        rf"(?P<object>{PLACE}){END}",
        exclusive=True,
    ),
    form(
        "lives in",
        "home",
        rf"{BIN} (?:von {PLACE} )?nach (?:der |den |die )?(?P<object>{PLACE}) (?:um)?gezogen\b",
        exclusive=True,
        is_event=True,
    ),
    form(
        "comes from",
        "identity",
        r"komm(?:e|t|en) (?:ursprünglich )?aus (?:der |den |die )?"
        rf"(?P<object>{PLACE}){END}",
    ),
    form("is in", "home", rf"{BIN} in (?:der |den |die )?(?P<object>{PLACE}){END}", kind="stay"),
    form(
        "grew up in", "identity", rf"{BIN} in (?:der |den |die )?(?P<object>{PLACE}) aufgewachsen\b"
    ),
    form(
        "birthplace",
        "identity",
        rf"(?:{BIN}|wurde) in (?:der |den |die )?(?P<object>{PLACE}) geboren\b",
        statement="{subject} was born in {object}.",
    ),
    form(
        "name",
        "identity",
        rf"hei(?:ß|ss)e (?P<object>{NAME}){END}",
        exclusive=True,
        only_me=True,
        statement=NAMED_SO,
    ),
    form(
        "age",
        "identity",
        rf"{BIN} (?P<object>\d{{1,3}})(?: Jahre alt| geworden)?$",
        exclusive=True,
        statement=AGE,
    ),
    form(
        "birthday",
        "identity",
        rf"{HABE} am (?P<object>{BIRTHDAY}) Geburtstag\b",
        exclusive=True,
        keeps_times=True,
        statement="{subject}'s birthday is {object}.",
    ),
    form(
        "speaks",
        "identity",
        rf"(?:spreche|spricht|sprechen) (?:fließend "
        rf")?(?P<object>{any_of(' '.join(LANGUAGES))}){END}",
    ),
    form(
        "is learning",
        "other",
        rf"lern(?:e|t|en) (?P<object>{any_of(' '.join(LANGUAGES))}|{any_of(INSTRUMENTS)}){END}",
    ),
    # Work and study.
    form(
        "works at",
        "work",
        rf"arbeite[nt]? (?:bei|für) (?:der |dem )?(?P<object>{ORGANISATION}){END}",
        exclusive=True,
    ),
    form(
        "works as",
        "work",
        rf"arbeite[nt]? (?:(?:bei|für) {ORGANISATION} )?als (?P<object>{JOB}){END}",
        exclusive=True,
    ),
    form("works as", "work", rf"{BIN} (?P<object>{JOB})(?: von Beruf)?{END}"),
    form("studies", "work", rf"studier(?:e|t|en) (?P<object>[A-ZÄÖÜ][\w-]+){END}"),
    form("is", "work", rf"{BIN} (?P<object>Rentner(?:in)?|arbeitslos|selbstst?ändig){END}"),
    # Health and food.
    form(
        "is allergic to",
        "health",
        rf"{BIN} allergisch (?:gegen|auf) (?P<object>{WORDS})$",
        is_free=True,
    ),
    form(
        "is allergic to",
        "health",
        rf"{BIN} gegen (?P<object>{WORDS}) allergisch$",
        is_free=True,
    ),
    form("has", "health", rf"{HABE} eine (?P<object>[A-ZÄÖÜ]\w+allergie){END}"),
    form(
        "is",
        "health",
        rf"{BIN} (?:strikte[rn]? |überzeugte[rn]? )?(?P<object>{any_of(' '.join(TRAITS))}){END}",
    ),
    form("has", "health", rf"{HABE} (?P<object>{any_of(CONDITIONS)}){END}"),
    form(
        "does not eat",
        "health",
        r"(?:esse|isst|essen) keine?n? (?P<object>\S+(?: \S+){0,4}?)(?: mehr)?$",
        is_free=True,
        is_absolute=True,
    ),
    form(
        "does not drink",
        "health",
        r"trink(?:e|t|en) keine?n? (?P<object>\S+(?: \S+){0,4}?)(?: mehr)?$",
        is_free=True,
        is_absolute=True,
    ),
    form("smokes", "health", r"rauch(?:e|t|en)(?P<object>)$"),
    # People and pets.
    form("is married to", "people", rf"{BIN} mit (?P<object>{NAME}) verheiratet\b", exclusive=True),
    form("is engaged to", "people", rf"{BIN} mit (?P<object>{NAME}) verlobt\b", exclusive=True),
    form(
        "relationship status",
        "people",
        rf"{BIN} (?:glücklich )?(?P<object>{any_of(' '.join(STATUSES))}){END}",
        exclusive=True,
        statement="{subject} is {object}.",
    ),
    form("is", "people", rf"{BIN} (?P<object>schwanger){END}"),
    form(
        "has",
        "people",
        rf"{HABE} (?P<object>{NUMBER}e? (?:\w+ )?(?:{RELATION}n?|Kinde?r?|Söhne|Töchter|Hunde|"
        rf"Brüder|Schwestern)){END}",
    ),
    # Preferences, and what people do.
    form("dislikes", "preferences", rf"(?:mag|mögen) keine?n? (?P<object>{WORDS})$", is_free=True),
    form("dislikes", "preferences", rf"(?:mag|mögen) (?P<object>{WORDS}) nicht$", is_free=True),
    form("dislikes", "preferences", rf"hass(?:e|t|en) (?P<object>{WORDS})$", is_free=True),
    form(
        "likes",
        "preferences",
        rf"(?:mag|mögen|lieb(?:e|t|en)) (?P<object>(?!.* nicht$){WORDS})$",
        is_free=True,
    ),
    form(
        "likes to eat",
        "preferences",
        rf"(?:esse|isst|essen) (?:sehr )?gerne? (?P<object>{WORDS})$",
        is_free=True,
    ),
    form(
        "likes to drink",
        "preferences",
        rf"trink(?:e|t|en) (?:sehr )?gerne? (?P<object>{WORDS})$",
        is_free=True,
    ),
    form("prefers", "preferences", rf"bevorzuge (?P<object>{WORDS})$", is_free=True, only_me=True),
    form(
        "plays",
        "other",
        rf"spiel(?:e|t|en) (?P<object>{any_of(INSTRUMENTS)}|{any_of(SPORTS)}){END}",
    ),
    # What is over.
    form(
        "works at",
        "work",
        rf"{HABE} bei (?P<object>{ORGANISATION}) (?:gekündigt|aufgehört)\b",
        ends=True,
    ),
    form(
        "works at",
        "work",
        rf"{HABE} meinen Job (?P<object>)(?:gekündigt|verloren)\b",
        ends=True,
        statement="{subject} no longer has their job.",
    ),
    form("smokes", "health", rf"{HABE} mit dem Rauchen aufgehört(?P<object>)", ends=True),
    # Plans, which need a time in the future.
    form(
        "plans to move to",
        "plans",
        rf"zieh(?:e|t|en) nach (?:der |den |die )?(?P<object>{PLACE})(?: um)?{END}",
        kind="plan",
    ),
    form(
        "plans to move to",
        "plans",
        rf"(?:werde|wird|werden) nach (?:der |den |die )?(?P<object>{PLACE}) (?:um)?ziehen\b",
        kind="plan",
    ),
    form(
        "plans to travel to",
        "plans",
        rf"(?:flieg|reis|fahr)(?:e|t|en) nach (?:der |den |die )?(?P<object>{PLACE}){END}",
        kind="plan",
    ),
    form(
        "plans to start at",
        "plans",
        rf"fang(?:e|en) bei (?:der |den |die )?(?P<object>{PLACE}) an\b",
        kind="plan",
    ),
    form(
        "plans to get",
        "plans",
        r"(?P<object>heirate)\b",
        kind="plan",
        statement="{subject} plans to get married.",
    ),
)

# --- Forms: what follows "mein" -------------------------------------------------------------

NOUN_FORMS = (
    form("name", "identity", rf"Name ist (?P<object>{NAME}){END}", kind="noun", exclusive=True),
    form(
        "birthday",
        "identity",
        rf"Geburtstag ist (?:am |der )?(?P<object>{BIRTHDAY})$",
        kind="noun",
        exclusive=True,
        keeps_times=True,
    ),
    form(
        "favourite {kind}",
        "preferences",
        rf"Lieblings(?P<kind>\w+) (?:ist|sind) (?P<object>{WORDS})$",
        kind="noun",
        exclusive=True,
        is_free=True,
        allows_article=True,
    ),
    form(
        "native language",
        "identity",
        rf"Muttersprache ist (?P<object>{any_of(' '.join(LANGUAGES))}){END}",
        kind="noun",
        exclusive=True,
    ),
)

# --- The reading of a sentence ---------------------------------------------------------------

# Verbs that may go on with the subject of the clause before.
VERBS = (
    "wohne|lebe|arbeite|spreche|spiele|habe|bin|mag|liebe|studiere|"
    "wohnt|lebt|arbeitet|spricht|spielt|hat|ist|liebt|studiert"
)
SUBJECT_NAMES = rf"(?:ich|wir|meine? {RELATION}(?: {NAME_WORD})?)"
IMPERATIVES = any_of(
    "antworte antwort schreib schreibe nenn nenne gib zeig zeige erklär erkläre verwende benutze "
    "nutze sprich rede "
    "duze sieze formuliere fass fasse erinnere frag frage füge mach mache halte übersetze sag sage"
)
INFINITIVES = any_of(
    "antworten schreiben nennen angeben zeigen erklären verwenden benutzen nutzen sprechen duzen "
    "siezen "
    "formulieren zusammenfassen erinnern fragen übersetzen sagen"
)

GERMAN = Language(
    greeting=LazyPattern(
        r"\s*(?:[Hh]allo|[Hh]i|[Hh]ey|[Gg]uten (?:Tag|Morgen|Abend)|[Mm]oin|[Ss]ervus)\b"
    ),
    hint=LazyPattern(
        r"\b(?:[Ii]ch|[Mm]ein(?:e[rnms]?)?|[Ww]ir|[Mm]erk dir|[Bb]itte|[Aa]b jetzt|[Kk]ünftig|"
        r"immer|nie|"
        r"mich)\b"
    ),
    spellings=((LazyPattern(r"\b([Ii]ch) (hab|mach|wohn|arbeit|komm|spiel)\b"), r"\1 \2e"),),
    split=LazyPattern(
        r"\s*(?:[,;:](?!\S)|[()]|\s[-–—]+\s)\s*(?:(?:und|aber|denn|also|oder)\s+)*"
        r"|\s+(?:und|aber|denn|sowie)\s+(?=(?:ich|wir|mein|meine)\b"
        rf"|(?:{VERBS})\b)"
    ),
    lead=LazyPattern(
        r"(?:(?:[Oo]h|[Nn]a|[Jj]a|[Nn]ein|[Hh]allo|[Hh]i|[Hh]ey|[Oo]k|[Oo]kay|[Uu]nd|[Aa]ber|"
        r"[Aa]lso|"
        r"[Üü]brigens|[Ee]igentlich|[Dd]enn|[Ll]eider|[Jj]etzt|[Ii]nzwischen|[Mm]ittlerweile|"
        r"[Dd]erzeit|[Aa]ktuell|[Mm]omentan|[Gg]erade|[Uu]rsprünglich|[Bb]eruflich)[,:]?\s+){0,4}"
    ),
    subject=LazyPattern(
        rf"(?:(?P<me>[Ii]ch|[Ww]ir)"
        rf"|[Mm]eine? {MODIFIER}?(?P<relation>{RELATION})(?: (?P<name>{NAME_WORD}))?"
        rf"|[Mm]eine (?P<plural>{any_of(' '.join(PLURALS))})"
        rf"|(?P<my>[Mm]eine?)(?P<possessive>(?!))?)\s+"
    ),
    i="ich",
    i_am="ich bin",
    inverted=LazyPattern(rf"^(?P<verb>[a-zäöüß]+) (?P<subject>{SUBJECT_NAMES})\s+"),
    verb_last=LazyPattern(
        rf"^(?:dass|weil|da|obwohl) (?P<subject>{SUBJECT_NAMES}) (?P<middle>.+) "
        rf"(?P<verb>[a-zäöüß]+)$"
    ),
    adverbs=LazyPattern(
        r"(?:(?:jetzt|gerade|derzeit|inzwischen|mittlerweile|auch|ja|übrigens|eigentlich|wirklich|"
        r"sehr|"
        r"schon|aktuell|momentan|immer noch|noch|total|endlich|leider|beruflich|vor kurzem|"
        r"kürzlich|"
        r"seit kurzem|überhaupt|besonders|am liebsten|stark|nun)\s+)+"
    ),
    implied_subject=LazyPattern(rf"(?:{VERBS})\b"),
    implied_be=LazyPattern(r"(?!)"),
    as_role=LazyPattern(r"[Aa]ls (?=[A-ZÄÖÜ])"),
    relative=LazyPattern(r"(?!)"),
    new_clause=LazyPattern(
        r"(?:[Ii]ch|[Mm]ein|[Ww]ir|es|er|sie|das|die|der|dies|wo|weil|da|denn|aber|kannst|können|"
        r"könntest|was|wie|besonders|vor allem|zum Beispiel|wenn|falls|obwohl|während|nicht|du|ist|"
        r"sind|hast|und|also|deshalb|darum|daher|seit|dass|ob)\b"
    ),
    open_question=LazyPattern(
        r"(?:[Kk]annst|[Kk]önn|[Ww]as|[Ww]ie|[Ww]o|[Ww]er|[Ww]ann|[Ww]arum|[Ww]elche|[Hh]ast|"
        r"[Gg]ibt|"
        r"[Ii]st|[Ss]oll|[Dd]arf|[Ww]eißt)"
    ),
    imagined=LazyPattern(
        r"\b(?:wenn|falls|ob|stell dir vor|angenommen|als ob|sagt|sagte|meinte|meint|erzählte|"
        r"erzählt|"
        r"behauptet|denkt|glaubt|glaube|wünschte|hätte|wäre|würde|träumte|beispiel|beispielsweise|"
        r"gesetzt den fall|schrieb|fragte)\b"
    ),
    doubted=LazyPattern(
        r"\b(?:würde|wäre|hätte|könnte|vielleicht|wahrscheinlich|möglicherweise|möchte|sollte|fast|"
        r"beinahe|angeblich|vermutlich|eventuell|bald vielleicht|oder so)\b"
    ),
    fiction=LazyPattern(
        r"\b(?:nur spaß|war (?:nur )?(?:ein )?(?:scherz|spaß|witz)|kleiner scherz|rollenspiel|tu "
        r"so|"
        r"stell dir vor|spiel(?:e)? die rolle|schreib(?:e)? (?:mir )?(?:ein|eine) (?:kurze )?"
        r"(?:geschichte|gedicht|lied|szene|dialog|witz)|schön wär|von wegen|haha,? nein)\b|"
        r"(?<!\S)/s(?!\S)"
    ),
    ended=(
        (LazyPattern(r"\bnicht mehr(?: |$)"), ""),
        (LazyPattern(r"(?<!esse )(?<!trinke )\bkeine?n? (\S+(?: \S+)?) mehr$"), r"\1"),
        (LazyPattern(r"^(habe|hat) früher "), r"\1 "),
    ),
    verb_forms=VERB_FORMS,
    noun_forms=NOUN_FORMS,
    named=(
        LazyPattern(
            rf"\b{MY} {MODIFIER}?(?P<relation>{RELATION})n? (?P<name>{NAME})(?=s?\b)"
            r"(?! ist (?:\w+ ){0,3}(?:ge|ver)storben)"
        ),
        LazyPattern(
            rf"\b{MY} {MODIFIER}?(?P<relation>{RELATION})n?, (?P<name>{NAME})(?=,|[.!?;)]|$)"
        ),
        LazyPattern(rf"\b{MY} {MODIFIER}?(?P<relation>{RELATION}) heißt (?P<name>{NAME})"),
    ),
    owned_name=LazyPattern(
        rf"{HABE} eine?n? (?:\w+ )?(?P<relation>{RELATION})n? (?:namens|mit (?:dem )?Namen) "
        rf"(?P<name>{NAME})"
    ),
    is_relation=LazyPattern(
        rf"(?P<name>{NAME}) ist meine? {MODIFIER}?(?P<relation>{RELATION}){END}"
    ),
    call_me=LazyPattern(rf"(?:[Bb]itte )?[Nn]enne? mich (?:bitte )?(?P<name>{NAME})$"),
    is_favourite=LazyPattern(
        r"(?P<object>[A-ZÄÖÜ][\w-]*(?: [\w-]+){0,3}) ist meine? Lieblings(?P<kind>\w+)$"
    ),
    english=TRANSLATIONS,
    remember=LazyPattern(
        r"(?:[Bb]itte )?(?:[Mm]erke? dir|[Dd]enke? daran|[Vv]ergiss nicht|[Nn]otiere? dir)(?: "
        r"bitte)?"
        r"[,:]? (?P<object>(?:dass )?(?:ich|mein\w*|wir|der|die|das) .*)"
    ),
    instruction=LazyPattern(
        rf"(?P<object>(?:[Bb]itte )?(?:[Aa]b jetzt|[Vv]on jetzt an|[Aa]b sofort|[Kk]ünftig|[Ii]n "
        rf"Zukunft),? "
        rf"(?:bitte )?(?:{IMPERATIVES}\b.*|.*{INFINITIVES})"
        rf"|(?:[Bb]itte )?(?i:{IMPERATIVES}) (?:mir |mich )?(?:bitte )?(?:immer|nie|niemals) .*"
        rf"|[Bb]itte (?:immer|nie|niemals|nur noch) .*{INFINITIVES})"
    ),
    correction=LazyPattern(
        rf"(?:(?:[Nn]ein|[Ss]orry|[Mm]oment|[Ee]ntschuldigung|[Kk]orrektur|[Ee]igentlich|[Ii]ch "
        rf"meinte|[Ii]ch meine)[,:]? )+"
        rf"(?:es ist |ich meinte |ich meine )?(?:in )?(?P<new>{PLACE}),? nicht (?:in "
        rf")?(?P<old>{PLACE})$"
    ),
    restriction=LazyPattern(
        r"\b(?:nach|vor|wenn|falls|während|bis|am|im|beim|mit|abends|morgens)\b"
    ),
    object_end=LazyPattern(
        r"\s+(?:weil|wenn|aber|denn|da|obwohl|sondern|besonders|vor allem|wie|sehr|total|über "
        r"alles|auch|"
        r"und (?:habe|bin|möchte|will|es|das|ich|kann))\b.*"
    ),
    next_verb=LazyPattern(r"(?!)"),
    bad_object=LazyPattern(
        r"\b(?:du|dich|dir|dein\w*|es|das|dies\w*|ihn|ihm|ihr|sie|er|hier|dort|was|etwas|nichts|"
        r"alles|"
        r"jemand|man|ich|nicht|oder|ist|sind|war|hat|Idee|Ideen|Vorschlag|Vorschläge)\b"
    ),
    article=LazyPattern(r"(?:der|die|das|den|eine?n?) "),
    bad_start=LazyPattern(
        r"(?:der|die|den|dem|eine?[nrms]?|unsere?|seine?|ihre?|alle|viele|manche|jede\w*|in|an|"
        r"auf|für|mit|"
        r"von|zu|mich|uns|und|kein\w*|mehr|so|wie|dass)\b"
    ),
    own_words=((LazyPattern(r"\b(?:meine?[nrms]?|unsere?[nrms]?)\b"), "their"),),
)
