"""Backoff of clients that were rejected because of the load."""

from __future__ import annotations

import asyncio

import pytest

from memorist.server.http import rate_limit
from memorist.server.http.rate_limit import Backoff

ADA = ("127.0.0.1", 5001, False)
BOB = ("127.0.0.1", 5002, False)


def test_retry_after_doubles_until_a_request_is_accepted() -> None:
    async def seconds() -> list[int]:
        clients = Backoff(asyncio.Event())
        rejections = [clients.reject(ADA) for _ in range(4)]
        assert clients.reject(BOB) == 1
        clients.rejected.pop(ADA)
        return [*rejections, clients.reject(ADA)]

    assert asyncio.run(seconds()) == [1, 2, 4, 4, 1]


def test_a_client_that_retries_at_once_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    async def retry() -> None:
        loop = asyncio.get_running_loop()
        clients = Backoff(asyncio.Event())
        before = loop.time()
        monkeypatch.setattr(rate_limit, "RETRY_SECONDS", 0.02)
        clients.reject(ADA)
        await clients.wait(BOB)  # was not rejected
        await clients.wait(ADA)
        assert loop.time() >= before + 0.02
        await clients.wait(ADA)  # its time has passed

    asyncio.run(retry())


def test_no_request_waits_when_the_server_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    async def stop() -> None:
        stopping = asyncio.Event()
        clients = Backoff(stopping)
        monkeypatch.setattr(rate_limit, "RETRY_SECONDS", 10_000)
        clients.reject(ADA)
        waiting = asyncio.create_task(clients.wait(ADA))
        await asyncio.sleep(0)
        assert not waiting.done()
        stopping.set()
        await waiting

    asyncio.run(stop())


def test_the_number_of_remembered_and_waiting_clients_is_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def flood() -> None:
        clients = Backoff(asyncio.Event())
        monkeypatch.setattr(rate_limit, "MAX_CONNECTIONS", 2)
        monkeypatch.setattr(rate_limit, "RETRY_SECONDS", 10_000)
        clients.reject(ADA)
        clients.reject(BOB)
        waiting = [asyncio.create_task(clients.wait(client)) for client in (ADA, BOB)]
        await asyncio.sleep(0)
        await clients.wait(ADA)  # no room to wait: it is answered at once
        clients.reject(
            ("127.0.0.1", 5003, False)
        )  # no room to remember it: the others are forgotten
        await clients.wait(BOB)
        for task in waiting:
            assert not task.done()
            task.cancel()

    asyncio.run(flood())


def test_a_client_without_an_address_does_not_wait() -> None:
    async def retry() -> list[int]:
        clients = Backoff(asyncio.Event())
        seconds = [clients.reject(None), clients.reject(None)]
        await clients.wait(None)
        return seconds

    assert asyncio.run(retry()) == [1, 1]
