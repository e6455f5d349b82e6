"""The pages in a real browser: what they show, ask for and complain of."""

import gzip
import itertools
import json
import math
import os
import random
import re
import subprocess
import time
import urllib.parse
from pathlib import Path

import proofs
import pytest
from chromium import Chromium
from net_yard import NetYard
from program import PATIENCE, PROGRAM, free_port

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


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Chromium(tmp_path_factory.mktemp("browser")) as started:
        yield started


@pytest.fixture
def open_page(browser):
    with browser.context() as context:
        def start(yard, path="/"):
            page_or_skip(yard)
            return browser.open(f"http://127.0.0.1:{yard.port}{path}", context)
        yield start


def shows_live(page):
    page.wait_for("document.querySelector('header .good')?.textContent === 'live'")


def test_front_page_has_values_without_script(shared):
    yard = shared("--simulate", "8")
    document = page_or_skip(yard)
    assert document.count("<tr><th scope=\"row\">") == 8
    assert "H100" in document and " W</td>" in document and "&deg;C" in document
    text = yard.get("/", headers={"Accept": "*/*"})
    assert text.headers["content-type"].startswith("text/plain") and "BOTTLENECK" in text.text


def test_pages_send_strict_csp_and_reject_unknown_parameters(shared):
    yard = shared("--simulate", "8")
    for path in [*VIEWS, "/login"]:
        answer = yard.get(path, headers=HTML)
        policy = answer.headers["content-security-policy"]
        assert answer.status == 200 and "default-src 'none'" in policy, path
        assert "require-trusted-types-for 'script'" in policy and "unsafe" not in policy
    assert yard.get("/?f=temp%3E80&sort=-util&gpu=3&t=15m", headers=HTML).status == 200
    assert yard.get("/?nonsense=1", headers=HTML).status == 400
    assert yard.get("/page/page.js.map").status == 404


def luminance(colour):
    parts = [int(colour[at:at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_text_and_marks_stand_out_from_both_grounds():
    """WCAG 1.4.3 and 1.4.11: 4.5 to 1 for text, 3 to 1 for what is drawn."""
    style = (ROOT / "web/page/page.css").read_text()
    themes = [dict(re.findall(r"--([a-z]+): (#[0-9a-f]{6});", block))
              for block in re.findall(r":root \{(.*?)\}", style, re.DOTALL)]
    assert len(themes) == 2
    for theme in themes:
        for ground in ("ground", "raised", "chosen"):
            for name, least in [(text, 4.5) for text in ("text", "quiet", "link", "good", "bad", "past")] + [
                    (mark, 3) for mark in ("line", "cap", "heat")]:
                light, dark = sorted((luminance(theme[name]), luminance(theme[ground])), reverse=True)
                assert (light + 0.05) / (dark + 0.05) >= least, f"{name} on {ground}: {theme}"


def test_the_first_load_is_small(shared):
    """At most 70 kB in five requests, and 60 kB of script (the design's bars)."""
    yard = shared("--simulate", "8")
    packed = {path: len(gzip.compress(yard.get(path, headers=HTML).text.encode(), 9))
              for path in (page_or_skip(yard) and ["/", "/page/page.js", "/page/page.css", "/page/icon.svg"])}
    assert packed["/page/page.js"] <= 60_000, packed
    assert sum(packed.values()) <= 70_000, packed


def findings(page):
    """Returns the findings of axe."""
    return page.evaluate_later(
        "axe.run({runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa']}).then(({violations}) =>"
        " violations.map(({id, nodes}) => id + ': ' + nodes.map(({html}) => html.slice(0, 200)).join(' ')))")


def bring_axe(page):
    axe = (ROOT / "build/web/node_modules/axe-core/axe.min.js").read_text()
    page.evaluate("var module = undefined; " + axe + "; 0")


def test_pages_are_accessible_and_contact_only_daemon(shared, open_page, record_property):
    record_property("contract", "E12")
    yard = shared("--simulate", "8")
    page = open_page(yard)
    shows_live(page)
    origin = f"http://127.0.0.1:{yard.port}/"
    page.evaluate("window.violations = []; addEventListener('securitypolicyviolation',"
                  " (event) => violations.push(event.violatedDirective))")
    bring_axe(page)
    for path, width, dark in itertools.product(VIEWS, (1280, 360), (False, True)):
        page.look(width, 720, dark)
        lead(page, path)
        page.wait_for("!document.body?.innerText.includes('loading…')")
        assert findings(page) == [], f"{path} {width} px {'dark' if dark else 'light'}"
        assert page.evaluate("document.documentElement.scrollWidth") <= width, f"{path} is wider than {width} px"
    assert [url for url in page.requests if not url.startswith(origin)] == []
    assert page.evaluate("violations") == []
    # The audit is refused to an anonymous client, and the browser's console says so.
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


def test_filter_and_order_are_in_address(shared, open_page):
    yard = shared("--simulate", "8")
    page = open_page(yard, "/?f=gpu%3E%3D6&sort=-gpu")
    shows_live(page)
    first_cells = "[...document.querySelectorAll('table.gpus tbody tr')].map((row) => row.cells[0].textContent).join()"
    page.wait_for(f"{first_cells} === '7,6'")
    page.type("#filter", "(gpu<2 | gpu>6) & model~h100")
    page.wait_for(f"{first_cells} === '7,1,0'")
    assert "f=" in page.evaluate("location.search")
    page.type("#filter", "gpu>>2")
    page.wait_for("document.querySelector('#filter-error').textContent === 'column 5: \">\" needs a value'")


def test_page_filter_passes_shared_cases(browser):
    """web/page/filter.js over tests/data/filters.json, which the terminal's filter is held to as well."""
    cases = json.loads((ROOT / "tests/data/filters.json").read_text())
    module = (ROOT / "web/page/filter.js").read_text().replace("export ", "")
    blank = browser.open("about:blank")
    passing, columns = json.loads(blank.evaluate(f"""(() => {{ {module}
      const {{ fields, rows, passes, errors }} = {json.dumps(cases)};
      const column_of = (text) => {{ try {{ filter_of(text, fields); }} catch (error) {{ return error.column; }} }};
      return JSON.stringify([
        passes.map(({{ filter }}) => rows.flatMap((row, at) => (filter_of(filter, fields)(row) ? [at] : []))),
        errors.map(({{ filter }}) => column_of(filter))]); }})()"""))
    assert [(case["filter"], got) for case, got in zip(cases["passes"], passing, strict=True)] == \
        [(case["filter"], case["rows"]) for case in cases["passes"]]
    assert [(case["filter"], got) for case, got in zip(cases["errors"], columns, strict=True)] == \
        [(case["filter"], case["column"]) for case in cases["errors"]]


def test_same_address_shows_same_state(shared, open_page):
    """Random states: the page that was led there and one that opens there show the same."""
    yard = shared("--simulate", "8")
    drawn = random.Random(17)
    shown = ("JSON.stringify([document.querySelector('#filter')?.value, document.querySelector('h1').textContent,"
             " [...document.querySelectorAll('main tbody tr')].map((row) => [row.cells[0].textContent,"
             " row.getAttribute('aria-current')]), [...document.querySelectorAll('select')].map((one) => one.value), document.querySelector('#filter-error')?.textContent,"
             " document.querySelector('.past')?.textContent.split(',')[0]])")
    led = open_page(yard)
    shows_live(led)
    opened = led.another(f"http://127.0.0.1:{yard.port}/queue")
    at = yard.get("/api/gpu/snapshot").json()["taken_at"]
    for _ in range(50):
        path = drawn.choice(["/", "/", "/", "/gpu/3", "/usage"])
        state = {"/": {"f": drawn.choice(["", "gpu>2", "h100 & gpu!=4", "(gpu<2 | gpu>5) & !why~lost", "gpu>>1"]),
                       "sort": drawn.choice(["", "-gpu", "gpu"]), "gpu": drawn.choice(["", "5", "0"]),
                       "at": drawn.choice(["", "", at])},
                 "/gpu/3": drawn.choice([{"t": ""}, {"t": "1h"}, {"t": "7d"}, {"from": at, "to": at[:-1] + "9Z"}]),
                 "/usage": {"t": drawn.choice(["", "30d"]), "by": drawn.choice(["", "day", "gpu", "lease"])}}[path]
        query = urllib.parse.urlencode({name: value for name, value in state.items() if value})
        address = f"{path}?{query}" if query else path
        lead(led, address)
        load(opened, f"http://127.0.0.1:{yard.port}{address}")
        for page in (led, opened):
            page.wait_for(f"location.href.endsWith({json.dumps(address)}) && !document.body.innerText.includes('loading…')"
                          " && (document.querySelector('main tbody tr') || location.pathname === '/gpu/3')")
        # Parts of a page that ask a question of their own come when it is answered; what has changed
        # between the two loads is there after the longest interval, a minute.
        deadline = time.monotonic() + 2 * PATIENCE
        while (here := led.evaluate(shown)) != (there := opened.evaluate(shown)) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert here == there, address


def test_returning_daemon_reconnects_without_page_reload(daemon, open_page):
    yard = daemon("--simulate", "2")
    page = open_page(yard)
    shows_live(page)
    page.evaluate("window.same = true")
    yard.stop()
    page.wait_for("document.querySelector('header .bad')?.textContent.startsWith('disconnected')")
    daemon("--simulate", "2", "--listen", f"127.0.0.1:{yard.port}", directory=yard.directory)
    shows_live(page)
    assert page.evaluate("window.same") is True


def test_eight_tabs_share_one_stream(daemon, open_page):
    yard = daemon("--simulate", "2")
    pages = [open_page(yard) for _ in range(8)]
    for page in pages:
        page.wait_for("document.querySelectorAll('table.gpus tbody tr').length === 2 &&"
                      " document.querySelector('header .good')?.textContent === 'live'")
    streams = sum(sum("/events" in url for url in page.requests) for page in pages)
    assert streams == 1
    turn = "document.querySelector('table.gpus tbody').innerText"
    for page in pages:
        before = page.evaluate(turn)
        page.wait_for(f"{turn} !== {json.dumps(before)}")


def test_address_can_name_a_past_moment(daemon, open_page):
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
    # A moment of which nothing is kept has no numbers, and nothing can be done to it.
    early = page.another(f"http://127.0.0.1:{yard.port}/?at=10m")
    early.wait_for("document.querySelector('main')?.innerText.includes('no data for this time')")
    assert "NaN" not in early.text() and early.evaluate("document.querySelectorAll('.action').length") == 0


def test_user_text_is_not_rendered_as_html(daemon, run, open_page):
    yard = daemon("--simulate", "2")
    page_or_skip(yard)
    note = "<img src=x onerror=alert(1)><b>bold</b>"
    done = run("cordon", "0", "--reason", note, GPUYARD_SOCKET=yard.socket)
    assert done.returncode == 0, done.stderr
    page = open_page(yard, "/queue")
    page.wait_for(f"document.querySelector('main')?.innerText.includes({json.dumps(note)})")
    assert page.evaluate("document.querySelectorAll('main img, main b').length") == 0
    assert page.complaints == []


def test_page_over_plain_http_only_shows_commands(shared, open_page):
    page = open_page(shared("--simulate", "8"), "/login")
    page.wait_for("document.body?.innerText.includes('gpuyard tls init')")
    assert page.evaluate("document.querySelectorAll('.action > button, input[type=password]').length") == 0


@pytest.fixture
def https_page(daemon, tmp_path):
    """A page over TLS with a token that may change things, and its daemon."""
    yard = NetYard(daemon, tmp_path, more='[control]\nenabled = true\nreset_command = ["true", "{index}"]')
    page_or_skip(yard.daemon)
    token = yard.make_token("browser", "--scope", "control")
    pin = yard.pin.removeprefix("sha256//")
    with Chromium(tmp_path, f"--ignore-certificate-errors-spki-list={pin}") as browser:
        page = browser.open(yard.host + "/")
        page.wait_for("location.pathname === '/login' && document.querySelector('input[type=password]')")
        log_in(page, token)
        yield page, yard, token


def test_a_tab_of_another_daemon_gets_no_token(daemon, tmp_path):
    """The address leads to another daemon later, as the end of a tunnel can."""
    port = free_port()
    yard = NetYard(daemon, tmp_path,
                   before=lambda net: net.config.write_text(net.config.read_text().replace(":0", f":{port}")))
    page_or_skip(yard.daemon)
    token = yard.make_token("browser", "--scope", "read")
    pin = yard.pin.removeprefix("sha256//")
    with Chromium(tmp_path, f"--ignore-certificate-errors-spki-list={pin}") as browser:
        page = browser.open(yard.host + "/")
        log_in(page, token)
        shows_live(page.another(yard.host + "/"))  # a tab of the same daemon gets it
        yard.daemon.kill()
        daemon("--simulate", "2", "--config", str(yard.config), directory=tmp_path)
        other = page.another(yard.host + "/")
        other.wait_for("document.querySelector('input[type=password]')")
        time.sleep(1)  # the first tab would have answered by now
        assert other.evaluate("document.querySelector('header .bad')?.textContent") == "token required"


def log_in(page, token):
    page.wait_for("document.querySelector('#token')")
    page.type("#token", token)
    page.evaluate("document.querySelector('main form').requestSubmit()")
    page.wait_for("location.pathname === '/'")
    shows_live(page)


def load(page, url):
    """Loads another document into the tab."""
    page.evaluate("window.old = true")
    page.call("Page.navigate", {"url": url})
    page.wait_for("!window.old && document.querySelector('nav')")


def lead(page, path):
    """Leads the open page to another address of its own."""
    page.evaluate(f"history.pushState(null, '', {json.dumps(path)}); dispatchEvent(new PopStateEvent('popstate')); 0")


def press(page, title):
    page.wait_for(f"[...document.querySelectorAll('.action > button')].some((one) => one.textContent === '{title}')")
    page.evaluate(f"[...document.querySelectorAll('.action > button')].find((one) => one.textContent === '{title}').click()")
    page.wait_for("document.querySelector('dialog[open]')")


SUBMIT = "document.querySelector('dialog form').requestSubmit()"


def act(page, title, **values):
    """Presses a button, fills in its plan, and confirms it; returns the page's message."""
    page.evaluate("document.querySelector('.last button[aria-label]')?.click()")
    press(page, title)
    for name, value in values.items():
        page.type(f"dialog input[name={name}]", value)
    page.evaluate(SUBMIT)
    page.wait_for("!document.querySelector('dialog') && document.querySelector('.last p')")
    return page.evaluate("document.querySelector('.last').innerText")


def undo(page):
    """Undoes the last change with the button that it left."""
    line = page.evaluate("document.querySelector('.last').innerText")
    press(page, "Undo")
    page.evaluate(SUBMIT)
    page.wait_for(f"!document.querySelector('dialog') && document.querySelector('.last').innerText !== {json.dumps(line)}")
    return page.evaluate("document.querySelector('.last').innerText")


def test_the_last_change_can_be_undone(https_page):
    page, yard, _ = https_page
    lead(page, "/gpu/0")
    assert "700 W before, 450 W now" in act(page, "Cap power", watts="450", proof="0")
    page.wait_for("document.querySelector('main').innerText.includes('450 W, applied')")
    assert "gpuyard power 0 --restore" in page.evaluate("document.querySelector('.last').innerText")
    assert "450 W before, 700 W now" in undo(page)
    page.wait_for("document.querySelector('main').innerText.includes('No settings have been changed.')")
    act(page, "Cap power", watts="500", proof="0")
    assert "500 W before, 700 W now" in act(page, "Restore")

    def cordoned():
        return [one["index"] for one in yard.daemon.get("/api/gpu/queue").json()["withheld"] if one["why"] == "cordoned"]
    act(page, "Cordon", reason="fan replacement", proof="0")
    assert cordoned() == [0]
    undo(page)
    assert cordoned() == []

    yard.daemon.sim("inject", "--gpu", "0", "--xid", "48")
    lead(page, "/alerts")
    act(page, "Silence")
    assert len(yard.daemon.get("/api/gpu/silences").json()["silences"]) == 1
    undo(page)
    assert yard.daemon.get("/api/gpu/silences").json()["silences"] == []
    act(page, "Acknowledge", note="the GPU is replaced")
    acknowledged = yard.daemon.get("/api/gpu/alerts").json()["alerts"][0]["acknowledged"]
    assert acknowledged["note"] == "the GPU is replaced"
    assert "delivered within" in act(page, "Test")


def test_a_gpu_is_capped_with_the_keyboard_alone(https_page):
    page, yard, _ = https_page
    focused = "document.activeElement.textContent || document.activeElement.name"

    def tab_to(wanted):
        for _ in range(120):
            if page.evaluate(focused) == wanted and page.evaluate("document.activeElement !== document.body"):
                assert page.evaluate("document.activeElement.matches(':focus-visible') &&"
                                     " getComputedStyle(document.activeElement).outlineStyle") == "solid", wanted
                return
            page.key("Tab")
        pytest.fail(f"Tab never came to {wanted}")

    def write(text):
        page.evaluate("document.activeElement.select()")
        page.call("Input.insertText", {"text": text})
    bring_axe(page)
    page.wait_for("document.querySelectorAll('table.gpus tbody tr').length === 2")
    page.key("j")
    page.wait_for("location.search === '?gpu=0' && document.querySelector('tr[aria-current]')")
    page.key("j")
    page.wait_for("location.search === '?gpu=1'")
    tab_to("Cap power")
    page.key("Enter")
    page.wait_for("document.querySelector('dialog[open]')")
    page.key("Escape")
    page.wait_for("!document.querySelector('dialog')")
    tab_to("Cap power")
    page.key("Enter")
    page.wait_for("document.querySelector('dialog[open]')")
    tab_to("watts")
    write("450")
    page.wait_for("document.querySelector('dialog .plan')?.textContent === '700 W now, 450 W then'")
    assert findings(page) == []
    tab_to("proof")
    write("1")
    page.key("Enter")
    page.wait_for("document.querySelector('.last p')?.innerText.includes('700 W before, 450 W now')")
    tab_to("Undo")
    page.key("Enter")
    page.wait_for("document.querySelector('dialog .plan')?.textContent === '450 W now, 700 W then'")
    assert findings(page) == []
    tab_to("Apply")
    page.key("Enter")
    page.wait_for("document.querySelector('.last p')?.innerText.includes('450 W before, 700 W now')")
    assert [one["outcome"] for one in yard.daemon.get("/api/gpu/manage/audit", unix=True).json()["entries"][-2:]] == ["applied", "restored"]


def test_every_key_counts_on_a_busy_page(shared, open_page):
    page = open_page(shared("--simulate", "8"))
    shows_live(page)
    page.wait_for("document.querySelectorAll('table.gpus tbody tr').length === 8")
    page.keys_while_busy(*"jjjjk")
    assert page.evaluate("location.search") == "?gpu=2"
    page.keys_while_busy("j", "Enter", "Escape", "j", "j")
    assert page.evaluate("location.pathname + location.search") == "/?gpu=1"


def test_escape_closes_a_plan_not_drawn_yet(https_page):
    page, _, _ = https_page
    page.wait_for("document.querySelector('.action > button')")
    page.evaluate("document.querySelector('.action > button').focus()")
    page.keys_while_busy("Enter", "Escape")
    page.wait_for("!document.querySelector('dialog')")
    page.key("Enter")
    page.wait_for("document.querySelector('dialog[open]')")


def test_steps_into_past_do_not_wait_for_responses(shared, open_page):
    page = open_page(shared("--simulate", "8"), "/?at=2026-01-07T10:00:00.000Z")
    page.wait_for("document.querySelector('header .past')")
    page.keys_while_busy(*"[[[")
    assert page.evaluate("new URLSearchParams(location.search).get('at')") == "2026-01-07T09:57:00.000Z"


def test_only_an_administrator_resets_a_gpu(https_page):
    page, yard, _ = https_page
    lead(page, "/gpu/1")
    press(page, "Reset")
    page.wait_for("document.querySelector('dialog .bad').textContent.includes('admin')")
    page.evaluate("document.querySelector('dialog').close()")
    token = yard.make_token("administrator", "--scope", "admin")
    lead(page, "/login")
    log_in(page, token)
    lead(page, "/gpu/1")
    press(page, "Reset")
    page.wait_for("document.querySelector('dialog .plan')")
    page.type("dialog input[name=proof]", "0")
    page.evaluate(SUBMIT)  # another GPU's number
    assert page.evaluate("document.querySelector('dialog').open")
    page.type("dialog input[name=proof]", "1")
    page.evaluate(SUBMIT)
    page.wait_for("!document.querySelector('dialog')")
    last = yard.daemon.get("/api/gpu/manage/audit", unix=True).json()["entries"][-1]
    assert (last["action"], last["index"], last["outcome"]) == ("reset", 1, "reset")


def test_unleased_process_is_shown_while_running(daemon, open_page):
    yard = daemon("--simulate", "2")
    page = open_page(yard, "/queue")
    page.wait_for("document.querySelector('main')?.innerText.includes('No process uses a GPU without a lease.')")
    with subprocess.Popen(["sleep", "600"]) as process:
        try:
            yard.sim("attach", "--gpu", "0", "--pid", str(process.pid))
            page.wait_for(f"document.querySelector('main').innerText.includes('gpuyard lease adopt --pid {process.pid}')")
        finally:
            process.kill()


def test_page_with_token_acts_after_a_plan(https_page):
    page, yard, token = https_page

    def limit():
        settings = yard.daemon.get("/api/gpu/manage", unix=True).json()["gpus"][0]["settings"]
        return next(one["now"]["power_limit_mw"] for one in settings if one["setting"] == "power_limit")
    before = limit()
    press(page, "Cap power")
    page.type("dialog input[name=watts]", "450")
    page.wait_for("document.querySelector('dialog .plan')?.textContent === '700 W now, 450 W then'")
    assert "gpuyard power 0 450 --for 30m" in page.evaluate("document.querySelector('dialog').innerText")
    page.evaluate(SUBMIT)  # nothing has been typed to prove that it is meant
    assert limit() == before
    page.type("dialog input[name=watts]", "9999")
    page.wait_for("document.querySelector('dialog .bad').textContent !== ''")
    page.type("dialog input[name=watts]", "450")
    page.type("dialog input[name=proof]", "0")
    page.evaluate(SUBMIT)
    page.wait_for("!document.querySelector('dialog')")
    assert limit() == 450000

    page.evaluate("document.querySelector('a[href=\"/queue\"]').click()")
    press(page, "Lease")
    page.evaluate(SUBMIT)
    page.wait_for("[...document.querySelectorAll('.action > button')].some((one) => one.textContent === 'Release')")
    leases = yard.daemon.get("/api/gpu/leases").json()["leases"]
    assert len(leases) == 1 and leases[0]["binding"] == "detached"
    press(page, "Release")
    page.type("dialog input[name=proof]", leases[0]["user"] or str(leases[0]["uid"]))
    page.evaluate(SUBMIT)
    page.wait_for("document.body?.innerText.includes('No GPUs are leased.')")
    assert yard.daemon.get("/api/gpu/leases").json()["leases"] == []

    page.evaluate("document.querySelector('a[href=\"/\"]').click()")
    page.wait_for("document.querySelector('table.gpus a')")
    page.evaluate("document.querySelector('table.gpus a').click()")
    page.wait_for("document.querySelector('.timeline-marks .mark.done title')?.textContent.includes('set power_limit to 450 W')")
    page.evaluate("document.querySelector('a[href=\"/audit\"]').click()")
    page.wait_for("document.querySelector('main')?.innerText.includes('set power_limit to 450 W')")
    # The token is in no address, and nowhere that outlives the tabs.
    assert token not in page.evaluate("JSON.stringify([location.href, document.cookie, {...localStorage},"
                                      " {...sessionStorage}, history.state])")
    assert [url for url in page.requests if token in url] == []
    assert token not in yard.daemon.log()


def test_lost_gpu_keeps_row_and_one_event(daemon, open_page):
    yard = daemon("--simulate", "2")
    page = open_page(yard)
    shows_live(page)
    yard.sim("inject", "--gpu", "1", "--lost")
    row = "document.querySelectorAll('table.gpus tbody tr')[1]"
    page.wait_for(f"{row}?.querySelector('.bad')")
    assert page.evaluate("document.querySelectorAll('table.gpus tbody tr').length") == 2
    assert "–" in page.evaluate(f"{row}.innerText"), "an unknown value is not zero"
    told = "[...document.querySelectorAll('.events li')].filter((one) => one.innerText.includes('(GPU is lost)')).length"
    page.wait_for(f"{told} > 0")
    page.listen(2)
    assert page.evaluate(told) == 1


def test_hidden_tab_notifies_once_when_claim_granted(daemon, run, open_page):
    yard = daemon("--simulate", "1")
    page_or_skip(yard)

    def lease(*words):
        done = run("lease", *words, GPUYARD_SOCKET=yard.socket)
        assert done.returncode == 0, done.stderr
        return done.stdout
    yard.sim("load", "--gpu", "0", "idle")
    first = json.loads(lease("take", "--for", "1h", "--json"))["lease"]["id"]
    waiting = subprocess.Popen([PROGRAM, "lease", "take", "--for", "1h"], env={**os.environ, "GPUYARD_SOCKET": yard.socket},
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        page = open_page(yard, "/queue")
        page.evaluate("window.told = []; Object.defineProperty(window, 'Notification', {value: class {"
                      " static permission = 'default';"
                      " static async requestPermission() { return (this.permission = 'granted'); }"
                      " constructor(title, {body}) { told.push(`${title}: ${body}`); } }}); 0")
        button = "[...document.querySelectorAll('button')].find((one) => one.textContent === 'notify me')"
        page.wait_for(button)
        page.evaluate(f"{button}.click()")
        page.wait_for("document.querySelector('button[aria-pressed=true]')?.textContent === 'notification on'")
        page.hide()
        while not any(url.endswith("samples=none") for url in page.requests):
            page.listen(1)
        assert page.evaluate("told.length") == 0
        lease("release", first)
        page.wait_for("told.length > 0")
        assert waiting.wait(PATIENCE) == 0
    finally:
        waiting.kill()
        waiting.wait()
    got = yard.get("/api/gpu/leases").json()["leases"][0]["id"]
    lease("release", got)
    page.listen(2)
    assert page.evaluate("told") == [f"Your GPUs are ready: You now hold GPU 0 (lease {got})."]
    page.call("Page.bringToFront")
    page.wait_for("document.querySelector('main').innerText.includes('No GPUs are leased.')")
    shows_live(page)


def test_gpu_events_and_bottlenecks_appear_on_timeline(daemon, open_page):
    yard = daemon("--simulate", "2")
    page_or_skip(yard)
    yard.sim("inject", "--gpu", "1", "--xid", "48")
    page = open_page(yard, "/gpu/1")
    page.wait_for("document.querySelector('.timeline-marks .mark.critical title')?.textContent.includes('Xid 48')")
    page.evaluate("document.querySelector('.timeline-rows').focus()")
    page.key("Home")
    page.wait_for("document.querySelector('.timeline .spoken').textContent.includes('Xid 48')")
    page.evaluate("[...document.querySelectorAll('button')].find((one) => one.textContent === 't show as table').click()")
    page.wait_for("document.querySelector('.timeline tbody')?.innerText.includes('critical: GPU 1: Xid 48')")
    yard.sim("inject", "--gpu", "1", "--lost")
    page.wait_for("document.querySelector('.timeline tbody')?.innerText.includes('bottleneck: lost')")
    page.wait_for("document.querySelector('[aria-label^=\"Bottlenecks\"] tbody')?.innerText.includes('lost')")
    assert page.complaints == []


STRIP = ("Object.fromEntries([...document.querySelectorAll('dl.strip div')].map((one) => "
         "[one.querySelector('dt').textContent, one.querySelector('dd').textContent]))")


def test_header_lists_models_and_marks_partial_sums(daemon, open_page):
    yard = daemon("--simulate", "6", "--model", "rtx4090:2,h100:2,a100,t4")
    page = open_page(yard)
    shows_live(page)
    page.wait_for(f"{STRIP}.GPUs === '2 RTX 4090, 2 H100, A100, T4'")
    yard.sim("inject", "--gpu", "0", "--call", "power_usage", "--code", "3")
    page.wait_for(f"/^[0-9.]+ k?W\\+ of [0-9.]+ k?W$/.test({STRIP}.Power)")
    row = {"key": "x", "gpu_hours": 1, "energy_kwh": None, "energy_estimated": False, "estimate": None,
           "energy_unknown_gpu_hours": 1, "mean_utilization_percent": None, "peak_memory_bytes": None, "leases": 1}

    def today(*rows):
        answer = json.dumps({"schema": 1, "since": "2026-01-31", "rows": [row | one for one in rows], "notes": [],
                             "rows_left_out": 0, "unleased": row | {"gpu_hours": 0, "energy_unknown_gpu_hours": 0}})
        page.evaluate("window.honest ??= fetch; window.fetch = async (url, options) => url.includes('/api/gpu/usage') "
                      f"? Response.json({answer}) : honest(url, options); 0")
        lead(page, "/usage")
        page.wait_for("document.querySelector('main caption')?.textContent.startsWith('GPU-hours and energy')")
        cells = "[...document.querySelectorAll('main tbody tr')].map((row) => row.cells[3].textContent)"
        return page.evaluate(cells)
    assert today({}) == ["–", "–"], "no energy is known, and none is not zero"
    lead(page, "/")
    assert today({}, {"energy_kwh": 2.5}, {"energy_kwh": 1.25, "energy_unknown_gpu_hours": 0}) == [
        "–", "2.50+", "1.25", "–"]


def test_unknown_hours_in_heatmap_are_not_zero(shared, open_page):
    page = open_page(shared("--simulate", "8"))
    shows_live(page)
    # Two GPUs from Wednesday, 7 January 2026, 10:00 on, by the browser's clock; one hour of it by one alone.
    page.evaluate("""window.honest = fetch; window.fetch = async (url, options) => !url.includes('metrics=util&')
        ? honest(url, options) : Response.json({series: [[20, null, 0], [40, 91, null]].map((mean) => (
            {first_ms: new Date(2026, 0, 7, 10).getTime(), step_ms: 3600000, mean}))}); 0""")
    lead(page, "/usage")
    page.wait_for("document.querySelectorAll('.week-heatmap .heat-box').length === 168")
    known = "[...document.querySelectorAll('.week-heatmap .heat-box:not(.hunknown) title')].map((one) => one.textContent)"
    assert page.evaluate(known) == ["Wednesday 10:00: 30 %", "Wednesday 11:00: 91 %", "Wednesday 12:00: 0 %"]
    page.key("t")
    page.wait_for("document.querySelector('figure table')")
    cells = "[...document.querySelectorAll('figure tbody tr')].map((row) => [...row.cells].map((one) => one.textContent))"
    rows = page.evaluate(cells)
    assert rows[2] == ["Wednesday", *["–"] * 10, "30", "91", "0", *["–"] * 11]
    assert all(cell == "–" for row in rows[:2] + rows[3:] for cell in row[1:])


def test_hidden_tab_stops_streaming_until_visible(daemon, open_page):
    yard = daemon("--simulate", "2")
    page = open_page(yard)
    shows_live(page)
    page.hide()
    page.wait_for("document.hidden")
    page.listen(7)
    page.received = 0
    page.listen(4)
    assert page.received == 0
    page.call("Page.bringToFront")
    page.listen(1)
    shows_live(page)
    page.listen(3)
    assert page.received > 0


def test_ten_thousand_processes_leave_the_page_quick(daemon, open_page):
    yard = daemon("--simulate", "1")
    page_or_skip(yard)
    yard.sim("attach", "--synthetic", "10000", "--gpu", "0", "--vram", "1M")
    page = open_page(yard, "/gpu/0")
    page.wait_for("[...document.querySelectorAll('caption')].some((one) => one.textContent.includes('there are more'))")
    assert page.evaluate("document.querySelectorAll('main tr').length") < 300
    assert page.evaluate("document.querySelectorAll('.timeline-marks .mark').length") <= 200
    shows_live(page)
    page.call("Performance.enable")
    metrics = {one["name"]: one["value"] for one in page.call("Performance.getMetrics")["metrics"]}
    assert metrics["JSHeapUsedSize"] < 25 * 2**20


def test_link_to_moment_shows_readings_of_that_moment(shared, open_page):
    """The daemon is as old as the tests before are long: minutes, in a whole run."""
    yard = shared("--simulate", "8")
    page = open_page(yard)
    shows_live(page)
    page.evaluate("window.links = []; Object.defineProperty(navigator, 'clipboard',"
                  " {value: {writeText: async (text) => { links.push(text); }}}); 0")
    numbers = "[...document.querySelectorAll('table.gpus td.figure')].map((one) => one.textContent).join(' ')"
    page.key("s")
    page.wait_for("links.length === 1")
    link = page.evaluate("links[0]")
    moment = urllib.parse.parse_qs(urllib.parse.urlsplit(link).query)["at"][0]
    kept = yard.get("/api/gpu/history?metrics=power&since=1h&points=20000").json()["series"][0]
    oldest = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(kept["first_ms"] / 1000 + 3))
    for at in (moment, oldest):
        shown = []
        for _ in range(2):
            load(page, link.replace(urllib.parse.quote(moment, safe=""), urllib.parse.quote(at, safe="")))
            page.wait_for("document.querySelectorAll('table.gpus tbody tr').length === 8")
            shown.append(page.evaluate(numbers))
        assert shown[0] == shown[1]
        then = yard.get(f"/api/gpu/snapshot?at={at}").json()["devices"]
        # The page rounds half a watt up, Python's format to the even number.
        assert [int(watts) for watts in re.findall(r"(\d+) of \d+ W", shown[0])] == [
            math.floor(device["readings"]["power_draw_w"] + 0.5) for device in then]
