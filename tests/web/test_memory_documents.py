"""Documents in the web app: uploads with progress, unreadable files, and opening any passage."""

from __future__ import annotations

from playwright.sync_api import FilePayload, Page, Route, expect

from memorist import Memory
from testkit.browser import Web
from testkit.limited import Limited

DROP = """(files) => {
    const data = new DataTransfer();
    for (const [name, text] of files) data.items.add(new File([text], name));
    for (const kind of ["dragenter", "dragover", "drop"]) {
        document.querySelector("h1").dispatchEvent(
            new DragEvent(kind, {dataTransfer: data, bubbles: true, cancelable: true}));
    }
}"""


def _file(name: str, content: bytes) -> FilePayload:
    return {
        "name": name,
        "mimeType": "application/json" if name.endswith("json") else "",
        "buffer": content,
    }


def _choose(page: Page, *files: FilePayload) -> None:
    page.get_by_label("Files to add").set_input_files(list(files))


def test_an_unreadable_file_does_not_stop_other_uploads(web: Web, memory: Memory) -> None:
    """Each file has its own result; a file with a known path replaces the old one."""
    web.expects("422")
    page = web.open("/memory/documents")
    expect(page.get_by_role("heading", name="No documents yet")).to_be_visible()
    picture = _file("picture.png", bytes(range(256)) * 9)
    _choose(
        page, _file("rules.md", b"# Rules\n\nBe kind."), picture, _file("data.json", b'{"a": 1}')
    )
    uploads = page.get_by_role("region", name="Uploads")
    expect(uploads.get_by_role("status")).to_have_text("2 of 3 added, 1 failed")
    expect(uploads.get_by_role("alert")).to_contain_text("not text, Markdown, HTML or PDF")
    documents = page.get_by_role("list", name="Documents").get_by_role("listitem")
    expect(documents).to_have_count(2)
    mine = memory.scope(tenant="default", user="default")
    assert {document.path for document in mine.documents.list()} == {"rules.md", "data.json"}
    uploads.get_by_role("button", name="Hide picture.png").click()
    uploads.get_by_role("button", name="Hide completed").click()
    page.evaluate(DROP, [["rules.md", "# Rules\n\nBe kinder."], ["data.json", '{"a": 1}']])
    expect(uploads.get_by_text("Replaced the document at this path")).to_be_visible()
    expect(uploads.get_by_text("Unchanged")).to_be_visible()
    expect(documents).to_have_count(2)
    page.get_by_role("button", name="Remove Rules").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    expect(documents).to_have_count(1)
    assert [document.path for document in mine.documents.list()] == ["data.json"]


def test_an_upload_can_be_cancelled_and_retried(web: Web, memory: Memory, limited: Limited) -> None:
    web.expects("ERR_FAILED", "ERR_ABORTED", "413")
    limited(MAX_DOCUMENT_BYTES=2048)
    web.restart()
    page = web.open("/memory/documents")
    held: list[Route] = []
    page.route(
        "**/api/documents?*path=slow.txt",
        lambda route: held.append(route) if _posts(route) else route.continue_(),
    )
    page.route(
        "**/api/documents?*path=lost.txt",
        lambda route: route.abort() if _posts(route) else route.continue_(),
    )
    _choose(
        page,
        _file("slow.txt", b"slow"),
        _file("lost.txt", b"lost words"),
        _file("large.txt", b"word " * 1000),
    )
    uploads = page.get_by_role("region", name="Uploads")
    expect(uploads.get_by_text("The server does not answer")).to_be_visible()
    expect(uploads.get_by_text("at most 2048").or_(uploads.get_by_text("2,048"))).to_be_visible()
    uploads.get_by_role("button", name="Cancel slow.txt").click()
    expect(uploads.get_by_text("slow.txt")).to_have_count(0)
    page.unroute("**/api/documents?*path=lost.txt")
    uploads.get_by_role("listitem").filter(has_text="lost.txt").get_by_role(
        "button", name="Try again"
    ).click()
    expect(uploads.get_by_role("status")).to_have_text("1 of 2 added, 1 failed")
    assert [
        document.path
        for document in memory.scope(tenant="default", user="default").documents.list()
    ] == ["lost.txt"]
    assert not web.axe()
    web.screens("memory-documents")


def _posts(route: Route) -> bool:
    return route.request.method == "POST"


def test_a_passage_of_a_large_document_opens(web: Web, memory: Memory) -> None:
    """Only passages near the visible part are loaded; a search hit leads to its passage."""
    rooms = (
        f"## Room {number}\n\nRoom {number} has a lamp. {'It is quiet there. ' * 30}"
        for number in range(1200)
    )
    text = (
        "# The house\n\n"
        + "\n\n".join(rooms)
        + "\n\n## The attic\n\n<img src=x onerror=alert(1)> A zeppelin hangs there."
    )
    created = memory.scope(tenant="default", user="default").documents.add(
        "The house", text, path="house.md"
    )
    memory.scope(tenant="default").documents.add("Rules", "Be kind.", path="rules.txt")
    page = web.open("/memory/documents")
    expect(page.get_by_text("everybody’s")).to_be_visible()
    page.get_by_label("Search in the documents").fill("where is the zeppelin")
    page.keyboard.press("Enter")
    page.get_by_role("list", name="Passages").get_by_role("link", name="The attic").first.click()
    here = page.get_by_role("article", name=f"Passage {created.chunks}", exact=True)
    expect(here).to_be_in_viewport()
    expect(here).to_contain_text("<img src=x onerror=alert(1)> A zeppelin")
    assert page.get_by_role("article").count() < 60
    assert not web.axe()
    web.screens("memory-document")
    page.get_by_role("spinbutton", name="Passage").fill("600")
    expect(page.get_by_role("article", name="Passage 600", exact=True)).to_contain_text(
        "has a lamp"
    )
    expect(page.get_by_role("article", name="Passage 600", exact=True)).to_be_in_viewport()
    page.get_by_role("button", name="Back to results").click()
    expect(
        page.get_by_role("list", name="Passages").get_by_role("link", name="The attic").first
    ).to_be_visible()
    for seq in (
        300,
        301,
        51,
    ):  # what stands before them is read together with them, or a moment later
        web.open(f"/memory/documents?doc={created.id}&seq={seq}")
        here = page.get_by_role("article", name=f"Passage {seq}", exact=True)
        expect(here).to_contain_text("has a lamp")
        expect(page.get_by_role("article", name=f"Passage {seq - 3}", exact=True)).to_contain_text(
            "has a lamp"
        )
        expect(here).to_be_in_viewport()
    web.open(f"/memory/documents?doc={created.id}&seq=107")
    expect(page.get_by_role("article", name="Passage 107", exact=True)).to_be_in_viewport()
    page.mouse.move(640, 500)
    page.mouse.wheel(0, -3000)
    expect(page.get_by_role("article", name="Passage 107", exact=True)).not_to_be_in_viewport()
    page.wait_for_timeout(1000)  # what stands before it is read by then
    expect(
        page.get_by_role("article", name="Passage 107", exact=True)
    ).not_to_be_in_viewport()  # nobody is taken back
