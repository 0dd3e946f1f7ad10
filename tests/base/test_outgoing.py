"""Requests to addresses that users choose: only to the internet, unless private ones are allowed."""

from __future__ import annotations

import socket

import pytest

from retain.base import outgoing
from retain.base.outgoing import RequestFailed, is_public, post
from tests.receiver import Receiver


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


def test_the_connection_goes_to_the_address_that_was_checked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A name that resolves to a public address first, and to this machine a moment later."""
    answers = iter(["203.0.114.1", "127.0.0.1"])

    def resolve(host: str, port: int, **_: object) -> list[tuple[object, ...]]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (next(answers), port))]

    connected: list[tuple[str, int]] = []

    def connect(address: tuple[str, int], timeout: float) -> socket.socket:
        connected.append(address)
        raise ConnectionRefusedError

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    monkeypatch.setattr(socket, "create_connection", connect)
    with pytest.raises(RequestFailed, match="ConnectionRefusedError"):
        post("http://rebinding.example:8080/", b"{}", {}, allow_private=False)
    assert connected == [("203.0.114.1", 8080)]


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://[2606:4700:4700::1111]/", b"[2606:4700:4700::1111]"),
        ("http://[2606:4700:4700::face]/", b"[2606:4700:4700::face]"),
        ("http://[2606:4700:4700::1111]:8080/", b"[2606:4700:4700::1111]:8080"),
        ("http://8.8.8.8/", b"8.8.8.8"),
    ],
)
def test_the_host_header_of_an_address(
    monkeypatch: pytest.MonkeyPatch, url: str, host: bytes
) -> None:
    here, there = socket.socketpair()
    monkeypatch.setattr(socket, "create_connection", lambda *_: here)
    there.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")
    with there:
        assert post(url, b"{}", {}, allow_private=False) == 204
        lines = there.recv(10_000).split(b"\r\n")
    assert b"Host: " + host in lines


def test_one_private_address_among_several_is_enough_to_refuse(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    results = [(2, 1, 6, "", (address, 80)) for address in ("8.8.8.8", "10.0.0.1")]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: results)
    with pytest.raises(RequestFailed, match="private network"):
        post("http://mixed.example/", b"{}", {}, allow_private=False)


def test_a_server_that_never_answers_is_left_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outgoing, "SECONDS", 0.3)
    with Receiver("slow") as receiver, pytest.raises(RequestFailed, match="no response within"):
        post(receiver.url, b"{}", {"webhook-id": "x"}, allow_private=True)
