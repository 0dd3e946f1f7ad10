"""Requests to addresses that users choose: only to the internet, unless private ones are allowed."""

from __future__ import annotations

import re
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from memorist.base import http
from memorist.base.http import OutgoingRequest, RequestFailed, is_public, retry_after, send
from testkit.receiver import Receiver


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.8.8.8",
        "0.0.0.0",
        "10.0.0.1",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "168.63.129.16",
        "192.0.2.1",
        "224.0.0.1",
        "255.255.255.255",
        "::1",
        "::",
        "fe80::1%eth0",
        "fc00::1",
        "fd00:ec2::254",
        "ff02::1",
        "::ffff:127.0.0.1",
        "::7f00:1",
        "64:ff9b::a00:1",
        "64:ff9b:1::1",
        "2002:7f00:1::",
        "2001:0:1::1",
        "192.0.0.192",
        "::ffff:192.0.0.192",
        "fec0::1",
        "::ffff:0:7f00:1",
    ],
)
def test_addresses_of_private_networks(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "1.1.1.1", "2606:4700::1111", "64:ff9b::808:808"])
def test_addresses_on_the_internet(address: str) -> None:
    assert is_public(address)


def resolve_to(monkeypatch: pytest.MonkeyPatch, *answers: tuple[str, int]) -> None:
    """Resolve every name to the next of these addresses, and regard 127.0.0.1 as public."""
    left = iter(answers)

    def resolve(*_: object, **__: object) -> list[tuple[object, ...]]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", next(left))]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    monkeypatch.setattr(http, "is_public", lambda address: address == "127.0.0.1")


def post(url: str, *, allow_private: bool = False, seconds: float = 5.0) -> int:
    headers = {"webhook-id": "x"}
    request = OutgoingRequest("POST", url, headers, b"{}", allow_private=allow_private)
    return send(request, seconds).status


def test_the_connection_goes_to_the_address_that_was_checked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A name that resolves to a public address first, and to a private one a moment later."""
    with Receiver() as receiver, Receiver() as private:
        resolve_to(monkeypatch, ("127.0.0.1", receiver.port), ("127.0.0.2", private.port))
        assert post("http://rebinding.example:8080/") == 200
        assert receiver.deliveries[0].headers["host"] == "rebinding.example:8080"
        assert not private.deliveries
        with pytest.raises(RequestFailed, match="private network"):
            post("http://rebinding.example:8080/")


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://[2606:4700:4700::1111]/", "[2606:4700:4700::1111]"),
        ("http://[2606:4700:4700::face]/", "[2606:4700:4700::face]"),
        ("http://[2606:4700:4700::1111]:8080/", "[2606:4700:4700::1111]:8080"),
        ("http://8.8.8.8/", "8.8.8.8"),
    ],
)
def test_the_host_header_of_an_address(
    monkeypatch: pytest.MonkeyPatch, url: str, host: str
) -> None:
    with Receiver(204) as receiver:
        resolve_to(monkeypatch, ("127.0.0.1", receiver.port))
        assert post(url) == 204
    assert receiver.deliveries[0].headers["host"] == host


def test_the_next_address_is_used_if_one_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    with Receiver() as receiver:
        with socket.create_server(("127.0.0.1", 0)) as closed:
            refusing = closed.getsockname()
        results = [(2, 1, 6, "", address) for address in (refusing, ("127.0.0.1", receiver.port))]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: results)
        assert post("http://two.example/", allow_private=True) == 200


@pytest.fixture
def encrypted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The port of a server with a certificate for hooks.example, which this process trusts."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "a test")])
    now = datetime.now(UTC)
    day = timedelta(days=1)
    names = x509.SubjectAlternativeName([x509.DNSName("hooks.example")])
    certificate = x509.CertificateBuilder(name, name, key.public_key(), 1, now - day, now + day)
    signed = certificate.add_extension(names, critical=False).sign(key, hashes.SHA256())
    file = tmp_path / "server.pem"
    pem = serialization.Encoding.PEM
    plain = serialization.NoEncryption()
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain)
    file.write_bytes(private + signed.public_bytes(pem))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    http.trusted_certificates.cache_clear()

    def answer() -> None:
        with (
            suppress(OSError),
            context.wrap_socket(listening.accept()[0], server_side=True) as peer,
        ):
            while not peer.recv(10_000).endswith(b"{}"):
                pass
            peer.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        yield listening.getsockname()[1]
        thread.join(10)
    http.trusted_certificates.cache_clear()


def test_a_certificate_must_be_for_the_name_of_the_host(
    encrypted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection goes to an address, but the certificate is checked against the name."""
    resolve_to(monkeypatch, ("127.0.0.1", encrypted))
    assert post("https://hooks.example/") == 204


def test_a_certificate_for_another_name_is_refused(
    encrypted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve_to(monkeypatch, ("127.0.0.1", encrypted))
    with pytest.raises(RequestFailed, match="Hostname mismatch"):
        post("https://other.example/")


def test_one_private_address_among_several_is_enough_to_refuse(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    results = [(2, 1, 6, "", (address, 80)) for address in ("8.8.8.8", "10.0.0.1")]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: results)
    with pytest.raises(RequestFailed, match="private network"):
        post("http://mixed.example/")


def test_a_server_that_never_answers_is_left_in_time() -> None:
    with Receiver("slow") as receiver, pytest.raises(RequestFailed, match=r"within 0\.3 s"):
        post(receiver.url, allow_private=True, seconds=0.3)


def test_a_redirect_is_not_followed() -> None:
    with Receiver("redirect") as receiver:
        assert post(receiver.url, allow_private=True) == 302
    assert len(receiver.deliveries) == 1


def test_retry_after_is_a_number_or_a_date() -> None:
    assert retry_after("7") == 7
    assert retry_after("Wed, 21 Oct 2015 07:28:00 GMT") == 0
    assert retry_after("Fri, 21 Oct 2157 07:28:00 GMT") > 0
    assert retry_after("soon") == retry_after("") == retry_after("-3") == 0
    assert retry_after(None, default=1.0) == 1


def test_only_the_client_opens_connections() -> None:
    """Every request of the package goes through `base/http.py`."""
    package = Path(http.__file__).parents[1]
    pattern = re.compile(
        r"httpx2\.(Async)?Client\(|http\.client\b.*import|import http\.client|urllib\.request"
    )
    others = {
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        if pattern.search(path.read_text()) and path != Path(http.__file__)
    }
    assert not others
