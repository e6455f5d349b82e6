"""The pages in a real browser: what they show, ask for and complain of."""

import gzip
import json
import time
from pathlib import Path

import proofs
import pytest
from chromium import Chromium

ROOT = Path(__file__).resolve().parents[2]
PROOF = "pages in Chromium"
SKIPPED = "skipped (no npm, or its registry does not answer)"
VIEWS = ["/", "/gpu/0", "/queue", "/alerts", "/usage", "/audit"]
HTML = {"Accept": "text/html"}


def page_or_skip(yard):
    document = yard.get("/", headers=HTML).text
    if "built without its page" in document:
        proofs.record(PROOF, SKIPPED)
        pytest.skip("built without the files of the pages")
    return document


@pytest.fixture
def open_page(tmp_path):
    with Chromium(tmp_path) as browser:
        def start(yard, path="/"):
            page_or_skip(yard)
            return browser.open(f"http://127.0.0.1:{yard.port}{path}")
        yield start


def shows_live(page):
    page.wait_for("document.querySelector('header .good')?.textContent === 'live'")


def test_the_front_page_has_the_values_without_a_script(shared):
    yard = shared("--simulate", "8")
    document = page_or_skip(yard)
    assert document.count("<tr><th scope=\"row\">") == 8
    assert "H100" in document and " W</td>" in document and "&deg;C" in document
    text = yard.get("/", headers={"Accept": "*/*"})
    assert text.headers["content-type"].startswith("text/plain") and "WHY SLOW" in text.text


def test_every_page_is_strict_about_what_it_takes(shared):
    yard = shared("--simulate", "8")
    for path in [*VIEWS, "/login"]:
        answer = yard.get(path, headers=HTML)
        policy = answer.headers["content-security-policy"]
        assert answer.status == 200 and "default-src 'none'" in policy, path
        assert "require-trusted-types-for 'script'" in policy and "unsafe" not in policy
    assert yard.get("/?f=temp%3E80&sort=-util&gpu=3&t=15m", headers=HTML).status == 200
    assert yard.get("/?nonsense=1", headers=HTML).status == 400
    assert yard.get("/page/page.js.map").status == 404


def test_the_first_load_is_small(shared):
    """At most 70 kB in five requests, and 60 kB of script (the design's bars)."""
    yard = shared("--simulate", "8")
    packed = {path: len(gzip.compress(yard.get(path, headers=HTML).text.encode(), 9))
              for path in (page_or_skip(yard) and ["/", "/page/page.js", "/page/page.css", "/page/icon.svg"])}
    assert packed["/page/page.js"] <= 60_000, packed
    assert sum(packed.values()) <= 70_000, packed


def test_every_page_shows_itself_and_asks_nobody_else(shared, open_page, record_property):
    record_property("contract", "E12")
    yard = shared("--simulate", "8")
    page = open_page(yard)
    shows_live(page)
    origin = f"http://127.0.0.1:{yard.port}/"
    page.evaluate("window.violations = []; addEventListener('securitypolicyviolation',"
                  " (event) => violations.push(event.violatedDirective))")
    axe = (ROOT / "build/web/node_modules/axe-core/axe.min.js").read_text()
    page.evaluate("var module = undefined; " + axe + "; 0")
    for path in VIEWS:
        page.evaluate(f"history.pushState(null, '', '{path}'); dispatchEvent(new PopStateEvent('popstate')); 0")
        page.wait_for("!document.body.innerText.includes('asking…')")
        found = page.evaluate_later(
            "axe.run({runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa']}).then(({violations}) =>"
            " violations.map(({id, nodes}) => id + ': ' + nodes.map(({html}) => html.slice(0, 200)).join(' ')))")
        assert found == [], f"{path}: {found}"
    assert [url for url in page.requests if not url.startswith(origin)] == []
    assert page.evaluate("violations") == []
    # The audit is refused to who is nobody, and the browser's console says so.
    assert [said for said in page.complaints if "403" not in said and "401" not in said] == []
    proofs.record(PROOF, "ran")


def test_a_value_that_changes_is_on_the_page(daemon, open_page):
    yard = daemon("--simulate", "8")
    page = open_page(yard)
    shows_live(page)
    page.wait_for("document.querySelectorAll('table.gpus tbody tr').length === 8")
    cells = "[...document.querySelectorAll('table.gpus tbody tr')].map((row) => row.cells[6].textContent).join()"
    before = page.evaluate(cells)
    page.wait_for(f"{cells} !== {json.dumps(before)}")


def test_the_filter_and_the_order_are_in_the_address(shared, open_page):
    yard = shared("--simulate", "8")
    page = open_page(yard, "/?f=gpu%3E%3D6&sort=-gpu")
    shows_live(page)
    first_cells = "[...document.querySelectorAll('table.gpus tbody tr')].map((row) => row.cells[0].textContent).join()"
    page.wait_for(f"{first_cells} === '7,6'")
    page.evaluate("document.querySelector('#filter').value = 'gpu>>2';"
                  "document.querySelector('#filter').dispatchEvent(new Event('input', {bubbles: true})); 0")
    page.wait_for("document.querySelector('#filter-error').textContent === 'column 5: \">=\" needs a value' ||"
                  " document.querySelector('#filter-error').textContent.startsWith('column 5')")


def test_a_daemon_that_comes_back_is_shown_on_the_same_page(daemon, open_page):
    yard = daemon("--simulate", "2")
    page = open_page(yard)
    shows_live(page)
    page.evaluate("window.same = true")
    yard.stop()
    page.wait_for("document.querySelector('header .bad')?.textContent.startsWith('no daemon')")
    daemon("--simulate", "2", "--listen", f"127.0.0.1:{yard.port}", directory=yard.directory)
    shows_live(page)
    assert page.evaluate("window.same") is True


def test_eight_tabs_share_one_stream(daemon, tmp_path):
    yard = daemon("--simulate", "2")
    page_or_skip(yard)
    with Chromium(tmp_path) as browser:
        pages = [browser.open(f"http://127.0.0.1:{yard.port}/") for _ in range(8)]
        for page in pages:
            page.wait_for("document.querySelectorAll('table.gpus tbody tr').length === 2 &&"
                          " document.querySelector('header .good')?.textContent === 'live'")
        streams = sum(sum("/events" in url for url in page.requests) for page in pages)
        assert streams == 1
        turn = "document.querySelector('table.gpus tbody').innerText"
        for page in pages:
            before = page.evaluate(turn)
            page.wait_for(f"{turn} !== {json.dumps(before)}")


def test_the_past_is_an_address(daemon, open_page):
    yard = daemon("--simulate", "2")
    page_or_skip(yard)
    time.sleep(3)
    at = yard.get("/api/gpu/snapshot").json()["taken_at"]
    time.sleep(2)
    page = open_page(yard, f"/?at={at}")
    page.wait_for("document.querySelector('header .past')?.textContent === 'PAST'")
    page.wait_for("document.querySelectorAll('table.gpus tbody tr').length === 2")
    then = yard.get(f"/api/gpu/snapshot?at={at}").json()["devices"][0]["readings"]["power_draw_w"]
    assert f"{then:.0f} of" in page.text()
