"""A model service for real coding agents: answers every question with one sentence, and records it.

It speaks the streams of the Anthropic Messages, OpenAI Responses and Gemini APIs, as far as the
command-line programs need them.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

ANSWER = "The orders service uses PostgreSQL 16."


class ModelServer(ThreadingHTTPServer):
    """Answers model calls, and keeps the bodies of the requests."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.bodies: list[str] = []

    @property
    def url(self) -> str:
        """The address, without a path."""
        return f"http://127.0.0.1:{self.server_address[1]}"


@contextmanager
def model_server() -> Iterator[ModelServer]:
    """Serve in the background."""
    server = ModelServer()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: ModelServer
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._send("application/json", json.dumps({"data": [], "models": []}))

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        if self.headers.get("Transfer-Encoding") == "chunked":
            body = self._read_chunks()
        else:
            body = self.rfile.read(length)
        text = body.decode("utf-8", "replace")
        path = self.path.partition("?")[0]
        if path.endswith(("/v1/messages", "/responses")) or "GenerateContent" in path:
            self.server.bodies.append(text)
        if path.endswith("/v1/messages"):
            self._answer_anthropic(json.loads(text))
        elif path.endswith("/responses"):
            self._send("text/event-stream", _events(_responses_events()))
        elif path.endswith(":streamGenerateContent"):
            self._send("text/event-stream", f"data: {json.dumps(_gemini())}\r\n\r\n")
        elif path.endswith(":generateContent"):
            self._send("application/json", json.dumps(_gemini()))
        elif path.endswith("count_tokens"):
            self._send("application/json", json.dumps({"input_tokens": 10}))
        elif path.endswith(":countTokens"):
            self._send("application/json", json.dumps({"totalTokens": 10}))
        else:
            self._send("application/json", "{}")

    def _read_chunks(self) -> bytes:
        body = b""
        while size := int(self.rfile.readline().strip() or b"0", 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def _answer_anthropic(self, request: dict[str, Any]) -> None:
        usage = {"input_tokens": 10, "output_tokens": 10}
        message: dict[str, Any] = {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": request.get("model", "claude"),
            "content": [{"type": "text", "text": ANSWER}],
            "stop_reason": "end_turn",
            "stop_sequence": None,
            "usage": usage,
        }
        if not request.get("stream"):
            self._send("application/json", json.dumps(message))
            return
        start = {**message, "content": [], "stop_reason": None}
        events: list[dict[str, Any]] = [
            {"type": "message_start", "message": start},
            {
                "type": "content_block_start",
                "index": 0,
                "content_block": {"type": "text", "text": ""},
            },
            {
                "type": "content_block_delta",
                "index": 0,
                "delta": {"type": "text_delta", "text": ANSWER},
            },
            {"type": "content_block_stop", "index": 0},
            {
                "type": "message_delta",
                "delta": {"stop_reason": "end_turn", "stop_sequence": None},
                "usage": usage,
            },
            {"type": "message_stop"},
        ]
        self._send("text/event-stream", _events(events))

    def _send(self, media: str, text: str) -> None:
        body = text.encode()
        self.send_response(200)
        self.send_header("Content-Type", media)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _events(events: list[dict[str, Any]]) -> str:
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)


def _responses_events() -> list[dict[str, Any]]:
    item = {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": ANSWER, "annotations": []}],
    }
    usage = {
        "input_tokens": 10,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 10,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 20,
    }
    return [
        {"type": "response.created", "response": {"id": "resp_1"}},
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": []}},
        {
            "type": "response.output_text.delta",
            "output_index": 0,
            "item_id": "msg_1",
            "delta": ANSWER,
        },
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {
            "type": "response.completed",
            "response": {"id": "resp_1", "output": [item], "usage": usage},
        },
    ]


def _gemini() -> dict[str, Any]:
    candidate = {
        "content": {"role": "model", "parts": [{"text": ANSWER}]},
        "finishReason": "STOP",
        "index": 0,
    }
    usage = {"promptTokenCount": 10, "candidatesTokenCount": 10, "totalTokenCount": 20}
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "gemini"}
