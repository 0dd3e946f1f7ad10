"""A signed request to a webhook, as https://www.standardwebhooks.com describes."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from urllib.parse import urlsplit

from memorist.base import http
from memorist.base.http import RequestFailed

RESPONSE_SECONDS = 10.0
"""The time limit of a request, from the resolution of the name to the status of the response."""
SIGNING_PREFIX = "whsec_"


def send(url: str, secret: str, message_id: str, payload: object, *, allow_private: bool) -> str:
    """Send a signed request; return why it failed, or nothing if it was accepted."""
    body = json.dumps(payload, separators=(",", ":")).encode()
    timestamp = str(int(time.time()))
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "memorist",
        "webhook-id": message_id,
        "webhook-timestamp": timestamp,
        "webhook-signature": sign(secret, message_id, timestamp, body),
    }
    try:
        request = http.OutgoingRequest("POST", url, headers, body, allow_private=allow_private)
        status = http.send(request, RESPONSE_SECONDS).status
    except RequestFailed as error:
        return str(error)
    if 200 <= status < 300:
        return ""
    redirected = ", a redirect, which is not followed" if 300 <= status < 400 else ""
    return f"the response has the status {status}{redirected}"


def sign(secret: str, message_id: str, timestamp: str, body: bytes) -> str:
    """Return the signature of a request."""
    key = base64.b64decode(secret.removeprefix(SIGNING_PREFIX))
    content = f"{message_id}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.digest(key, content, hashlib.sha256)).decode()


def host_of(url: str) -> str:
    """Return the host of an address; the path may contain a token."""
    return urlsplit(url).hostname or ""
