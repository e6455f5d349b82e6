"""What a document names exists: the commands with their options, the routes, the metrics and the keys of
the configuration. tools/check/test_documents.py has the links, the keys of JSON and other names.
"""

import functools
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from program import PROGRAM

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [ROOT / name for name in subprocess.run(
    ["git", "-C", ROOT, "ls-files", "README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "tests/README.md", "docs/*.md"],
    check=True, capture_output=True, text=True).stdout.split() if "/decisions/" not in name]

FENCED = re.compile(r"^(```|~~~)[^\n]*\n(.*?)^\1", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"^ {4,}(\S.*)$", re.MULTILINE)
CODE = re.compile(r"`([^`\n]+)`")
PROCESSES = {"command-host"}  # names of processes as `ps` shows them, which are no verbs
# Names of our own that are no metrics: prefixes, groups of rules, a key of a file.
FOREIGN_METRICS = {"gpuyard_gpu", "gpuyard_rules", "gpuyard_alerts", "gpuyard_recording"}


def code_of(text):
    """Its inline code, and the lines of its blocks."""
    for _, block in FENCED.findall(text):
        yield from block.splitlines()
    rest = FENCED.sub("", text)
    yield from INDENTED.findall(rest)
    yield from CODE.findall(rest)


@functools.cache
def help_of(*verbs):
    return subprocess.run([PROGRAM, *verbs, "--help"], check=True, capture_output=True, text=True, timeout=20).stdout


def lists(text, verb):
    return re.search(rf"^  {re.escape(verb)}  ", text, re.MULTILINE)


def help_for(words):
    """The help of the verb in these words, after options and their values, and of its sub-verb."""
    verbs = ()
    for word in words:
        if lists(help_of(*verbs), word):
            verbs = (*verbs, word)
        elif verbs:
            break
    return help_of(*verbs) + help_of()


def unknown_verb(words):
    """The first word if it could be a verb and is none, or the second if it could be a sub-verb and is none."""
    verbs = ()
    for word in words[:2]:
        text = help_of(*verbs)
        takes_verbs = not verbs or "\nCommands:" in text and "\nArguments:" not in text
        if not takes_verbs or not re.fullmatch(r"[a-z][a-z-]+", word):
            return None
        if not lists(text, word):
            return None if word in PROCESSES else word
        verbs = (*verbs, word)
    return None


def commands_of(text):
    """The words of each command of ours, up to those of a command that it runs."""
    for line in code_of(text):
        for command in re.findall(r"(?:^|[|(;&] ?|\$ |# )(?:sudo )?gpuyard ([^|;&)]*)", line):
            command = re.sub(r"\s#\s.*|\[|\]|\.\.\.", " ", command)
            command = re.sub(r" {2,}", " , ", command)  # a column with its description follows
            try:
                words = shlex.split(command)
            except ValueError:  # a quote that another line ends
                words = command.split()
            yield words[:words.index("--")] if "--" in words else words


def wrong_commands(text):
    for words in commands_of(text):
        if verb := unknown_verb(words):
            yield f"{' '.join(words)}: no {verb}"
        known = help_for([word for word in words if not word.startswith("-")])
        for word in words:
            option = word.split("=")[0]
            if re.fullmatch(r"--[a-z-]+|-[a-zA-Z]", option) and not re.search(rf"(?<![\w-]){option}(?![\w-])", known):
                yield f"{' '.join(words)}: no {option}"


def wrong_routes(text, routes):
    named = re.findall(r"\b(?:GET|POST|PUT|DELETE) (/[\w/{}.-]+)|(?<![\w.])(/api/[\w/{}.-]+)", text)
    for path in {one or other for one, other in named}:
        path = path.rstrip("./")
        if not any(re.fullmatch(route, path) for route in routes):
            yield path


def wrong_metrics(text, names):
    for name in set(re.findall(r"(?<![\w./-])gpuyard_[a-z0-9_]+[a-z0-9](?![\w.(/*-])", text)) - FOREIGN_METRICS:
        if name not in names:
            yield name


def wrong_keys(text, sections):
    for code in code_of(text):
        for section, key in re.findall(r"(?<![\w./-])([a-z]+)\.([a-z_0-9]+)(?![\w./(-])", code):
            if section in sections and key not in sections[section]:
                yield f"{section}.{key}"


# Behind a section's name: files, and what is no key of ours.
FILES = {"db", "sock", "toml", "rules"}
# Values of the Helm chart.
OTHER_KEYS = {"containers.md": {"tls.enabled", "kube.enabled", "kube.condition", "kube.effect", "kube.policy"}}
OTHER_LANGUAGES = {"python.md", "library.md"}  # attributes look like keys


each_document = pytest.mark.parametrize("document", DOCUMENTS, ids=lambda one: str(one.relative_to(ROOT)))


@each_document
def test_commands_and_options_exist(document):
    assert sorted(set(wrong_commands(document.read_text()))) == []


@pytest.fixture(scope="module")
def sections():
    """The keys of the configuration by section."""
    found, section = {}, None
    for line in subprocess.run([PROGRAM, "config", "init"], check=True, capture_output=True,
                               text=True).stdout.splitlines():
        if header := re.match(r"#? ?\[([a-z]+)[\].]", line):
            section = found.setdefault(header[1], set())
        elif section is not None and (key := re.match(r"#? ?([a-z_0-9]+) = ", line)):
            section.add(key[1])
    assert len(found) > 10
    return found


@each_document
def test_keys_exist(document, sections):
    if document.name in OTHER_LANGUAGES:
        return
    wrong = set(wrong_keys(document.read_text(), sections)) - OTHER_KEYS.get(document.name, set())
    assert sorted(one for one in wrong if one.split(".")[1] not in FILES) == []


def test_routes_exist(shared):
    paths = shared("--simulate", "1").get("/openapi.json").json()["paths"]
    routes = [re.sub(r"\\?\{[^}]*\\?\}", "[^/]+", re.escape(path)) for path in paths]
    assert {str(one.relative_to(ROOT)): wrong for one in DOCUMENTS
            if (wrong := sorted(wrong_routes(one.read_text(), routes)))} == {}


def test_metrics_exist(shared):
    """Those of GPUs are in docs/metrics.md, which a test of the exposition writes, and the daemon's own in what
    it exposes, or in its source where they have a condition, as those of TLS have."""
    exposed = shared("--simulate", "1").get("/metrics").text + (ROOT / "docs/metrics.md").read_text()
    names = set(re.findall(r"gpuyard_[a-z0-9_]+", exposed))
    for source in (ROOT / "src/faces").rglob("*.cpp"):
        names |= {f"gpuyard_{name}" for name in re.findall(r'"(?:gpuyard_)?([a-z0-9_]+_[a-z0-9_]+)"', source.read_text())}
    assert {str(one.relative_to(ROOT)): wrong for one in DOCUMENTS
            if (wrong := sorted(wrong_metrics(one.read_text(), names)))} == {}


def test_what_does_not_exist_is_found():
    text = ("Run `gpuyard devices --jsno`, `gpuyard devcies`, `gpuyard alerts akc 17`, or\n\n"
            "    gpuyard fleet free --hots a\n\n```\n"
            "$ gpuyard run -n 2 --no-such -- cmd --any\n```\n`gpuyard devices --json` "
            "`control.enbled` `control.enabled` GET /api/gpu/nothing, `gpuyard_gpu_nothing`")
    assert [one.split(": ")[1] for one in wrong_commands(text)] == [
        "no --no-such", "no --hots", "no --jsno", "no devcies", "no akc"]
    assert list(wrong_keys(text, {"control": {"enabled"}})) == ["control.enbled"]
    assert list(wrong_routes(text, ["/api/gpu/devices"])) == ["/api/gpu/nothing"]
    assert list(wrong_metrics(text, {"gpuyard_gpu_power_watts"})) == ["gpuyard_gpu_nothing"]
