"""The TypeScript client in a browser, on a page of the server's own origin."""

from __future__ import annotations

from playwright.sync_api import Route

from testkit.browser import Web
from testkit.typescript import CLIENT, node

PROGRAM = """async () => {
  const { Memorist } = await import("/client/index.js");
  const me = new Memorist({ url: location.origin }).scope({ user: "zoë", agent: "scout" });
  const session = await me.sessions.resume();
  await me.messages.append(session.id, "user", "My sister Clara moved to Lisbon.");
  const { hits } = await me.search("where does Clara live", { limit: 1 });
  const events = [];
  for await (const { event } of me.chatStream("Where does Clara live?")) events.push(event);
  return [hits[0].text, events[0], events.at(-1)];
}"""


def test_the_client_runs_in_a_browser(web: Web) -> None:
    node()  # builds it
    page = web.open("/")

    def send_file(route: Route) -> None:
        name = route.request.url.rpartition("/")[2]
        route.fulfill(path=CLIENT / "dist" / name, content_type="text/javascript")

    page.route("**/client/*.js", send_file)
    result = page.evaluate(PROGRAM)
    assert result == ["My sister Clara moved to Lisbon.", "start", "message"]
