"""Invented benchmark data in every format that `memorist eval` reads."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

LOCOMO: list[dict[str, Any]] = [
    {
        "sample_id": "talk-1",
        "conversation": {
            "speaker_a": "Nora",
            "speaker_b": "Tim",
            "session_2_date_time": "9:05 am on 3 June, 2024",
            "session_2": [
                {"speaker": "Nora", "dia_id": "D2:1", "text": "I sold my old kayak to Piet."},
                {
                    "speaker": "Tim",
                    "dia_id": "D2:2",
                    "text": "Look at this!",
                    "blip_caption": "a photo of a red lighthouse",
                },
            ],
            "session_1_date_time": "7:30 pm on 28 May, 2024",
            "session_1": [
                {"speaker": "Nora", "dia_id": "D1:1", "text": "I bought a kayak in Bergen."},
                {"speaker": "Tim", "dia_id": "D1:2", "text": "I repair clocks on Sundays."},
            ],
        },
        "qa": [
            {
                "question": "Where did Nora buy her kayak?",
                "answer": "Bergen",
                "evidence": ["D1:1"],
                "category": 4,
            },
            {
                "question": "What happened to the kayak in the end?",
                "answer": "She bought it in Bergen and sold it to Piet",
                "evidence": ["D1:1; D:2:01", "D4:36"],
                "category": 1,
            },
            {"question": "How many clocks?", "answer": 0, "evidence": [], "category": 3},
            {
                "question": "Which clocks does Nora repair?",
                "adversarial_answer": "church clocks",
                "evidence": ["D1:2"],
                "category": 5,
            },
        ],
    }
]

LONGMEMEVAL: list[dict[str, Any]] = [
    {
        "question_id": "q1",
        "question_type": "knowledge-update",
        "question": "How many hens do I have now?",
        "answer": 7,
        "question_date": "2024/06/20 (Thu) 10:00",
        "haystack_session_ids": ["s1", "s2", "s3"],
        "haystack_dates": [
            "2024/06/01 (Sat) 08:00",
            "2024/06/10 (Mon) 09:30",
            "2024/06/11 (Tue) 09:30",
        ],
        "haystack_sessions": [
            [
                {"role": "user", "content": "I have five hens.", "has_answer": True},
                {"role": "assistant", "content": "Lovely!"},
            ],
            [
                {"role": "user", "content": "Two more hens arrived, so seven.", "has_answer": True},
                {"role": "assistant", "content": "Seven hens lay many eggs."},
            ],
            [{"role": "user", "content": "Which paint is good for a fence?"}],
        ],
        "answer_session_ids": ["s1", "s2"],
    },
    {
        "question_id": "q2_abs",
        "question_type": "single-session-user",
        "question": "What is the name of my goat?",
        "answer": "You did not mention a goat.",
        "question_date": "2024/06/20 (Thu) 10:00",
        "haystack_session_ids": ["s1"],
        "haystack_dates": ["2024/06/01 (Sat) 08:00"],
        "haystack_sessions": [[{"role": "user", "content": "I have five hens."}]],
        "answer_session_ids": ["s1"],
    },
]

BEAM_CHAT: list[Any] = [
    {
        "batch_number": 1,
        "turns": [
            [
                {
                    "role": "user",
                    "id": 0,
                    "time_anchor": "March-15-2024",
                    "content": "The sprint ends on March 29. ->-> 1,1",
                },
                {"role": "assistant", "id": 1, "content": "Noted."},
            ],
            [
                {"role": "user", "id": 2, "content": "The login page takes 250 ms now."},
                {"role": "assistant", "id": 3, "content": "That is quick."},
            ],
        ],
    }
]
BEAM_QUESTIONS: dict[str, Any] = {
    "abstention": [
        {"question": "Who designed the logo?", "ideal_response": "There is no information."}
    ],
    "event_ordering": [
        {"question": "In which order?", "answer": "Sprint, login.", "source_chat_ids": [0, 2, 2]}
    ],
    "instruction_following": [
        {"question": "Which libraries?", "rubric": ["names versions"], "source_chat_ids": [2]}
    ],
    "knowledge_update": [
        {
            "question": "When does the sprint end?",
            "answer": "March 29",
            "source_chat_ids": {"original_info": [0], "updated_info": [0]},
        }
    ],
}


def write_json(path: Path, data: Any) -> Path:
    """Write JSON into a file, compressed if its name ends in .gz."""
    path.parent.mkdir(parents=True, exist_ok=True)
    encoded = json.dumps(data).encode()
    path.write_bytes(gzip.compress(encoded) if path.suffix == ".gz" else encoded)
    return path


def write_locomo(folder: Path) -> Path:
    """Write the invented file of LoCoMo."""
    return write_json(folder / "locomo.json", LOCOMO)
