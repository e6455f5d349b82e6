"""A compromised daemon: no command passes the control characters in its answers on to a terminal."""

import http.server
import json
import re
import subprocess
import threading

import pytest

from fake_leasing import Server
from program import PATIENCE, PROGRAM, clean_environment

# A window title, a colour that gpuyard never uses, C1 controls, changes of direction, and a forged line.
HOSTILE = "\x1b]0;PWN\x07\x1b[35m\x9b2J\u202e\u2066\x85\r\nFORGED line"
SEEN = "PWN"  # its printable part
FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]|^FORGED", re.MULTILINE)
# Names of fields with a form: ids, UUIDs and times.
FORMED = set("""id uuid lease pci_address operation job slurm_job slurm_step instance window silence device epoch at since
    until fired resolved asked granted ended expires made last_used in_clear revoked taken_at asked_at began_at ends_at
    began first_seen last_seen started_at ended_at failing_since covers_since started""".split())
# Readings with known words: an answer with an unknown one is refused as a whole.
KNOWN = set("""ecc_mode ecc_mode_pending row_remap_pending row_remap_failure retired_pages_pending persistence_mode
    compute_mode mig_mode mig_mode_pending recovery_action nvlink_active throttle_reasons""".split())
PATHS = re.compile(r"\{[a-z_]+\}")

READS = [
    ["devices"], ["devices", "0"], ["driver"], ["doctor"], ["processes"], ["processes", "--since", "1h"], ["energy"],
    ["why"], ["why", "--since", "1h"], ["history", "0", "--metric", "power"],
    ["history", "0", "--metric", "power", "--plot"], ["history", "0", "--metric", "power", "--csv"],
    ["query", "--fields", "name,uuid,driver_version,serial,pci.bus_id"], ["query", "--processes"],
    ["smi", "--query-gpu=name,uuid,driver_version"], ["watch", "--count", "1"],
    ["watch", "name", "uuid", "--count", "1"], ["events"], ["leases"], ["queue"], ["usage"], ["usage", "--csv"],
    ["free"], ["lease", "show", "77335b25eb082acc"], ["alerts"], ["alerts", "history"], ["alerts", "silences"],
    ["alerts", "rules"], ["alerts", "sinks"], ["power"], ["clocks"], ["persistence"], ["compute-mode"], ["ecc"],
    ["audit"], ["operations"], ["operations", "17-3"], ["token", "list"], ["slurm", "status"], ["top", "--once"],
    ["top", "--once", "--plain"], ["top", "--once", "--pane", "gpu"], ["top", "--once", "--pane", "alerts"],
    ["top", "--once", "--pane", "queue"], ["top", "--once", "--pane", "usage"], ["top", "--once", "--pane", "processes"],
    ["fleet", "--hosts", "unix://{socket}"], ["fleet", "gpus", "--hosts", "unix://{socket}"],
    ["fleet", "who", "--hosts", "unix://{socket}"], ["fleet", "free", "--hosts", "unix://{socket}"],
    ["fleet", "queue", "--hosts", "unix://{socket}"], ["fleet", "alerts", "--hosts", "unix://{socket}"],
    ["fleet", "usage", "--hosts", "unix://{socket}"], ["fleet", "doctor", "--hosts", "unix://{socket}"],
]
CHANGES = [
    ["power", "0", "300", "--yes"], ["power", "0", "300", "--dry-run"], ["ecc", "0", "on", "--yes"], ["restore", "0", "--yes"],
    ["reset", "0", "--yes"], ["cordon", "0", "--reason", "x"], ["uncordon", "0"], ["alerts", "ack", "1"],
    ["alerts", "silence", "--for", "1h"], ["alerts", "unsilence", "x"], ["alerts", "test"], ["token", "create", "x"],
    ["token", "revoke", "x"], ["lease", "renew", "77335b25eb082acc", "--for", "1h"],
    ["lease", "release", "77335b25eb082acc"], ["lease", "take", "-n", "1", "--for", "1h"],
    ["energy", "--", "true"], ["run", "--", "true"],
    ["slurm", "plan", "--hosts", "unix://{socket}", "--controller", "lab1", "--into", "/nonexistent/plan"],
]


class Answers:
    """The examples of the API's answers, with something hostile in each text."""

    def __init__(self, description):
        self.description = description
        self.manner = "texts"  # "all": also in ids and times; "errors": in the message of an error; "bytes": no JSON

    def example_of(self, method, path):
        for pattern, methods in self.description["paths"].items():
            if not re.fullmatch(PATHS.sub("[^/]+", pattern), path) or method not in methods:
                continue
            for status, answer in methods[method]["responses"].items():
                for kind, content in answer.get("content", {}).items():
                    if status.startswith("2") and "example" in content:
                        return int(status), kind, content
        return None

    def poisoned(self, value, schema, named=""):
        while "$ref" in schema:
            schema = self.description["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
        for choice in schema.get("anyOf", []) + schema.get("oneOf", []):
            if value is None or choice.get("type") != "null":
                schema = choice
                while "$ref" in schema:
                    schema = self.description["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
        if isinstance(value, dict):
            inner, more = schema.get("properties", {}), schema.get("additionalProperties", {})
            return {name: self.poisoned(one, inner.get(name, more if isinstance(more, dict) else {}), name)
                    for name, one in value.items()}
        if isinstance(value, list):
            return [self.poisoned(one, schema.get("items", {}), named) for one in value]
        if not isinstance(value, str) or "enum" in schema or "const" in schema or named in KNOWN:
            return value
        return value if self.manner == "texts" and named in FORMED else value + HOSTILE

    def answer(self, method, path, body):
        if self.manner == "errors":
            steps = HOSTILE.replace("\n", "`, then `")
            message = {"error": {"code": "conflict", "message": f"{HOSTILE}; try `{steps}`", "hint": HOSTILE}}
            return 409, "application/json", json.dumps(message)
        if self.manner == "bytes":
            return 500, "text/html", HOSTILE
        found = self.example_of(method, path)
        if not found:
            return 404, "application/json", json.dumps({"error": {"code": "not_found", "message": HOSTILE}})
        status, kind, content = found
        example = content["example"]
        if path == "/api/gpu/events":
            strange = HOSTILE if self.manner == "all" else ""
            event = {"at": "2026-01-31T12:00:01Z" + strange, "device": "GPU-0" + strange, "index": 0, "xid": None,
                     "kind": "kernel" + HOSTILE, "severity": "warn", "text": "GPU 0: " + HOSTILE}
            return status, kind, f"id: 1-1\nevent: device\ndata: {json.dumps(event)}\n\n"
        if kind != "application/json":
            return status, kind, HOSTILE
        answer = json.dumps(self.poisoned(example, content["schema"]))
        if method == "post" and path == "/api/gpu/leases" and b'"stream":true' in body:
            lease = json.loads(answer)["lease"]
            return status, "text/event-stream", f"event: lease\ndata: {json.dumps(lease)}\n\n"
        return status, kind, answer


@pytest.fixture
def hostile(shared, tmp_path):
    """The answers of a hostile daemon, which another thread serves at a socket; and go(*words), which runs the
    program with it."""
    answers = Answers(json.loads(shared("--simulate", "2").get("/openapi.json").text))

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def address_string(self):
            return "unix"

        def log_message(self, *_):
            pass

        def reply(self):
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            status, kind, text = answers.answer(self.command.lower(), self.path.split("?")[0], body)
            content = text.encode("utf-8", "surrogateescape")
            self.send_response(status)
            self.send_header("Content-Type", kind)
            if kind == "text/event-stream":
                self.send_header("Transfer-Encoding", "chunked")
                content = b"%x\r\n%b\r\n0\r\n\r\n" % (len(content), content)
            else:
                self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PUT = do_DELETE = reply

    socket = tmp_path / "hostile.sock"
    with Server(str(socket), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        environment = clean_environment(tmp_path, GPUYARD_SOCKET=str(socket), TZ="UTC", LC_ALL="C.UTF-8")

        def go(*words):
            done = subprocess.run([PROGRAM, *[word.format(socket=socket) for word in words]], env=environment,
                                  stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE, check=False)
            go.stdout = done.stdout.decode("utf-8")
            return go.stdout + done.stderr.decode("utf-8")

        go.environment = environment
        yield answers, go
        server.shutdown()


def harmless(words, text):
    found = FORBIDDEN.search(text)
    assert not found, f"{words}: {text[max(found.start() - 60, 0):found.end() + 60]!r}"


# Commands that print a text of the answer: without one the test would prove nothing.
TEXTS = [["devices"], ["driver"], ["energy"], ["leases"], ["alerts"], ["alerts", "history"], ["alerts", "sinks"],
         ["audit"], ["token", "list"], ["events"], ["queue"], ["top", "--once", "--plain"], ["why", "--since", "1h"],
         ["query", "--fields", "name,uuid,driver_version,serial,pci.bus_id"]]


def test_no_command_prints_control_characters_of_an_answer(hostile):
    answers, go = hostile
    for answers.manner in ("texts", "all"):
        for words in READS + CHANGES:
            text = go(*words)
            harmless(words, text)
            if words in TEXTS and answers.manner == "texts":
                assert SEEN in text, f"{words}: {text}"


def texts_in(value):
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    return [text for one in inner for text in texts_in(one)]


def test_json_escapes_control_characters(hostile):
    answers, go = hostile
    for words in READS:
        if words[:1] in (["smi"], ["top"]) or "--csv" in words or "--plot" in words:
            continue
        text = go(*words, "--json")
        harmless(words, text)
        assert json.loads(go.stdout), words
        assert SEEN in go.stdout or words[:2] == ["fleet", "doctor"], f"{words}: {text}"
    leases = json.loads(go("leases", "--json"))["leases"]
    assert any(text.endswith(HOSTILE) for text in texts_in(leases))


def test_no_error_prints_control_characters_of_an_answer(hostile):
    answers, go = hostile
    for answers.manner in ("errors", "bytes"):
        for words in READS + CHANGES:
            text = go(*words)
            harmless(words, text)
            if words[0] not in ("completion", "doctor", "top", "watch"):
                assert SEEN in text, f"{words}: {text}"


def test_only_entry_with_malformed_id_is_omitted(hostile):
    answers, go = hostile
    answers.description = json.loads(json.dumps(answers.description))
    content = answers.example_of("get", "/api/gpu/leases")[2]
    good = content["example"]["leases"][0]
    strange = [good | {"id": "a;reboot"}, good | {"asked": "yesterday"},
               good | {"gpus": [good["gpus"][0] | {"uuid": "GPU-\x1b[31m"}]}]
    content["example"] = content["example"] | {"leases": [good, *strange], "colours": ["new"]}
    assert "omitted 3 malformed entries" in go("leases", "--json")
    leases = json.loads(go.stdout)["leases"]
    assert [lease["id"] for lease in leases] == [good["id"], good["id"]]
    assert [len(lease["gpus"]) for lease in leases] == [len(good["gpus"]), 0]
    one = answers.example_of("get", "/api/gpu/leases/x")[2]
    one["example"] = one["example"] | {"lease": one["example"]["lease"] | {"id": "a;reboot"}}
    assert "malformed ID" in go("lease", "show", "77335b25eb082acc")
