"""Keys, signed tokens and an issuer, as an identity provider has them."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

ISSUER, AUDIENCE = "https://issuer.example.org", "memorist"
RSA = rsa.generate_private_key(65537, 2048)
SMALL = rsa.generate_private_key(65537, 1024)
EC = ec.generate_private_key(ec.SECP256R1())
ED = ed25519.Ed25519PrivateKey.generate()


def public(kind: Any, private: Any, id: str, **more: Any) -> dict[str, Any]:
    """Return a public key as an issuer publishes it."""
    return {**json.loads(kind.to_jwk(private.public_key())), "kid": id, **more}


KEYS = [
    public(RSAAlgorithm, RSA, "rsa", alg="RS256", use="sig"),
    public(ECAlgorithm, EC, "ec"),
    public(OKPAlgorithm, ED, "ed"),
    public(RSAAlgorithm, SMALL, "small"),
    {"kty": "oct", "k": "c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0", "kid": "oct", "alg": "HS256"},
    public(ECAlgorithm, EC, "encrypts", use="enc"),
]


def write_keys(keys: list[dict[str, Any]], folder: Path) -> str:
    file = folder / "jwks.json"
    file.write_text(json.dumps({"keys": keys}))
    return str(file)


def claims(**changes: Any) -> dict[str, Any]:
    moment = int(time.time())
    payload = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "sub": "ada",
        "tenant": "acme",
        "exp": moment + 60,
        "nbf": moment,
        "scope": "read",
    }
    return {name: value for name, value in {**payload, **changes}.items() if value is not None}


def signed(
    key: Any = RSA,
    alg: str = "RS256",
    kid: str | None = "rsa",
    header: dict[str, Any] | None = None,
    **said: Any,
) -> str:
    return jwt.encode(
        claims(**said), key, alg, {**({} if kid is None else {"kid": kid}), **(header or {})}
    )


def pem(form: Any) -> bytes:
    return RSA.public_key().public_bytes(serialization.Encoding.PEM, form)


SECRET = "a-secret-of-the-issuer-with-enough-bytes"
