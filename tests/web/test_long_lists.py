"""Lists of thousands: only what is in sight is in the document, every row can be reached, and nobody scrolls into a void."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from playwright.sync_api import Locator, expect

from retain import Memory
from tests.conftest import one_engine
from tests.web.browsing import Web

WALK = """async (box, {rows, all}) => {
    const frame = () => new Promise(requestAnimationFrame);
    const seen = new Set(), voids = [];
    let most = 0;
    const inSight = () => {
        const {top, bottom} = box.getBoundingClientRect();
        const there = [...box.querySelectorAll("[data-index]")];
        most = Math.max(most, there.length);
        return there.filter((row) => {
            const at = row.getBoundingClientRect();
            return at.bottom > top + 1 && at.top < bottom - 1;
        });
    };
    // What comes to rest in sight, and is read; the number of the last.
    const look = async () => {
        for (let tries = 0, before = ""; tries < 600; tries++) {
            await frame();
            const sight = inSight();
            const numbers = sight.map((row) => Number(row.dataset.index));
            if (!sight.length && before) voids.push(box.scrollTop);
            if (sight.length && String(numbers) === before && sight.every((row) => row.innerText.trim())) {
                for (const number of numbers) seen.add(number);
                return numbers.at(-1);
            }
            before = String(numbers);
        }
        throw new Error(`what is at ${box.scrollTop} is never read`);
    };
    const until = async (last, step) => {
        for (let idle = 0, at = await look(); at < last && idle < 100; idle++) {
            const before = at;
            step();
            at = await look();
            if (at > before) idle = 0;
        }
    };
    box.scrollTo(0, 0);
    await until(rows - 1, () => box.scrollBy(0, box.clientHeight - 150));
    const missed = Array.from({length: rows}, (_, index) => index).filter((index) => !seen.has(index));
    await until(all - 1, () => box.scrollTo(0, box.scrollHeight));
    for (const part of [0.5, 0.1, 0.9, 0.3, 0.7, 0]) {
        box.scrollTo(0, box.scrollHeight * part);
        await look();
    }
    return {missed, voids, most, ends: [seen.has(0), seen.has(all - 1)]};
}"""


def walk(box: Locator, rows: int, all: int) -> dict[str, Any]:
    """Scroll through so many rows, to the end of all, and to and fro.

    What was never in sight on the way, where there was nothing, the most that was in the document, and whether both ends
    were seen.
    """
    found: dict[str, Any] = box.evaluate(WALK, {"rows": rows, "all": all})
    return found


@one_engine
def test_five_thousand_entries(web: Web, memory: Memory) -> None:
    """J6: an agent of 5,000 entries."""
    me, now = memory.scope("default", "default", "scout"), datetime.now(UTC)
    made = [{"content": f"Entry {n}", "created_at": (now - timedelta(minutes=n)).isoformat()} for n in range(5000)]
    for start in range(0, len(made), 1000):
        me.entries.add_many(made[start : start + 1000])
    web.page.set_viewport_size({"width": 1280, "height": 3000})
    page = web.open("/agents/scout/memory")
    expect(page.get_by_role("button", name="Journal 5,000")).to_be_visible()
    found = walk(page.get_by_role("list", name="What scout remembers").locator(".."), 1000, len(made))
    assert (found["missed"], found["voids"], found["ends"]) == ([], [], [True, True])
    assert found["most"] < 80  # a screen of 3,000 pixels and a few beyond it


@one_engine
def test_ten_thousand_messages(web: Web, memory: Memory) -> None:
    """A conversation of 10,000 messages: read from its beginning, and anywhere between."""
    me = memory.scope("default", "default", "scout")
    session = me.sessions.add()
    for start in range(0, 10_000, 500):
        said = [{"role": ("user", "assistant")[n % 2], "content": f"Message {n + 1}"} for n in range(start, start + 500)]
        me.messages.extend(session.id, said)
    web.page.set_viewport_size({"width": 1280, "height": 3000})
    page = web.open(f"/chat/scout/{session.id}")
    expect(page.get_by_text("Message 10000", exact=True)).to_be_visible()
    found = walk(page.get_by_role("region", name="Messages"), 1000, 10_000)
    assert (found["missed"], found["voids"], found["ends"]) == ([], [], [True, True])
    assert found["most"] < 120
