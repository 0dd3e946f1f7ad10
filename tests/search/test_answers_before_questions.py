"""A statement that answers ranks above an earlier message that asks the same question."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from memorist import Memory
from memorist.base.settings import Settings

# What was asked before, the statement that answers it, and the search.
ENGLISH = [
    (
        "Where does my sister live?",
        "My sister moved to Lisbon in May.",
        "where does my sister live",
    ),
    ("What is my dog called?", "Our dog is called Biscuit.", "what is the name of my dog"),
    (
        "When is my dentist appointment?",
        "The dentist is on Tuesday at nine.",
        "when is my dentist appointment",
    ),
    ("Do you know my shoe size?", "I take a size 43 in shoes.", "what is my shoe size"),
    (
        "What is my favourite colour?",
        "I have always liked dark green best.",
        "what is my favourite colour",
    ),
    ("Who is my doctor?", "Doctor Meyer has been looking after me for years.", "who is my doctor"),
    ("Which wine did we drink?", "We drank a Douro red at dinner.", "which wine did we drink"),
    ("What am I allergic to?", "I must not eat peanuts, I am allergic.", "what am I allergic to"),
    (
        "Where did I park the car?",
        "The car is parked behind the station.",
        "where did I park the car",
    ),
    (
        "What is the wifi password?",
        "The wifi password is bluewhale77.",
        "what is the wifi password",
    ),
    (
        "Which train do I take to work?",
        "I take the 7:42 to work every day.",
        "which train do I take to work",
    ),
    (
        "How many children does Tom have?",
        "Tom has three children now.",
        "how many children does Tom have",
    ),
    (
        "What does my brother do for a living?",
        "My brother works as a carpenter.",
        "what is my brother's job",
    ),
    ("When did we move here?", "We moved here in the spring of 2019.", "when did we move here"),
    (
        "What was the name of that restaurant?",
        "The restaurant was called Casa Verde.",
        "what was the restaurant called",
    ),
    (
        "What did I order last time?",
        "Last time I ordered the mushroom risotto.",
        "what did I order last time",
    ),
    (
        "Which book am I reading?",
        "I am reading The Magic Mountain at the moment.",
        "which book am I reading",
    ),
    ("How old is my daughter?", "My daughter turned eleven last week.", "how old is my daughter"),
    ("Which city was I born in?", "I was born in Gdansk.", "where was I born"),
    (
        "What instrument does Ines play?",
        "Ines plays the cello in an orchestra.",
        "what instrument does Ines play",
    ),
    ("Who won the match?", "The home team won the match two to one.", "who won the match"),
    (
        "What is the budget of the project?",
        "The project has a budget of 40,000 euros.",
        "what is the project's budget",
    ),
    ("When does the museum close?", "The museum closes at six.", "when does the museum close"),
    (
        "Which language am I learning?",
        "I have started to learn Portuguese.",
        "which language am I learning",
    ),
    (
        "How do I like my coffee?",
        "I drink my coffee black, without sugar.",
        "how do I like my coffee",
    ),
]
GERMAN = [
    (
        "Wo wohnt meine Schwester?",
        "Meine Schwester ist im Mai nach Lissabon gezogen.",
        "wo wohnt meine Schwester",
    ),
    ("Wie heißt mein Hund?", "Unser Hund heißt Keks.", "wie heißt mein Hund"),
    (
        "Wann ist mein Zahnarzttermin?",
        "Der Zahnarzttermin ist am Dienstag um neun.",
        "wann ist mein Zahnarzttermin",
    ),
    ("Welche Schuhgröße habe ich?", "Ich habe Schuhgröße 43.", "welche Schuhgröße habe ich"),
    (
        "Was ist meine Lieblingsfarbe?",
        "Meine Lieblingsfarbe ist Dunkelgrün.",
        "was ist meine Lieblingsfarbe",
    ),
    ("Wer ist mein Arzt?", "Mein Arzt ist seit Jahren Doktor Meyer.", "wer ist mein Arzt"),
    (
        "Welchen Wein haben wir getrunken?",
        "Wir haben einen Rotwein aus dem Douro getrunken.",
        "welchen Wein haben wir getrunken",
    ),
    (
        "Wogegen bin ich allergisch?",
        "Ich bin gegen Erdnüsse allergisch.",
        "wogegen bin ich allergisch",
    ),
    ("Wo steht das Auto?", "Das Auto steht hinter dem Bahnhof.", "wo steht das Auto"),
    (
        "Wie lautet das WLAN-Passwort?",
        "Das WLAN-Passwort lautet blauwal77.",
        "wie lautet das WLAN-Passwort",
    ),
    (
        "Mit welchem Zug fahre ich zur Arbeit?",
        "Ich fahre jeden Tag mit dem Zug um 7:42 zur Arbeit.",
        "mit welchem Zug fahre ich zur Arbeit",
    ),
    ("Wie viele Kinder hat Tom?", "Tom hat jetzt drei Kinder.", "wie viele Kinder hat Tom"),
    (
        "Was macht mein Bruder beruflich?",
        "Mein Bruder arbeitet als Tischler.",
        "was macht mein Bruder beruflich",
    ),
    (
        "Wann sind wir hierher gezogen?",
        "Wir sind im Frühling 2019 hierher gezogen.",
        "wann sind wir hierher gezogen",
    ),
    ("Wie hieß das Restaurant?", "Das Restaurant hieß Casa Verde.", "wie hieß das Restaurant"),
    (
        "Was habe ich letztes Mal bestellt?",
        "Letztes Mal habe ich Pilzrisotto bestellt.",
        "was habe ich letztes Mal bestellt",
    ),
    ("Welches Buch lese ich?", "Ich lese gerade den Zauberberg.", "welches Buch lese ich gerade"),
    (
        "Wie alt ist meine Tochter?",
        "Meine Tochter ist letzte Woche elf geworden.",
        "wie alt ist meine Tochter",
    ),
    (
        "In welcher Stadt bin ich geboren?",
        "Geboren bin ich in Danzig.",
        "in welcher Stadt bin ich geboren",
    ),
    (
        "Welches Instrument spielt Ines?",
        "Ines spielt Cello in einem Orchester.",
        "welches Instrument spielt Ines",
    ),
    (
        "Wer hat das Spiel gewonnen?",
        "Das Spiel hat die Heimmannschaft gewonnen.",
        "wer hat das Spiel gewonnen",
    ),
    (
        "Wie hoch ist das Budget des Projekts?",
        "Das Projekt hat ein Budget von 40.000 Euro.",
        "wie hoch ist das Budget des Projekts",
    ),
    ("Wann schließt das Museum?", "Das Museum schließt um sechs.", "wann schließt das Museum"),
    (
        "Welche Sprache lerne ich?",
        "Ich habe angefangen, Portugiesisch zu lernen.",
        "welche Sprache lerne ich",
    ),
    (
        "Wie trinke ich meinen Kaffee?",
        "Ich trinke meinen Kaffee schwarz, ohne Zucker.",
        "wie trinke ich meinen Kaffee",
    ),
]
OTHER_MESSAGES = {
    "en": ("I do not know that yet.", "Noted."),
    "de": ("Das weiß ich noch nicht.", "Notiert."),
}
MIN_FIRST = 49


def searches_without_the_statement_first(folder: Path, settings: Settings) -> list[str]:
    """Return the searches whose first hit is not the statement."""
    wrong: list[str] = []
    with Memory.open(f"sqlite:///{folder}/a.db", settings=settings) as memory:
        for language, pairs in (("en", ENGLISH), ("de", GERMAN)):
            unknown, noted = OTHER_MESSAGES[language]
            for number, (question, fact, _) in enumerate(pairs):
                me = memory.scope(user=f"{language}{number}", agent="scout")
                session = me.sessions.add(f"{language}{number}").id
                me.messages.append(session, "user", question)
                me.messages.append(session, "assistant", unknown)
                me.messages.append(session, "user", fact)
                me.messages.append(session, "assistant", noted)
        memory.run_jobs()
        for language, pairs in (("en", ENGLISH), ("de", GERMAN)):
            for number, (_, _, search) in enumerate(pairs):
                hits = memory.scope(user=f"{language}{number}").search(search, kinds=["messages"])
                if hits[0].seq != 3:
                    wrong.append(f"{search}: {hits[0].text}")
    return wrong


@pytest.mark.parametrize("embedder", ["none", "static"])
def test_the_statement_is_found_first_without_the_encoder(
    tmp_path: Path, embedder: Literal["none", "static"]
) -> None:
    wrong = searches_without_the_statement_first(tmp_path, Settings(embedder=embedder))
    assert len(wrong) <= len(ENGLISH) + len(GERMAN) - MIN_FIRST, wrong


@pytest.mark.usefixtures("installed_encoder")
def test_the_encoder_finds_the_statement_first(tmp_path: Path) -> None:
    wrong = searches_without_the_statement_first(tmp_path, Settings(embedder="encoder"))
    assert len(wrong) <= len(ENGLISH) + len(GERMAN) - MIN_FIRST, wrong
