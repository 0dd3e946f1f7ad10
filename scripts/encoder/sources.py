"""Readers of the public data sets: each yields conversations with questions and their evidence.

`DATA` is a folder with checkouts of these repositories (files over 4 MB may be missing):

| folder  | repository                  | licence      | files                              |
|---------|-----------------------------|--------------|------------------------------------|
| BEAM    | mohammadtavakoli78/BEAM     | CC BY-SA 4.0 | chats/{500K,1M,10M}                |
| canard  | aagohary/canard             | CC BY-SA 4.0 | data/release/dev.json              |
| Molweni | HIT-SCIR/Molweni            | Apache-2.0   | MRC(withDiscourse)/test.json       |
| QMSum   | Yale-LILY/QMSum             | MIT          | data/ALL                           |
| xquad   | google-deepmind/xquad       | CC BY-SA 4.0 | xquad.en.json, xquad.de.json       |

Chats that are reserved for evaluation are left out: every third of BEAM's 500K chats, and all 100K
chats outside the development file.
"""

from __future__ import annotations

import gzip
import json
import math
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from encoder.conversations import Conversation, Question, Turn, normalized_words
from encoder.dialogues import slot_values

SEED = 15
MAX_BULLETS_PER_CHAT = 120
MAX_PLANS_PER_PERSON = 3  # of the 10M chats, which have ten each
MAX_EVIDENCE = 12  # questions with more evidence ask for a summary
MIN_BULLET_OVERLAP = 0.45
MATCHED_LETTERS = 1_500  # of a message; the rest is mostly code
PLAN_MARK = re.compile(r"\s*->->.*$", re.DOTALL)
BATCH = re.compile(r"^\W*BATCH\s+(\d+)\s+PLAN", re.MULTILINE)
BULLET = re.compile(r"^[-\s]*•\s*\*\*([^*]+)\*\*\s*(.+)$", re.MULTILINE)
STOP_WORDS = frozenset(
    [
        "a",
        "an",
        "the",
        "and",
        "or",
        "but",
        "of",
        "at",
        "by",
        "for",
        "with",
        "about",
        "to",
        "from",
        "in",
        "out",
        "on",
        "is",
        "are",
        "was",
        "were",
        "be",
        "been",
        "have",
        "has",
        "had",
        "do",
        "does",
        "did",
        "i",
        "me",
        "my",
        "we",
        "our",
        "you",
        "your",
        "he",
        "his",
        "she",
        "her",
        "it",
        "its",
        "they",
        "them",
        "their",
        "what",
        "which",
        "who",
        "this",
        "that",
        "these",
        "those",
        "am",
        "as",
        "when",
        "where",
        "why",
        "how",
        "would",
        "could",
        "will",
        "can",
        "not",
        "no",
        "so",
        "than",
        "too",
        "very",
        "s",
        "t",
        "m",
        "ve",
        "re",
        "ll",
        "d",
        "im",
        "ive",
        "after",
        "before",
        "during",
        "while",
        "into",
        "using",
        "use",
        "used",
        "over",
        "under",
    ]
)
BULLET_QUESTIONS = (
    "What did I say about {words}?",
    "What did I mention regarding {words}?",
    "Do you remember {words}?",
    "What was it with {words}?",
    "Which details did I give on {words}?",
    "What were my plans for {words}?",
    "When was the matter of {words}?",
    "How did I describe {words}?",
    "Tell me about {words}.",
    "What do you know about my {label}, {words}?",
)
THIRD_PERSON = (
    (r"\bI'm\b", "NAME is"),
    (r"\bI've\b", "NAME has"),
    (r"\bI'd\b", "NAME would"),
    (r"\bam I\b", "is NAME"),
    (r"\bI am\b", "NAME is"),
    (r"\bdo I\b", "does NAME"),
    (r"\bhave I\b", "has NAME"),
    (r"\bI have\b", "NAME has"),
    (r"\bwere my\b", "were NAME's"),
    (r"\bmy\b", "NAME's"),
    (r"\bMy\b", "NAME's"),
    (r"\bmine\b", "NAME's"),
    (r"\bme\b", "NAME"),
    (r"\bmyself\b", "NAME"),
    (r"\bI\b", "NAME"),
)


def in_third_person(question: str, name: str) -> str:
    """Rewrite a user's question about themselves as one about a named person."""
    for pattern, replacement in THIRD_PERSON:
        question = re.sub(pattern, replacement.replace("NAME", name), question)
    return question


def person_names() -> list[str]:
    """Return the first names of people."""
    return [english for key in ("woman", "man") for english, _ in slot_values()[key]]


def read_sources(data: Path) -> list[Conversation]:
    """Read every data set in the folder."""
    readers = {
        "BEAM": read_beam,
        "canard": read_canard,
        "Molweni": read_molweni,
        "QMSum": read_qmsum,
        "xquad": read_xquad,
    }
    return [
        conversation
        for folder, reader in readers.items()
        if (data / folder).is_dir()
        for conversation in reader(data / folder)
    ]


# BEAM


def read_beam(folder: Path) -> Iterator[Conversation]:
    """Read BEAM: chats with probing questions, and questions made from the plan of each chat."""
    chats = sorted(folder.glob("chats/*/*"))
    for person in sorted(folder.glob("chats/10M/*")):
        plans = sorted(person.glob("plan-*"), key=lambda plan: not (plan / "chat.json").is_file())
        chats += plans[:MAX_PLANS_PER_PERSON]
    for chat in chats:
        size, number = chat.relative_to(folder / "chats").parts[:2]
        if size == "100K" or (size == "500K" and int(number) % 3 == 0):
            continue
        conversation = _beam_chat(chat, "/".join(chat.relative_to(folder / "chats").parts))
        if conversation and conversation.questions:
            yield conversation


def _beam_chat(chat: Path, name: str) -> Conversation | None:
    conversation = Conversation(f"beam/{name}", "beam-plan", named=False)
    plan = chat / "plan_new.txt"
    if not plan.is_file():
        return None
    turn_indexes: dict[int, int] = {}  # by message id
    if (chat / "chat.json").is_file():
        batches = _read_json(chat / "chat.json")
        for batch in batches:
            for message in (message for exchange in batch["turns"] for message in exchange):
                turn_indexes[message["id"]] = len(conversation.turns)
                text = PLAN_MARK.sub("", message["content"])
                turn = Turn(message["role"], text, int(batch["batch_number"]))
                conversation.turns.append(turn)
    elif (chat / "user_messages.json").is_file():
        for batch in _read_json(chat / "user_messages.json"):
            for message in batch["messages"]:
                text = PLAN_MARK.sub("", message["content"])
                conversation.turns.append(Turn("user", text, int(batch["batch"])))
    probing = chat / "probing_questions" / "probing_questions.json"
    if turn_indexes and probing.is_file():
        conversation.questions += _probing_questions(_read_json(probing), turn_indexes)
    conversation.questions += _bullet_questions(
        plan.read_text(encoding="utf-8"), conversation.turns, name
    )
    return conversation


def _probing_questions(table: dict[str, Any], turn_indexes: dict[int, int]) -> Iterator[Question]:
    for kind, questions in table.items():
        if kind in {"abstention", "summarization"}:
            continue
        for question in questions:
            ids = sorted(set(_numbers(question.get("source_chat_ids", []))))
            evidence = tuple(turn_indexes[number] for number in ids if number in turn_indexes)
            if evidence and len(evidence) == len(ids) <= MAX_EVIDENCE:
                yield Question(question["question"], evidence, kind="probing")


def _numbers(value: Any) -> Iterator[int]:
    if isinstance(value, int):
        yield value
    elif isinstance(value, dict):
        yield from _numbers(list(value.values()))
    elif isinstance(value, list):
        for item in value:
            yield from _numbers(item)


def _bullet_questions(plan: str, turns: list[Turn], name: str) -> list[Question]:
    """Make a vague question from each bullet of the plan; the message written from it is evidence."""
    rng = random.Random(f"{SEED}/{name}")
    words = [
        set(normalized_words(turn.text[:MATCHED_LETTERS])) if turn.speaker == "user" else set()
        for turn in turns
    ]
    frequency = Counter(word for own in words for word in own)
    by_batch: defaultdict[int, list[int]] = defaultdict(list)
    for turn_index, turn in enumerate(turns):
        if turn.speaker == "user":
            by_batch[turn.session].append(turn_index)

    def weight(word: str) -> float:
        return math.log(1 + len(turns) / (1 + frequency[word]))

    parts = BATCH.split(plan)
    bullets = [
        (int(batch), label, bullet)
        for batch, text in zip(parts[1::2], parts[2::2], strict=True)
        for label, bullet in BULLET.findall(text)
    ]
    rng.shuffle(bullets)
    questions: list[Question] = []
    for batch, label, bullet in bullets[: 2 * MAX_BULLETS_PER_CHAT]:
        terms = set(normalized_words(bullet)) - STOP_WORDS
        total = sum(weight(term) for term in terms)
        scores = [
            (sum(weight(term) for term in terms & words[turn_index]) / total, -turn_index)
            for turn_index in by_batch[batch]
            if total
        ]
        if not scores or len(terms) < 4:
            continue
        best, turn_index = max(scores)
        if best >= MIN_BULLET_OVERLAP:
            questions.append(Question(_vague_question(label, bullet, rng), (-turn_index,)))
    return questions[:MAX_BULLETS_PER_CHAT]


def _vague_question(label: str, bullet: str, rng: random.Random) -> str:
    """Return a question with some of the words of a bullet, without its numbers."""
    words = re.findall(r"[^\W\d_][\w'’.-]*", re.sub(r"\S*\d\S*", " ", bullet))
    content = [word for word in words if word.lower() not in STOP_WORDS]
    if rng.random() < 0.5 and len(words) > 7:
        start = rng.randrange(max(1, len(words) - 7))
        chosen = words[start : start + rng.randint(4, 8)]
    else:
        count = min(len(content), rng.randint(2, 5))
        word_indexes = sorted(rng.sample(range(len(content)), count))
        chosen = [content[index] for index in word_indexes]
    topic = label.strip(" :").split(":")[-1].strip().lower()
    template = rng.choice(BULLET_QUESTIONS)
    return template.format(words=" ".join(chosen), label=topic)


# Data sets of other kinds of dialogue


def read_canard(folder: Path) -> Iterator[Conversation]:
    """Read CANARD: follow-up questions, rewritten so that they can be understood alone."""
    dialogues: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in _read_json(folder / "data" / "release" / "dev.json"):
        dialogues[row["QuAC_dialog_id"]].append(row)
    for number, group in enumerate(_grouped(sorted(dialogues.items()), 20)):
        conversation = Conversation(f"canard/{number}", "canard")
        rng = random.Random(f"{SEED}/{conversation.name}")
        for session, (_, rows) in enumerate(group):
            rows.sort(key=lambda row: row["Question_no"])
            history = rows[-1]["History"]
            first, second = rng.sample(person_names(), 2)
            start = len(conversation.turns)
            for turn_index, text in enumerate(history[2:]):
                speaker = first if turn_index % 2 == 0 else second
                conversation.turns.append(Turn(speaker, text, session))
            for row in rows:
                asked = 2 * (row["Question_no"] - 1)
                answer = asked + 1
                if answer < len(history) - 2 and not history[answer + 2].startswith("I don't know"):
                    question = Question(row["Rewrite"], (start + answer,), (start + asked,))
                    conversation.questions.append(question)
        yield conversation


def read_molweni(folder: Path) -> Iterator[Conversation]:
    """Read Molweni: chats of many people about Ubuntu."""
    file = folder / "MRC(withDiscourse)" / "test.json"
    dialogues = _read_json(file)["data"]["dialogues"]
    for number, group in enumerate(_grouped(dialogues, 15)):
        conversation = Conversation(f"molweni/{number}", "molweni")
        for session, dialogue in enumerate(group):
            start = len(conversation.turns)
            ends: list[int] = []
            position = 0
            for unit in dialogue["edus"]:
                conversation.turns.append(Turn(unit["speaker"], unit["text"], session))
                position += len(unit["speaker"]) + 2 + len(unit["text"]) + 1
                ends.append(position)
            for question in dialogue["qas"]:
                if question["is_impossible"] or not question["answers"]:
                    continue
                begin = question["answers"][0]["answer_start"]
                turn_index = next((i for i, end in enumerate(ends) if begin < end), None)
                if turn_index is not None:
                    text = question["question"].replace(" ?", "?")
                    conversation.questions.append(Question(text, (start + turn_index,)))
        yield conversation


def read_qmsum(folder: Path) -> Iterator[Conversation]:
    """Read QMSum: meetings. Evidence is the turns of a passage that share most with the answer."""
    for file in sorted((folder / "data" / "ALL").glob("*/*.json")):
        meeting = _read_json(file)
        conversation = Conversation(f"qmsum/{file.stem}", "qmsum")
        for turn in meeting["meeting_transcripts"]:
            text = re.sub(r"\{\w+\}", "", turn["content"]).replace(" ,", ",").replace(" .", ".")
            conversation.turns.append(Turn(turn["speaker"], " ".join(text.split())))
        for query in meeting["specific_query_list"]:
            turn_indexes = [
                turn_index
                for begin, end in query["relevant_text_span"]
                for turn_index in range(int(begin), min(int(end) + 1, len(conversation.turns)))
            ]
            answer = set(normalized_words(query["answer"])) - STOP_WORDS
            overlap = [
                (
                    len(answer & set(normalized_words(conversation.turns[turn_index].text))),
                    -turn_index,
                )
                for turn_index in turn_indexes
            ]
            evidence = [
                -turn_index for score, turn_index in sorted(overlap, reverse=True)[:3] if score > 1
            ]
            if evidence:
                conversation.questions.append(Question(query["query"], tuple(sorted(evidence))))
        if conversation.questions:
            yield conversation


def read_xquad(folder: Path) -> Iterator[Conversation]:
    """Read XQuAD: articles in English and German, one turn per sentence, questions in both."""
    editions = {
        language: _read_json(folder / f"xquad.{language}.json")["data"] for language in ("en", "de")
    }
    asked: dict[str, dict[str, str]] = defaultdict(dict)
    for language, articles in editions.items():
        for question in _xquad_questions(articles):
            asked[question["id"]][language] = question["question"]
    for language, articles in editions.items():
        for number, group in enumerate(_grouped(articles, 6)):
            conversation = Conversation(f"xquad/{language}/{number}", "xquad")
            for paragraph in (item for article in group for item in article["paragraphs"]):
                _read_paragraph(paragraph, asked, language, conversation)
            yield conversation


def _xquad_questions(articles: list[Any]) -> Iterator[Any]:
    for article in articles:
        for paragraph in article["paragraphs"]:
            yield from paragraph["qas"]


def _read_paragraph(
    paragraph: Any, asked: dict[str, dict[str, str]], language: str, conversation: Conversation
) -> None:
    start = len(conversation.turns)
    session = conversation.turns[-1].session + 1 if conversation.turns else 0
    rng = random.Random(f"{SEED}/{conversation.name}/{session}")
    speaker = rng.choice(person_names())
    ends: list[int] = []
    for match in re.finditer(
        r".+?(?:[.!?](?=\s+[A-ZÄÖÜ„\"])|$)\s*", paragraph["context"], re.DOTALL
    ):
        conversation.turns.append(Turn(speaker, match[0].strip(), session))
        ends.append(match.end())
    for question in paragraph["qas"]:
        begin = question["answers"][0]["answer_start"]
        turn_index = next((i for i, end in enumerate(ends) if begin < end), None)
        if turn_index is None:
            continue
        evidence = (start + turn_index,)
        texts = asked[question["id"]]
        conversation.questions.append(Question(texts[language], evidence))
        other = texts.get("de" if language == "en" else "en")
        if other and rng.random() < 0.5:
            conversation.questions.append(Question(other, evidence))


# The development files


def read_lme(file: Path) -> Conversation:
    """Read LongMemEval: one pool of sessions, numbered in order."""
    content = _read_gzip(file)
    conversation = Conversation("lme", "lme", named=False)
    turn_indexes: dict[str, int] = {}
    for number, session in enumerate(content["sessions"]):
        for index, turn in enumerate(session["turns"]):
            turn_indexes[f"{session['id']}#{index}"] = len(conversation.turns)
            conversation.turns.append(Turn(turn["role"], turn["content"], number))
    for question in content["questions"]:
        evidence = tuple(turn_indexes[turn] for turn in question["gold_turns"] or [])
        conversation.questions.append(Question(question["question"], evidence))
    return conversation


def read_beam_development(file: Path) -> list[Conversation]:
    """Read the 100K chats of BEAM that are in the development file."""
    conversations: list[Conversation] = []
    for chat in _read_gzip(file):
        conversation = Conversation(f"beam/{chat['name']}", "beam-dev", named=False)
        turn_indexes: dict[int, int] = {}
        for message in chat["messages"]:
            turn_indexes[message["id"]] = len(conversation.turns)
            conversation.turns.append(Turn(message["role"], message["text"]))
        for question in chat["questions"]:
            evidence = tuple(turn_indexes[number] for number in question["evidence"])
            asked = Question(question["question"], evidence, kind=question["type"])
            conversation.questions.append(asked)
        conversations.append(conversation)
    return conversations


def read_locomo(file: Path) -> list[Conversation]:
    """Read LoCoMo, for evaluation only; the kind of a question is its category."""
    conversations: list[Conversation] = []
    for sample in _read_gzip(file):
        conversation = Conversation(sample["sample_id"], "locomo")
        turn_indexes: dict[str, int] = {}
        for turn in sample["turns"]:
            caption = turn.get("caption")
            text = f"{turn['text']} [{caption}]" if caption else turn["text"]
            turn_indexes[turn["id"]] = len(conversation.turns)
            conversation.turns.append(Turn(turn["speaker"], text, turn["session"]))
        for question in sample["questions"]:
            evidence = tuple(
                turn_indexes[turn] for turn in question["evidence"] if turn in turn_indexes
            )
            asked = Question(question["question"], evidence, kind=str(question["category"]))
            conversation.questions.append(asked)
        conversations.append(conversation)
    return conversations


def _read_json(file: Path) -> Any:
    return json.loads(file.read_text(encoding="utf-8"))


def _read_gzip(file: Path) -> Any:
    with gzip.open(file) as stream:
        return json.load(stream)


def _grouped(items: Iterable[Any], size: int) -> list[list[Any]]:
    everything = list(items)
    return [everything[start : start + size] for start in range(0, len(everything), size)]
