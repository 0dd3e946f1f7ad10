"""Images of a message: detect their type, store them as references, show them to the model once."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from memorist.base.errors import AlreadyExists, Invalid, TooLarge
from memorist.content import placeholder
from memorist.memory import Scope

MAX_IMAGES = 8
MAX_IMAGE_BYTES = 8 << 20
"""The size limit of an image, about the same as the providers'."""
Image = bytes | str
"""The bytes of an image, or a `data:` URL that contains them."""
_TYPES = (
    ("image/png", b"\x89PNG\r\n\x1a\n"),
    ("image/jpeg", b"\xff\xd8\xff"),
    ("image/gif", b"GIF87a"),
    ("image/gif", b"GIF89a"),
)


@dataclass(frozen=True)
class StoredImage:
    """An image that is stored as a reference with this key."""

    key: str
    media: str
    data: bytes

    @property
    def placeholder(self) -> str:
        """The text that replaces the image in the conversation."""
        return placeholder.render(self.key, self.description)

    @property
    def description(self) -> str:
        """A description: type and size."""
        return f"An image ({self.media.removeprefix('image/').upper()}, {max(1, len(self.data) >> 10)} KiB)"

    def part(self) -> dict[str, Any]:
        """Return the message part to store."""
        return {
            "type": "reference",
            "key": self.key,
            "media_type": self.media,
            "text": self.placeholder,
        }

    def model_part(self) -> dict[str, Any]:
        """Return the message part for the model, with the image itself."""
        url = f"data:{self.media};base64,{base64.b64encode(self.data).decode()}"
        return {"type": "image_url", "image_url": {"url": url}}


def check(session: str, images: Sequence[Image]) -> list[StoredImage]:
    """Check images and return them with their keys.

    Within a session, the same image has the same key, so a retry stores the same message.
    """
    if isinstance(images, str | bytes) or not isinstance(images, Sequence):
        raise Invalid(field="images", problem="must be a list of images")
    if len(images) > MAX_IMAGES:
        raise TooLarge(field="images", size=len(images), unit="images", limit=MAX_IMAGES)
    checked: dict[str, StoredImage] = {}
    for index, image in enumerate(images):
        field = f"images[{index}]"
        data = _bytes(image, field)
        media = media_of(data)
        if not media:
            raise Invalid(field=field, problem="is not a PNG, JPEG, GIF or WebP image")
        key = f"image-{hashlib.sha256(session.encode() + b' ' + data).hexdigest()[:24]}"
        checked[key] = StoredImage(key, media, data)
    return list(checked.values())


def store(scope: Scope, session: str, images: Sequence[StoredImage]) -> None:
    """Store images as references of the session, unless they are stored already."""
    for image in images:
        with suppress(AlreadyExists):
            scope.refs.add(
                image.data, image.description, type="image", session=session, key=image.key
            )


def show(
    messages: Sequence[Mapping[str, Any]], images: Sequence[StoredImage]
) -> list[Mapping[str, Any]]:
    """Return the messages with the images in the last user message that mentions them."""
    if not images:
        return list(messages)
    mark = images[0].placeholder
    image_parts = [image.model_part() for image in images]
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        content = message["content"]
        if message["role"] == "user" and isinstance(content, str) and mark in content:
            parts = [{"type": "text", "text": content}, *image_parts]
            return [*messages[:index], {**message, "content": parts}, *messages[index + 1 :]]
    return [*messages, {"role": "user", "content": image_parts}]


def _bytes(image: Image, field: str) -> bytes:
    if isinstance(image, str):
        head, _, data = image.partition(",")
        if not head.startswith("data:") or not head.endswith(";base64"):
            raise Invalid(
                field=field,
                problem="must be the bytes of an image, or a base64 data: URL; other URLs are not loaded",
            )
        if len(data) > MAX_IMAGE_BYTES * 4 // 3 + 4:
            raise TooLarge(
                field=field, size=len(data) * 3 // 4, unit="bytes", limit=MAX_IMAGE_BYTES
            )
        try:
            image = base64.b64decode(data, validate=True)
        except (ValueError, binascii.Error):
            raise Invalid(field=field, problem="is not valid base64") from None
    if not isinstance(image, bytes | bytearray):
        raise Invalid(field=field, problem="must be the bytes of an image, or a data: URL")
    if len(image) > MAX_IMAGE_BYTES:
        raise TooLarge(field=field, size=len(image), unit="bytes", limit=MAX_IMAGE_BYTES)
    return bytes(image)


def media_of(data: bytes) -> str:
    """Return the media type of an image by its first bytes; empty if unknown."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((media for media, start in _TYPES if data.startswith(start)), "")
