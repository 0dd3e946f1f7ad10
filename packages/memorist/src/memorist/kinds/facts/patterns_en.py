"""English: how people say facts about themselves and about those close to them.

A clause is read in three steps: the subject ("I", "my sister Clara"), the adverbs that say nothing
("currently", "really"), and the rest, which one of the forms below must match from its first word.
Contractions are written out before ("I'm" is "I am"), and times are cut ("since May").
"""

from __future__ import annotations

import re

from memorist.base.lazy_pattern import LazyPattern
from memorist.kinds.facts.form import Language, any_of, form

# --- Words -----------------------------------------------------------------------------------

UNIQUE_RELATIONS = (
    "mother mom mum father dad wife husband partner girlfriend boyfriend fiancée fiancé fiance "
    "grandmother grandma grandfather grandpa mother-in-law father-in-law boss"
)
RELATIONS = (
    "sister brother son daughter baby aunt uncle cousin niece nephew stepmother stepfather "
    "stepson stepdaughter stepbrother stepsister sister-in-law brother-in-law grandson "
    "granddaughter roommate flatmate twin best_friend"
)
LOOSE_RELATIONS = (
    "friend colleague coworker co-worker neighbor neighbour manager supervisor mentor coach "
    "teacher therapist trainer tutor professor doctor dentist landlord"
)
DOG_BREEDS = (
    "retriever labrador lab poodle beagle terrier shepherd husky bulldog dachshund corgi collie "
    "chihuahua pug spaniel"
)
PETS = (
    "dog cat puppy kitten pup parrot rabbit bunny hamster horse pony turtle tortoise snake "
    "lizard gecko budgie canary goldfish tabby siamese bird " + DOG_BREEDS
)
PLURAL_RELATIONS = "parents grandparents kids children sons daughters brothers sisters siblings"
SAME_RELATION = {
    "mom": "mother",
    "mum": "mother",
    "dad": "father",
    "grandma": "grandmother",
    "grandpa": "grandfather",
    "puppy": "dog",
    "pup": "dog",
    "kitten": "cat",
    **dict.fromkeys(DOG_BREEDS.split(), "dog"),
    **dict.fromkeys(("tabby", "siamese"), "cat"),
    "fiance": "fiancé",
    "co-worker": "coworker",
    "color": "colour",
}

JOBS = (
    "accountant actor actress administrator agent analyst animator architect artist assistant "
    "attorney auditor author baker banker barber barista bartender biologist blogger bookkeeper "
    "builder butcher caregiver carpenter cashier chef chemist clerk coach composer consultant "
    "contractor cook copywriter counselor counsellor dancer dentist designer detective developer "
    "dietitian director doctor driver economist editor educator electrician engineer entrepreneur "
    "farmer filmmaker firefighter florist freelancer gardener geologist hairdresser handyman "
    "historian illustrator influencer instructor intern investor janitor jeweler journalist judge "
    "landscaper lawyer lecturer librarian lifeguard machinist manager mathematician mechanic "
    "midwife musician nanny nurse nutritionist officer optician painter paralegal paramedic "
    "pastor pharmacist photographer physician physicist physiotherapist pilot plumber poet "
    "police_officer politician postman principal producer professor programmer psychiatrist "
    "psychologist publisher realtor receptionist recruiter reporter researcher salesman "
    "salesperson scientist screenwriter sculptor secretary seamstress singer social_worker "
    "soldier specialist statistician steward stylist supervisor surgeon tailor teacher technician "
    "technologist "
    "therapist trader trainer translator tutor veterinarian vet videographer waiter waitress "
    "welder writer streamer youtuber"
)
FIELDS = (
    "accounting advertising agriculture aerospace anthropology architecture art automotive "
    "banking biology biotech business chemistry communications computer_science construction "
    "consulting counseling cybersecurity data_science dentistry design ecology economics education "
    "engineering entertainment environmental_science fashion film finance geography geology "
    "healthcare health_care history hospitality hr human_resources insurance it journalism law "
    "linguistics literature logistics manufacturing marketing mathematics math medicine music "
    "nursing pharmacy philosophy physics politics political_science psychology public_health "
    "publishing real_estate research retail robotics sales social_work sociology software "
    "statistics tech technology theater theatre tourism"
)
LANGUAGES = (
    "English German French Spanish Italian Portuguese Dutch Polish Russian Ukrainian Turkish "
    "Arabic Hebrew Persian Farsi Mandarin Cantonese Chinese Japanese Korean Vietnamese Thai Hindi "
    "Urdu Bengali Tamil Swahili Swedish Danish Norwegian Finnish Icelandic Greek Czech Slovak "
    "Hungarian Romanian Bulgarian Croatian Serbian Catalan Welsh Irish Latin Esperanto ASL"
)
NATIONALITIES = (
    "American British English Scottish Welsh Irish German Austrian Swiss French Spanish Italian "
    "Portuguese Dutch Belgian Polish Russian Ukrainian Turkish Greek Swedish Danish Norwegian "
    "Finnish Canadian Mexican Brazilian Argentinian Colombian Chilean Peruvian Australian Indian "
    "Pakistani Chinese Japanese Korean Vietnamese Thai Filipino Indonesian Egyptian Moroccan "
    "Nigerian Kenyan Israeli Iranian Lebanese"
)
INSTRUMENTS = (
    "guitar piano violin viola cello bass drums flute clarinet saxophone trumpet trombone ukulele "
    "harp banjo mandolin accordion keyboard oboe harmonica"
)
SPORTS = (
    "soccer football basketball baseball tennis badminton volleyball golf hockey rugby cricket "
    "chess squash softball pickleball table_tennis"
)
CONDITIONS = (
    "asthma diabetes arthritis epilepsy ADHD ADD autism OCD PTSD depression anxiety insomnia "
    "hypertension high_blood_pressure celiac_disease crohn's_disease migraines hay_fever eczema "
    "psoriasis IBS PCOS endometriosis fibromyalgia hypothyroidism anemia sleep_apnea scoliosis "
    "tinnitus vertigo chronic_pain chronic_sinusitis chronic_migraines dyslexia GERD"
)
TRAITS = (
    "vegetarian vegan pescatarian lactose_intolerant gluten_intolerant dairy_free gluten_free "
    "celiac diabetic asthmatic colorblind colour_blind color_blind left_handed deaf blind dyslexic "
    "autistic bisexual gay transgender nonbinary non_binary"
)
ACTIVITIES = (
    "reading practicing attending teaching writing collecting growing watching playing "
    "studying learning training_for volunteering_at listening_to baking cooking following going_to"
)
MILESTONES = (
    "bought purchased ordered joined adopted signed_up_for enrolled_in finished_reading "
    "finished_watching started_taking "
    "started_learning started_playing started_reading started_practicing started_volunteering_at "
    "graduated_with subscribed_to attended participated_in volunteered_at registered_for "
    "started_using switched_to upgraded_to"
)
POSSESSIONS = (
    "car truck motorcycle motorbike bike bicycle boat house apartment condo cabin garden "
    "greenhouse "
    "camera guitar piano keyboard violin tattoo printer telescope aquarium collection blog podcast "
    "youtube_channel website etsy_shop subscription membership tutor therapist nanny"
)
STATUSES = "married engaged single divorced widowed separated"
NOT_PLACES = (
    "React Angular Vue Python Java JavaScript TypeScript Linux Ubuntu Windows Mac macOS AWS Azure "
    "GCP "
    "Docker Kubernetes Postgres PostgreSQL MySQL MongoDB SQLite Git GitHub GitLab Slack Teams "
    "Notion "
    "Android iOS iPhone Spotify Netflix Chrome Firefox Flask Django Rust Go Node Next"
)
"""What people move to, in technical talk, without living there."""
WORKPLACES = (
    "agency bank bakery bar bookstore café cafe clinic college company firm gym hospital hotel "
    "institute kindergarten lab laboratory library museum nonprofit non-profit office pharmacy "
    "practice restaurant school shelter shop startup start-up store studio supermarket "
    "university warehouse"
)

# --- Parts of patterns -----------------------------------------------------------------------

BE = r"(?:am|is|are)"
MY = r"(?:[Mm]y|[Oo]ur)"
HAVE = r"(?:have|has)"
BEEN = r"(?:have|has) been"
GOT = r"(?:have|has|got|have got|has got|adopted)"
CAPITAL = r"[A-ZÀ-ÖØ-Þ][\w&'.-]*\w|[A-ZÀ-ÖØ-Þ]"
NAME_WORD = r"[A-ZÀ-ÖØ-Þ][a-zß-öø-ÿ][\w-]*"
NAME = rf"(?:Dr\.? |Prof\.? |Professor |Mrs?\.? |Ms\.? )?{NAME_WORD}(?: {NAME_WORD}){{0,2}}"
PLACE = rf"(?:the )?(?:{CAPITAL})(?: (?:of |de |la |upon |del )?(?:{CAPITAL})){{0,3}}"
ORGANISATION = rf"(?:{PLACE}|(?:an?|the) (?:[\w-]+ ){{0,3}}{any_of(WORKPLACES)})"
PRODUCT = rf"(?:{CAPITAL})(?: (?:{CAPITAL}|v?\d[\w.]*)){{0,3}}"
# Up to three words before a job, which may not begin another phrase: "a friend of a nurse".
JOB = (
    r"(?:(?!(?:not|no|of|to|for|with|and|or|who|that|in|at|from|by|an?|the|my|than|like|retired|"
    r"former|aspiring)\b)[\w/'-]+ ){0,3}?" + any_of(JOBS)
)
PERSON = any_of(f"{UNIQUE_RELATIONS} {RELATIONS}")
PET = any_of(PETS)
MODIFIER = (
    r"(?:(?:close|good|academic|older|younger|little|big|elder|twin|new|beautiful|sweet|adorable|"
    r"cute|dear|late|eldest|"
    r"youngest|oldest|first|second|golden|german|border|french|rescue|tabby|black|white|persian|"
    r"(?:\d+|one|two|three|four|five|six|seven|eight|nine|ten)[ -](?:year|month|week)[ -]old) )"
)
MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*\.?"
BIRTHDAY = (
    rf"(?:the )?(?:{MONTH} \d{{1,2}}(?:st|nd|rd|th)?|\d{{1,2}}(?:st|nd|rd|th)? (?:of )?{MONTH})"
    r"(?:,? (?:19|20)\d\d)?"
)
NAMED_SO = "{subject}'s name is {object}."
BORN_IN = "{subject} was born in {object}."
BE_SO = "{subject} is {object}."
AGE = "{subject} is {object} years old."
WORDS = r"[\w'&/%+-]+(?: [\w'&/%+-]+){0,11}"

ANY_RELATION = any_of(f"{UNIQUE_RELATIONS} {RELATIONS} {LOOSE_RELATIONS} {PETS}")
ASSISTANT_VERB = any_of(
    "provide include use format answer respond reply give show explain write keep call address "
    "mention add list remind ask start end cite translate convert make refer send suggest "
    "recommend present structure summarize confirm check break focus highlight offer avoid speak "
    "talk tell begin round label mark put describe specify state clarify"
)

# What may follow an object that has a clear end. Anything else means that the object goes on.
AFTER = (
    r"(?!\w)(?=\s*(?:$|[.!](?:\s|$)|(?:and|but|with|near|because|where|which|who|so|as|for|by|on|"
    r"at|from|in|when I was|"
    r"after|before|now|right|though|while|since|to|this|these|that|too|myself|alone|together|"
    r"currently|again|full-time|part-time|anymore|any more|here|specializing|working|living)\b))"
)
END = r"(?!\w)(?=\s*(?:$|[.!](?:\s|$)|(?:and|but|so|because|too|now|though|as well|myself)\b))"

# --- Forms: what follows "I" or "my sister Clara" -------------------------------------------

VERB_FORMS = (
    # Home.
    form(
        "lives in",
        "home",
        rf"(?:lives?|{BE} (?:living|based|located)|{BEEN} living) in (?P<object>{PLACE}){AFTER}",
        exclusive=True,
    ),
    form(
        "lives in",
        "home",
        rf"{HAVE} lived in (?P<object>{PLACE}){AFTER}",
        kind="lasting",
        exclusive=True,
    ),
    form(
        "lives in",
        "home",
        rf"(?:{HAVE} )?(?:moved|relocated)(?: back| over| here)?(?: from {PLACE})? to "
        rf"(?!{any_of(NOT_PLACES)}\b)(?!.* and (?:then )?to )(?P<object>{PLACE}){AFTER}",
        exclusive=True,
        is_event=True,
    ),
    form("is in", "home", rf"{BE} (?:staying )?in (?P<object>{PLACE}){AFTER}", kind="stay"),
    form("comes from", "identity", rf"{BE} (?:originally )?from (?P<object>{PLACE}){AFTER}"),
    form("comes from", "identity", rf"comes? from (?P<object>{PLACE}){END}"),
    form("grew up in", "identity", rf"(?:grew up|was raised) in (?P<object>{PLACE}){AFTER}"),
    form(
        "birthplace",
        "identity",
        rf"(?:was|were) born in (?P<object>{PLACE}){AFTER}",
        statement=BORN_IN,
    ),
    # Identity.
    form(
        "name",
        "identity",
        rf"{BE} (?P<object>{NAME})$",
        exclusive=True,
        only_me=True,
        is_introduction=True,
        statement=NAMED_SO,
    ),
    form(
        "is called",
        "identity",
        rf"{BE} called (?P<object>{NAME}){END}",
        exclusive=True,
        only_me=True,
    ),
    form("is", "identity", rf"{BE} (?P<object>{any_of(NATIONALITIES)}){END}"),
    form(
        "was born on",
        "identity",
        rf"(?:was|were) born on (?P<object>{BIRTHDAY}){END}",
        exclusive=True,
        keeps_times=True,
    ),
    form(
        "was born in",
        "identity",
        rf"(?:was|were) born in (?P<object>(?:{MONTH} )?(?:19|20)\d\d){END}",
        exclusive=True,
        keeps_times=True,
    ),
    form(
        "age",
        "identity",
        rf"(?:{BE}|turned|{HAVE} turned) (?P<object>\d{{1,3}})(?: years old)?(?! and \d){END}",
        exclusive=True,
        statement=AGE,
    ),
    form(
        "age",
        "identity",
        rf"{BE} an? (?P<object>\d{{1,3}})[ -]year[ -]old\b",
        exclusive=True,
        statement=AGE,
    ),
    form(
        "speaks",
        "identity",
        rf"(?:speaks?(?: fluent| native| some| a little)?|{BE} fluent in) "
        rf"(?P<object>{any_of(LANGUAGES)}"
        rf"(?:(?:, and|,| and) {any_of(LANGUAGES)})*)(?: fluently)?{END}",
    ),
    form(
        "is learning",
        "other",
        rf"(?:{BE}|{BEEN}) (?:learning|studying|practicing)(?: to speak| to play)?(?: the)? "
        rf"(?P<object>{any_of(LANGUAGES)}|{any_of(INSTRUMENTS)}){AFTER}",
    ),
    # Work and study.
    form(
        "works at",
        "work",
        rf"(?:works?|{BE} (?:working|employed)|{BEEN} working)(?: part-time| full-time)? (?:at|"
        rf"for|by) "
        rf"(?P<object>{ORGANISATION}){AFTER}",
        exclusive=True,
    ),
    form(
        "works at",
        "work",
        rf"(?:{HAVE} )?(?:started|got|landed|began)(?: a| my)?(?: new)?"
        rf"(?: job| position| role| working) (?:at|with|for) (?P<object>{ORGANISATION}){AFTER}",
        exclusive=True,
        is_event=True,
    ),
    form(
        "works as",
        "work",
        rf"(?:works?|{BE} working|{BEEN} working)(?: part-time| full-time| freelance)?"
        rf"(?: (?:at|for|in) [\w' -]{{2,40}}?)? as (?P<object>(?:an? |the )?{JOB}){AFTER}",
        exclusive=True,
    ),
    form("works as", "work", rf"(?:{BE}|{BEEN}) (?P<object>(?:an?|the) (?!\d){JOB}){AFTER}"),
    form("works as", "work", rf"{BE} an? \d+[ -]year[ -]old (?P<object>{JOB}){AFTER}"),
    form("is", "work", rf"{BE} (?P<object>an? (?:retired|former|aspiring) {JOB}){AFTER}"),
    form(
        "works as",
        "work",
        rf"(?:was|were|got|{BEEN})(?: recently| just)? promoted to (?P<object>{JOB}){AFTER}",
        exclusive=True,
        is_event=True,
    ),
    form(
        "runs",
        "work",
        rf"runs? (?P<object>(?:an?|my own) (?:[\w-]+ ){{0,2}}(?:{any_of(WORKPLACES)}|"
        rf"business)){AFTER}",
    ),
    form(
        "teaches", "work", rf"teach(?:es)? (?P<object>{any_of(FIELDS)}|{any_of(LANGUAGES)}){AFTER}"
    ),
    form("works as", "work", rf"became (?P<object>an? {JOB}){AFTER}", is_event=True),
    form(
        "works in",
        "work",
        rf"(?:works?|{BE} working|{BEEN} working) in (?:the )?"
        rf"(?P<object>(?:[a-z]+ )?{any_of(FIELDS)})(?: field| industry| sector)?{AFTER}",
    ),
    form(
        "studies",
        "work",
        rf"(?:stud(?:y|ies)|{BE} (?:studying|majoring in)|majors? in|{BEEN} studying) "
        rf"(?P<object>(?:[a-z]+ )?{any_of(FIELDS)}){AFTER}",
    ),
    form("studies at", "work", rf"(?:stud(?:y|ies)|{BE} studying) at (?P<object>{PLACE}){AFTER}"),
    form("graduated from", "work", rf"graduated from (?P<object>{PLACE}){AFTER}", is_event=True),
    form(
        "has a degree in",
        "work",
        rf"(?:{HAVE}|graduated with|got|completed) (?:an?|my) (?:[\w']+ )?(?:degree|bachelor's|"
        rf"master's|PhD)"
        rf"(?: degree)? in (?P<object>(?:[A-Z]?[a-z]+ )?{any_of(FIELDS)}){AFTER}",
    ),
    form("is", "work", rf"{BE} (?P<object>retired|unemployed|self-employed){END}"),
    form("is", "work", rf"{BE} (?P<object>an? (?:[\w-]+ ){{0,3}}?student){AFTER}"),
    # Health and food.
    form(
        "is allergic to",
        "health",
        rf"{BE} (?:\w+ly )?allergic to (?P<object>{WORDS})$",
        is_free=True,
    ),
    form(
        "has",
        "health",
        rf"{HAVE} (?:an? )(?:severe |bad |mild )?(?P<object>[a-z]+(?: [a-z]+)? allergy){AFTER}",
        statement="{subject} has a {object}.",
    ),
    form(
        "is",
        "health",
        rf"(?:{BE}|{BEEN}) (?:an? )?(?:strict |lifelong |committed "
        rf")?(?P<object>{any_of(TRAITS)}){END}",
    ),
    form(
        "has",
        "health",
        rf"(?:{HAVE}|suffers? from|(?:was|were)(?: recently)? diagnosed with|got diagnosed with|"
        rf"{HAVE} been diagnosed with) (?P<object>(?:type [12] |severe |mild |chronic "
        rf")?{any_of(CONDITIONS)}){AFTER}",
        is_event=True,
    ),
    form(
        "does not eat",
        "health",
        rf"(?:(?:(?:do|does) not|can not|never) eat|(?:have |has )?(?:stopped|quit|gave up|given "
        rf"up) eating)(?: any)? (?P<object>{WORDS})$",
        is_free=True,
        is_absolute=True,
    ),
    form(
        "does not drink",
        "health",
        rf"(?:(?:(?:do|does) not|can not|never) drink|(?:have |has )?(?:stopped|quit|gave up|"
        rf"given up) drinking)(?: any)? (?P<object>{WORDS})$",
        is_free=True,
        is_absolute=True,
    ),
    # People and pets.
    form(
        "is married to",
        "people",
        rf"(?:{BE} married|{BEEN} married|got married) to (?P<object>{NAME}){AFTER}",
        exclusive=True,
        is_event=True,
    ),
    form(
        "is engaged to",
        "people",
        rf"(?:{BE} engaged|got engaged) to (?P<object>{NAME}){AFTER}",
        exclusive=True,
        is_event=True,
    ),
    form(
        "is dating", "people", rf"(?:{BE}|{BEEN}) dating (?P<object>{NAME}){AFTER}", exclusive=True
    ),
    form(
        "relationship status",
        "people",
        rf"(?:{BE}|got|{BEEN}) (?:happily |newly )?(?P<object>{any_of(STATUSES)}){END}",
        exclusive=True,
        is_event=True,
        statement=BE_SO,
    ),
    form("is", "people", rf"{BE} (?P<object>pregnant)(?: with twins)?{AFTER}"),
    form(
        "has",
        "people",
        rf"{GOT} (?P<object>(?:an?|one|two|three|four|five|six|\d) {MODIFIER}{{0,2}}"
        rf"(?:{PERSON}|{PET}s?|kids?|child(?:ren)?|sons|daughters|brothers|sisters|siblings|"
        rf"puppies)){AFTER}",
        is_event=True,
    ),
    # Preferences.
    form(
        "likes",
        "preferences",
        rf"(?:loves?|likes?|enjoys?|adores?|{HAVE} always (?:loved|liked|enjoyed)) "
        rf"(?P<object>{WORDS})$",
        is_free=True,
    ),
    form(
        "likes",
        "preferences",
        rf"{BE} (?:an? )?(?:big |huge |massive |die-hard )*(?:fan of|passionate about|fond of) "
        rf"(?P<object>{WORDS})$",
        is_free=True,
    ),
    form(
        "dislikes",
        "preferences",
        rf"(?:hates?|dislikes?|detests?|can not stand|(?:do|does) not like|(?:do|does) not enjoy|"
        rf"{BE} not a (?:big )?fan of) (?P<object>{WORDS})$",
        is_free=True,
    ),
    form("prefers", "preferences", rf"prefers? (?P<object>{WORDS})$", is_free=True, only_me=True),
    form(
        "is",
        "preferences",
        rf"{BE} (?P<object>an? (?:(?:big|huge) )?(?:(?!bit|big|huge)[\w-]+ ){{1,3}}(?:fan|"
        rf"enthusiast|lover|geek|nerd|buff|person)){END}",
    ),
    # What people do and own.
    form(
        "plays",
        "other",
        rf"(?:plays?|{BEEN} playing) (?:the )?(?P<object>{any_of(INSTRUMENTS)}|"
        rf"{any_of(SPORTS)}){AFTER}",
    ),
    form(
        "has been {kind}",
        "other",
        rf"{BEEN} (?P<kind>{any_of(ACTIVITIES)}) (?P<object>{WORDS})$",
        is_free=True,
        allows_article=True,
    ),
    form(
        "is {kind}",
        "other",
        rf"{BE} (?P<kind>training for|teaching|volunteering at|learning(?! to| the)) "
        rf"(?P<object>{WORDS})$",
        is_free=True,
        allows_article=True,
    ),
    form(
        "is taking",
        "other",
        rf"(?:{BE}|{BEEN}) taking (?P<object>(?:[\w'-]+ ){{0,4}}(?:class|classes|course|courses|"
        rf"lessons?|"
        rf"workshop|medication)){AFTER}",
    ),
    # Milestones.
    form(
        "got",
        "other",
        rf"(?:{HAVE} )?got (?P<object>an? (?:brand )?new (?!job|position|role){WORDS})$",
        is_free=True,
        allows_article=True,
        is_event=True,
    ),
    form(
        "{kind}",
        "other",
        rf"(?:{HAVE} )?(?P<kind>{any_of(MILESTONES)}) (?P<object>{WORDS})$",
        is_free=True,
        allows_article=True,
        is_event=True,
    ),
    form("uses", "other", rf"(?:uses?|{BE} using|{BEEN} using) (?P<object>{PRODUCT}){AFTER}"),
    form(
        "visited",
        "other",
        rf"(?:{HAVE} )?(?:visited|travell?ed to|flew to|took a trip to|went on a (?:\w+ )?trip to|"
        rf"been to) "
        rf"(?P<object>{PLACE}){AFTER}",
        is_event=True,
    ),
    form("volunteers at", "other", rf"volunteers? at (?P<object>{ORGANISATION}){AFTER}"),
    form("collects", "other", rf"collects? (?P<object>{WORDS})$", is_free=True),
    form(
        "earns",
        "work",
        rf"(?:earns?|makes?|{BE} (?:earning|making)) (?P<object>(?:about |around |roughly "
        rf")?[$€£][\d,.]+k?"
        rf" (?:annually|a year|per year|a month|per month|an hour|per hour)){AFTER}",
        exclusive=True,
    ),
    form(
        "wakes up at",
        "other",
        rf"(?:wakes?|gets?) up at (?P<object>\d[\d:]* ?(?:[AaPp]\.?[Mm])?){AFTER}",
        exclusive=True,
    ),
    form(
        "has",
        "other",
        rf"{GOT} (?P<object>an? (?:[\w-]+ ){{0,3}}?{any_of(POSSESSIONS)}){AFTER}",
    ),
    form("owns", "other", rf"owns? (?P<object>an? (?:[\w-]+ ){{0,3}}[\w-]+){END}"),
    form("drives", "other", rf"drives? (?P<object>an? (?:[\w-]+ ){{0,3}}[\w-]+){END}"),
    form("smokes", "health", r"smokes?(?P<object>)$"),
    # What is over.
    form(
        "works at",
        "work",
        rf"(?:quit|left|lost|resigned from)(?: my)?(?: old)?(?: job| position| role)? (?:at|with) "
        rf"(?P<object>{ORGANISATION}){AFTER}",
        ends=True,
    ),
    form(
        "works at",
        "work",
        rf"(?:quit|left|lost) (?:my|his|her) job(?P<object>){END}",
        ends=True,
        statement="{subject} no longer has their job.",
    ),
    form(
        "is dating",
        "people",
        rf"broke up with (?P<object>{NAME}){AFTER}",
        ends=True,
    ),
    # Plans, which need a time in the future.
    form(
        "plans to move to",
        "plans",
        rf"(?:{BE}|will be) (?:moving|relocating)(?: back)? to (?P<object>{PLACE}){AFTER}",
        kind="plan",
    ),
    form(
        "plans a trip to",
        "plans",
        rf"{BE} (?:planning|going on|taking) an? (?:[\w-]+ )?trip to (?P<object>{PLACE}){AFTER}",
        kind="plan",
    ),
    form(
        "plans to travel to",
        "plans",
        rf"(?:{BE}|will be) (?:travell?ing|flying|going on (?:a|an?) (?:\w+ )?trip) to "
        rf"(?P<object>{PLACE}){AFTER}",
        kind="plan",
    ),
    form("plans to be in", "plans", rf"will be in (?P<object>{PLACE}){AFTER}", kind="plan"),
    form(
        "plans to visit",
        "plans",
        rf"(?:{BE}|will be) visiting (?P<object>{PLACE}){AFTER}",
        kind="plan",
    ),
    form(
        "plans to start at",
        "plans",
        rf"(?:{BE}|will be) (?:starting|joining)(?: a| my)?(?: new)?(?: job| position| role)?(?: "
        rf"at| with)? "
        rf"(?P<object>{PLACE}){AFTER}",
        kind="plan",
    ),
    form(
        "plans to get",
        "plans",
        rf"(?:{BE}|will be) getting (?P<object>married){AFTER}",
        kind="plan",
    ),
    form(
        "has",
        "plans",
        rf"{HAVE} (?P<object>an? (?:[\w'-]+ ){{0,2}}(?:appointment|interview|exam|flight|surgery|"
        rf"wedding|meeting|call|"
        rf"presentation|recital|marathon|race)(?: with {NAME})?){END}",
        kind="plan",
    ),
)

# --- Forms: what follows "my" or "my sister's" ----------------------------------------------

NOUN_FORMS = (
    form(
        "name",
        "identity",
        rf"(?:full |first )?name is (?P<object>{NAME}){END}",
        kind="noun",
        exclusive=True,
        only_me=True,
    ),
    form(
        "birthday",
        "identity",
        rf"birthday is (?:on )?(?P<object>{BIRTHDAY}){END}",
        kind="noun",
        exclusive=True,
        keeps_times=True,
    ),
    form(
        "favourite {kind}",
        "preferences",
        rf"(?:all-time )?favou?rite (?P<kind>[a-z]+(?: [a-z]+){{0,2}}) (?:is|are)(?: definitely)? "
        rf"(?P<object>{WORDS})$",
        kind="noun",
        exclusive=True,
        is_free=True,
    ),
    form(
        "goal",
        "plans",
        rf"(?:main |long-term |ultimate )?goal is "
        rf"(?!.*\b(?:next|this|today|tomorrow|tonight)\b)(?P<object>to {WORDS})$",
        kind="noun",
        keeps_times=True,
        is_free=True,
        allows_article=True,
    ),
    form(
        "{kind}",
        "other",
        r"(?P<kind>car|bike|phone|laptop|camera|guitar) is (?P<object>an? (?:[\w-]+ ){0,3}[\w-]+)$",
        kind="noun",
        exclusive=True,
    ),
    form(
        "native language",
        "identity",
        rf"(?:native language|mother tongue) is (?P<object>{any_of(LANGUAGES)}){END}",
        kind="noun",
        exclusive=True,
    ),
    form(
        "hometown",
        "identity",
        rf"home ?town is (?P<object>{PLACE}){END}",
        kind="noun",
        exclusive=True,
    ),
)

# --- The reading of a sentence ---------------------------------------------------------------

CONTRACTIONS = (
    (LazyPattern(r"\bi\b(?=[ '])"), "I"),
    (LazyPattern(r"\b[Ii]m\b"), "I am"),
    (LazyPattern(r"'m\b"), " am"),
    (LazyPattern(r"'ve\b"), " have"),
    (LazyPattern(r"'d\b"), " would"),
    (LazyPattern(r"'ll\b"), " will"),
    (LazyPattern(r"'re\b"), " are"),
    (LazyPattern(r"can(?:'t|not)\b"), "can not"),
    (LazyPattern(r"won't\b"), "will not"),
    (LazyPattern(r"n't\b"), " not"),
    (LazyPattern(r"gonna\b"), "going to"),
    (LazyPattern(r"\b([Ii]t|[Tt]hat|[Ww]ho|[Hh]e|[Ss]he|[Nn]ame|[Bb]irthday)'s\b"), r"\1 is"),
)

SPLIT = LazyPattern(
    # Every match starts with one of these characters; the lookahead skips all other positions.
    r"(?=[\s,;:()—])(?:"
    # A mark, with conjunctions after it; or a conjunction or "mention that" before a new subject.
    r"\s*(?:[,;:](?!\S)|[()]|\s[-–—]+\s|—)\s*(?:(?:and|but|so|plus|or)\s+)*"
    r"|\s+(?:and|but|so|because|since|as|while|though|although|plus|given that|now that|"
    r"mention|mention that|mentioned|mentioned that|admit|admit that|tell you|tell you that|"
    r"let you know|let you know that)\s+"
    r"(?=(?:(?:also|now|then|currently|actually)\s)?(?:I|[Mm]y|[Ww]e|[Oo]ur)\b)"
    # The same subject goes on: "and work as a nurse".
    r"|\s+(?:and|but)\s+(?=(?:(?:also|now|currently|really)\s)?"
    r"(?:work|live|speak|play|have|am|love|enjoy|hate|prefer|study|moved|got|own|drive|an?|works|"
    r"lives|speaks|plays|has|is|loves|enjoys|hates|studies|owns|drives)\b)"
    r"|(?<!\bam)(?<!\bis)(?<!\bare)(?<!been)(?<!now)(?<!ly)\s+(?=(?:living|based) in\b))"
)
LEAD = LazyPattern(
    r"(?:(?:oh|well|yes|yeah|yep|hi|hey|hello|ok|okay|so|and|but|also|actually|btw|by the way|fyi|"
    r"anyway|honestly|personally|unfortunately|luckily|sadly|plus|now|right now|currently|"
    r"these days|in fact|for context|just so you know|as you know|you know|for your information|"
    r"because|since|as|given that|considering|now that|even though|although|while|haha|wow|"
    r"thanks|sorry|except|please note that|note that|remember that|like I said|as I said|man|"
    r"to be honest|tbh|no|nope|update|correction|ps)\b[,:]?\s+){0,4}",
    re.IGNORECASE,
)
SUBJECT = LazyPattern(
    rf"(?:(?P<me>I|[Ww]e)"
    rf"|{MY} (?:{MODIFIER}){{0,2}}(?P<relation>{ANY_RELATION})(?: (?P<name>{NAME_WORD}))?"
    rf"|{MY} (?P<plural>{any_of(PLURAL_RELATIONS)})"
    rf"|(?P<my>[Mm]y|[Oo]ur))(?P<possessive>'s)?\s+"
)
ADVERBS = LazyPattern(
    r"(?:(?:currently|now|just|recently|finally|really|truly|absolutely|totally|also|still|already|"
    r"actually|both|always|generally|mostly|definitely|especially|particularly|personally|"
    r"originally|officially|honestly|kinda|simply|do(?! not)|even|happily|"
    r"actually|quite|much|have also|have recently|have just)\s+)+"
)
ALIVE = (
    rf"(?!(?: {NAME_WORD})*,? (?:(?:just|recently|sadly|has|had) ){{0,2}}(?:died|passed away)\b)"
)
NAMED = (
    # My sister Clara …; my cat, Whiskers, …; my daughter named Emma
    LazyPattern(
        rf"\b{MY} (?:{MODIFIER}){{0,2}}(?P<relation>{ANY_RELATION})"
        rf"(?: named| called)? (?P<name>{NAME})(?='s\b|\b){ALIVE}"
    ),
    LazyPattern(
        rf"\b{MY} (?:{MODIFIER}){{0,2}}(?P<relation>{ANY_RELATION}), (?P<name>{NAME})"
        rf"(?=,|[.!?;)]|$| (?:who|is|has|was)\b){ALIVE}"
    ),
    LazyPattern(
        rf"\b{MY} (?:{MODIFIER}){{0,2}}(?P<relation>{ANY_RELATION})"
        rf"(?:'s name is| is called| is named) (?P<name>{NAME})"
    ),
)
OWNED_NAME = LazyPattern(
    rf"{GOT} (?:an?|one) (?:[\w-]+ ){{0,3}}?(?P<relation>{PERSON}|{PET}),?"
    rf" (?:named|called|whose name is|and (?:his|her|its) name is) (?P<name>{NAME})"
)
IS_RELATION = LazyPattern(
    rf"(?P<name>{NAME}) is my (?:{MODIFIER}){{0,2}}(?P<relation>{ANY_RELATION}){END}"
)
ENGLISH = Language(
    greeting=LazyPattern(
        r"\s*(?:hi|hello|hey|greetings|good (?:morning|afternoon|evening|day))\b", re.IGNORECASE
    ),
    hint=LazyPattern(
        r"\b(?:I|[Mm]y|[Ww]e|i|[Oo]ur|[Rr]emember|[Aa]lways|[Nn]ever|[Ff]rom now on|[Gg]oing "
        r"forward|"
        r"[Ii]n the future|[Nn]ote|[Kk]eep in mind|[Dd]o not forget|[Ss]orry|[Cc]orrection|"
        r"[Aa]ctually|[Cc]alls? me)\b"
    ),
    spellings=CONTRACTIONS,
    split=SPLIT,
    lead=LEAD,
    subject=SUBJECT,
    i="I",
    i_am="I am",
    inverted=None,
    verb_last=None,
    adverbs=ADVERBS,
    implied_subject=LazyPattern(
        r"(?:(?:also|now|currently|really)\s+)?"
        r"(?:work|live|speak|play|have|am|love|enjoy|hate|prefer|study|moved|got|own|drive|"
        r"works|lives|speaks|plays|has|is|loves|enjoys|hates|studies|owns|drives)\b"
    ),
    implied_be=LazyPattern(r"(?:living in|based in|working at|working as|an?)\b"),
    as_role=LazyPattern(r"[Aa]s (?=an? )"),
    relative=LazyPattern(r"who (?=(?:is|has|lives|works|loves|just|was|enjoys|plays|recently)\b)"),
    new_clause=LazyPattern(
        r"(?:I|[Mm]y|[Ww]e|[Oo]ur|it|they|he|she|this|that|there|these|those|which|who|where|so|"
        r"but|"
        r"because|can|could|do|does|how|what|especially|particularly|like|such as|even|if|since|as|"
        r"though|although|while|not|too|you|is|are|would|should|any|maybe|thanks|then|whether|when|"
        r"'cause|cause|actually|by the way|plus|and|right)\b",
        re.IGNORECASE,
    ),
    open_question=LazyPattern(
        r"(?:can|could|would|will|do|does|did|is|are|was|what|how|which|where|who|when|why|any|"
        r"should|have|has|may|might|shall|I was wondering|any idea)\b",
        re.IGNORECASE,
    ),
    imagined=LazyPattern(
        r"\b(?:if|whether|imagine|imagining|suppose|supposing|pretend|pretending|assume|assuming|"
        r"unless|wish|wishes|dreamed|dreamt|dream that|says|said|told me|tells me|asked me|claims|"
        r"claimed|wrote|writes|texted|quote|lyrics|hypothetically|hypothetical|scenario|let us say|"
        r"in (?:my|this|that|the|a|our) (?:new |latest )?(?:novel|story|book|game|movie|film|"
        r"dream|song|poem|"
        r"play|campaign|script)|let's say|say that|what if|as though|character|example|e\.g\.|"
        r"thinks|thought|believes)\b",
    ),
    doubted=LazyPattern(
        r"\b(?:if|would|could|might|maybe|perhaps|probably|possibly|should|wish|unless|whether|"
        r"almost|nearly|supposedly|apparently|allegedly|kidding|joking|not sure|or something|"
        r"i think|i guess|i suppose|or so)\b",
    ),
    fiction=LazyPattern(
        r"\b(?:language model|as an ai|ai assistant|just kidding|kidding!|only joking|just joking|"
        r"jk|role-?play(?:ing)?|pretend (?:to "
        r"be|you|"
        r"that|i)|act as|imagine (?:that|you|i)|you are now|in character|fictional|my character|"
        r"as if i|yeah,? right|in an alternate|write (?:me )?(?:a|an|the) (?:short )?(?:story|"
        r"poem|song|"
        r"monologue|dialogue|scene|script|rap|joke)|hypothetical(?:ly)?)\b|(?<!\S)/s(?!\S)|\bjk\b",
    ),
    ended=(
        (LazyPattern(r"^(?:have )?(?:stopped|quit|gave up|given up) smoking\b"), "smoke"),
        (LazyPattern(r"^(am|is|are) no longer "), r"\1 "),
        (LazyPattern(r"^no longer "), ""),
        (LazyPattern(r"^used to be "), "am "),
        (LazyPattern(r"^used to "), ""),
        (LazyPattern(r"^(am|is|are) not (.*?) any ?more$"), r"\1 \2"),
        (LazyPattern(r"^(?:do|does) not (.*?) any ?more$"), r"\1"),
        (
            LazyPattern(r"^(?:have )?(?:stopped|quit|gave up|given up) (work|play|study)ing\b"),
            r"\1",
        ),
    ),
    verb_forms=VERB_FORMS,
    noun_forms=NOUN_FORMS,
    named=NAMED,
    owned_name=OWNED_NAME,
    is_relation=IS_RELATION,
    call_me=LazyPattern(
        rf"(?:(?:[Pp]lease|[Jj]ust|[Yy]ou can|[Ee]veryone|everybody|people|my friends) "
        rf")*[Cc]alls? me (?P<name>{NAME}){END}"
    ),
    is_favourite=LazyPattern(
        r"(?P<object>[A-Z][\w'-]*(?: [\w'-]+){0,3}) (?:is|are) my (?:all-time )?favou?rite "
        r"(?P<kind>[a-z]+(?: [a-z]+)?)$"
    ),
    english=SAME_RELATION,
    remember=LazyPattern(
        r"(?:please |also |just |and |so )*(?:remember|keep in mind|do not forget|note|make a note)"
        r"(?: that|:) (?P<object>(?:I|my|we|our|the) .*)",
        re.IGNORECASE,
    ),
    instruction=LazyPattern(
        r"(?:please |also |and |so |ok |okay )*(?P<object>(?:from now on|going forward|in the "
        r"future),? "
        rf"(?:please )?(?:always |never |do not |only |just )?{ASSISTANT_VERB}\b(?! up\b).*"
        rf"|(?:please )?(?:always|never) {ASSISTANT_VERB}\b(?! up\b).*)",
        re.IGNORECASE,
    ),
    correction=LazyPattern(
        rf"(?:(?i:no|sorry|oops|wait|actually|correction|I mean|I meant)[,:]? )+(?:it is |I meant "
        rf"|I mean )?"
        rf"(?:in )?(?P<new>{PLACE}),? not (?:in )?(?P<old>{PLACE})$"
    ),
    restriction=LazyPattern(
        r"\b(?:after|before|when|whenever|if|while|unless|until|on|at|in|with|during|every|"
        r"enough)\b"
    ),
    object_end=LazyPattern(
        r"\s+(?:for (?:a while|years|ages|a long time|a decade)|because|when|whenever|since|so|"
        r"but|which|who|as|if|while|after|before|although|though|"
        r"especially|particularly|like(?! (?:this|that|these|those|it|you)\b)|such as|too|anymore|"
        r"any more|lately|these days|right now|now|together|recently|already|"
        r"a lot|very much|so much|more than anything|as well|myself|at the moment|to help|where|"
        r"(?:and|or) (?:am|have|want|need|was|would|will|can|think|try|tend|find|hope|do|did|love|"
        r"like|usually|"
        r"always|often|also|really|just|it|how|what|feel|get|got|found|plan|he|she|they|that|the|"
        r"then|even|so|see|know|hate|enjoy|prefer|been|going|looking|making|been))\b.*"
    ),
    next_verb=LazyPattern(r" and (?!(?:an?|some|the|my|our|two|three)\b|[A-Z\d]).*"),
    bad_object=LazyPattern(
        r"\b(?:you|your|yours|it|its|this|that|these|those|them|they|him|her|he|she|I|here|there|"
        r"what|"
        r"how|why|one|ones|something|anything|everything|nothing|someone|anyone|everyone|thing|"
        r"things|stuff|mix|idea|ideas|way|ways|suggestion|suggestions|option|options|not|or|is|are|"
        r"was|were|has|had|would|will|can|could|also|think|both|either|too|much|first|second|"
        r"catch|lot|few|couple|bunch|then|part|next|same|who|last|alone|life)\b"
    ),
    article=LazyPattern(r"(?:the|an?(?! (?:bit|lot|few|couple)\b)) "),
    bad_start=LazyPattern(
        r"(?:the|an?(?! good\b)|to (?:think|see|hear|say|know|believe|be|get|hear|keep|make|have)|"
        r"all|"
        r"our|his|their|some|most|many|every|each|another|any|such|seeing|hearing|knowing|having|"
        r"getting|being|in|on|at|for|with|of|from|by|about|me|us|and|no|more|less|so|when|"
        r"[a-z]+ly$|real hard|around|looking|thinking|talking|sharing|working on|using|making "
        r"sure|going)\b"
    ),
    own_words=(
        (LazyPattern(r"\b(?:my|our)\b"), "their"),
        (LazyPattern(r"\b(?:me|us)\b"), "them"),
    ),
)
