"""Lists of thousands: only visible rows are in the document, every row can be reached, no gaps."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from playwright.sync_api import Locator, Page, expect

from testkit.browser import Web

MOST_ELEMENTS = 1_500
WATCH = """
    window.seen = {long: 0, longest: 0, most: 0, blank: 0, frames: 0};
    new PerformanceObserver((list) => { for (const one of list.getEntries()) {
        seen.long++; seen.longest = Math.max(seen.longest, one.duration); } }).observe({type: 'longtask'});
    const look = () => {
        const list = document.querySelector('main [aria-setsize]')?.closest('ul, ol');
        if (list) {
            seen.frames++;
            seen.most = Math.max(seen.most, document.querySelectorAll('*').length);
            const box = list.parentElement.getBoundingClientRect();
            const rows = [...list.children].map((row) => row.getBoundingClientRect());
            if (!rows.some((row) => row.bottom > box.top && row.top < box.bottom)) seen.blank++;
        }
        requestAnimationFrame(look);
    };
    requestAnimationFrame(look);
"""
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
    """Scroll through a number of rows to both ends and back.

    Return the rows never seen, the gaps, the most rows in the document, and whether both ends were
    seen.
    """
    result: dict[str, Any] = box.evaluate(WALK, {"rows": rows, "all": all})
    return result


def over(page: Page, name: str) -> None:
    """Move the pointer over the middle of a list and start to watch it."""
    page.set_viewport_size({"width": 1280, "height": 800})
    page.evaluate(WATCH)
    box = page.get_by_label(name, exact=True).bounding_box()
    assert box
    page.mouse.move(box["x"] + box["width"] / 2, 400)


def wheel(page: Page, endpoint: int, end: Locator) -> None:
    """Turn the wheel until an end is visible."""
    for _ in range(400):
        page.mouse.wheel(0, endpoint)
        page.wait_for_timeout(20)
        if end.is_visible():
            break
    expect(end).to_be_visible()


def quick(page: Page, what: str) -> None:
    """Check that only visible rows were in the document and gaps were rare; print the figures."""
    result: dict[str, float] = page.evaluate("seen")
    print(what, result)
    assert result["frames"] > 0
    assert result["most"] < MOST_ELEMENTS
    assert result["blank"] <= result["frames"] / 20


def test_five_thousand_entries(web: Web) -> None:
    """Scroll to the last of 5,000 entries, 100 per page, and back by wheel."""
    me, now = web.me, datetime.now(UTC)
    created = [
        {"content": f"Entry {n}.", "created_at": (now - timedelta(minutes=n)).isoformat()}
        for n in range(5000)
    ]
    for start in range(0, len(created), 1000):
        me.entries.add_many(created[start : start + 1000])
    web.page.set_viewport_size({"width": 1280, "height": 3000})
    page = web.open("/agents/scout/memory")
    expect(page.get_by_role("button", name="Journal 5,000")).to_be_visible()
    result = walk(
        page.get_by_role("list", name="What scout remembers").locator(".."), 200, len(created)
    )
    assert (result["missed"], result["voids"], result["ends"]) == ([], [], [True, True])
    assert result["most"] < 80  # a screen of 3,000 pixels and a few beyond it
    over(page, "What scout remembers")
    for endpoint, end in ((20_000, "Entry 4999."), (-30_000, "Entry 0.")):
        wheel(page, endpoint, page.get_by_text(end, exact=True))
    quick(page, "5,000 entries")


def test_ten_thousand_messages(web: Web) -> None:
    """A conversation of 10,000 opens at its end and is read from its start, anywhere between,
    and by wheel.
    """
    me = web.me
    session = me.sessions.add()
    for start in range(0, 10_000, 1000):
        texts = [
            {
                "role": ("user", "assistant")[n % 2],
                "content": f"Message {n + 1}: " + "words " * (n % 40),
            }
            for n in range(start, start + 1000)
        ]
        me.messages.extend(session.id, texts)
    web.page.set_viewport_size({"width": 1280, "height": 3000})
    page = web.open(f"/chat/scout/{session.id}")
    messages = page.get_by_role("region", name="Messages")
    first = messages.get_by_text("Message 1:")
    last = messages.get_by_text("Message 10000:")
    expect(last).to_be_visible()
    result = walk(messages, 200, 10_000)
    assert (result["missed"], result["voids"], result["ends"]) == ([], [], [True, True])
    assert result["most"] < 120
    over(page, "Messages")
    wheel(page, 30_000, last)
    wheel(page, -30_000, first)
    quick(page, "10,000 messages")
