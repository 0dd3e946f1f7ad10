"""Stored text is text on every page; it never runs and never loads anything."""

from __future__ import annotations

from urllib.parse import quote

from playwright.sync_api import Page, expect

from memorist import Memory
from testkit.browser import Web
from tests.web.hostile import ALL, PIECES, infest

USER, AGENT = "<b onclick=owned(1)>\u202eada", "<i>scout</i>"
WATCH = """
    window.caught = [];
    window.owned = (how) => window.caught.push(`ran: ${how}`);
    window.alert = window.prompt = window.confirm = () => window.caught.push('asked');
    addEventListener('securitypolicyviolation', (event) =>
        window.caught.push(`refused: ${event.violatedDirective} ${event.blockedURI}`));
"""
LOOK = """() => {
    const bad = ['iframe', 'frame', 'object', 'embed', 'base', 'style', 'form[action]', 'meta[http-equiv]',
        'portal', 'marquee', 'script:not([src^="/assets/"])', 'link:not([href^="/"])',
        'link[rel*=pre]:not([href^="/assets/"])',
        '[srcset]', '[srcdoc]', '[ping]', 'a[href^="javascript:" i]', 'a[href^="data:" i]', 'a[href^="vbscript:" i]',
        'svg a', 'svg use:not([href^="#"])', 'svg image', 'a[href^="http"]:not([rel~=noopener])',
        'img:not([src^="/assets/"], [src^="blob:"], [src^="data:"])', '[style*="url("]', 'video', 'audio'];
    const found = [...document.querySelectorAll(bad.join(','))].map((node) => `element: ${node.outerHTML.slice(0, 200)}`);
    for (const node of document.querySelectorAll('*'))
        for (const name of node.getAttributeNames())
            if (name.startsWith('on')) found.push(`handler: ${name} on ${node.tagName}`);
    return [...new Set([...window.caught, ...found])];
}"""
PRESS = """async () => {
    // Press one of each kind of button, open what opens, look at each dialog, and leave it by Escape.
    const path = (node) => { let said = ''; for (let up = node; up && up !== document.body; up = up.parentElement)
        said += `${up.tagName}.${String(up.className.baseVal ?? up.className)} `;
        return said + (node.querySelector('path')?.getAttribute('d') ?? ''); };
    const wait = (ms) => new Promise((done) => setTimeout(done, ms));
    const done = new Set(); const services = location.href; let dialogs = 0;
    for (let round = 0; round < 60; round++) {
        const all = [...document.querySelectorAll('main button:not(:disabled), main summary')];
        const next = all.find((node) => !done.has(path(node)));
        if (!next) break;
        done.add(path(next));
        if (/attach|send|file|download|export|import|csv|json/i.test(`${next.textContent} ${next.ariaLabel}`)) continue;
        next.click();
        await wait(60);
        for (let deep = 0; deep < 4; deep++) {
            const open = document.querySelector('dialog[open]');
            if (!open) break;
            dialogs++;
            for (const summary of open.querySelectorAll('summary')) summary.click();
            await wait(40);
            open.dispatchEvent(new Event('cancel', {cancelable: true}));
            await wait(20);
        }
        if (location.href === services) continue;
        history.pushState(null, '', services);
        dispatchEvent(new PopStateEvent('popstate'));
        await wait(60);
    }
    return [done.size, dialogs];
}"""

GO = f"""async (addresses) => {{
    const look = {LOOK}; const found = [];
    for (const address of addresses) {{
        history.pushState(null, '', address);
        dispatchEvent(new PopStateEvent('popstate'));
        await new Promise((done) => setTimeout(done, 40));
        if (look().length) {{ found.push([address, ...look()]); window.caught.length = 0; }}
    }}
    return found;
}}"""


def executed(page: Page) -> list[str]:
    """Return the texts that were executed."""
    result: list[str] = page.evaluate(LOOK)
    return result


def visit(web: Web, path: str) -> tuple[int, int]:
    """Open a page, press every button, and return the number of kinds of buttons and dialogs."""
    page = web.open(path)
    expect(page.get_by_role("heading", level=1).first).to_be_attached()
    expect(page.get_by_text("Loading", exact=True)).to_have_count(0)
    assert executed(page) == [], path
    pressed, dialogs = page.evaluate(PRESS)
    assert executed(page) == [], path
    return pressed, dialogs


def test_stored_texts_are_escaped_on_every_page(web: Web, memory: Memory) -> None:
    """P0: in every field, on every page and in every dialog."""
    web.lock()
    created = infest(memory, USER, AGENT)
    page = web.page
    page.add_init_script(WATCH)
    page.add_init_script(f"localStorage.setItem('memorist_user', {USER!r})")
    web.expects("status of 404", "status of 422", "status of 409", "status of 400", "status of 412")
    agents = [quote(name, safe="") for name in [AGENT, created["agents"][0]]]
    places = [
        f"/agents/{agents[0]}{tab}" for tab in ("", "/memory", "/proposals", "/whiteboard")
    ] + [f"/agents/{agents[1]}"]
    places += [
        f"/chat/{agents[0]}/{quote(session, safe='')}" for session in created["sessions"][:2]
    ]
    places += [
        f"/memory/notes?agent={agents[0]}{view}" for view in ("", "&view=edit", "&view=history")
    ]
    places += [
        f"/memory/documents?doc={created['documents'][0]}",
        "/memory/documents",
        "/memory/refs",
        "/memory/state",
    ]
    places += [
        f"/why/{created['turns'][0]}",
        "/why",
        "/agents",
        "/agents/new",
        f"/search?q={quote(ALL[:1500])}",
    ]
    places += [
        f"/operations{tab}"
        for tab in ("", "?by=model", "/calls", "/health", "/review", "/keys", "/audit")
    ]
    counts = [visit(web, place) for place in places]
    assert sum(dialogs for _, dialogs in counts) > 10
    assert sum(pressed for pressed, _ in counts) > 60


def test_hostile_addresses_are_harmless(web: Web) -> None:
    """P0: parts of an address are names or queries, and no page breaks on them."""
    page = web.page
    page.add_init_script(WATCH)
    web.expects("status of 4")
    shapes = [
        "/chat/{}", "/chat/a/{}", "/chat?agents={},x", "/why/{}", "/why?session={}&seq=1",
        "/why?message={}&agent={}", "/agents/{}",
    ]  # fmt: skip
    shapes += [
        "/agents/a/memory?entry={}&search={}",
        "/memory/{}",
        "/memory/notes?agent={}&view={}&v={}",
        "/memory/state?area={}&prefix={}",
    ]
    shapes += [
        "/memory/refs?ref={}&type={}",
        "/memory/documents?doc={}",
        "/search?q={}&kind={}&since={}&agent={}&session={}",
    ]
    shapes += [
        "/operations/{}",
        "/operations?by={}&period={}",
        "/operations/calls?model={}&route={}",
        "/sign-in?next={}",
        "/agents?{}",
    ]
    addresses = [
        shape.replace("{}", quote(text, safe=""))
        for n, shape in enumerate(shapes)
        for text in PIECES[n % 3 :: 3]
    ]
    web.open("/search?q=" + quote(ALL[:1500]))
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    assert page.evaluate(GO, addresses) == []
    assert page.locator("main").count() == 1
