"""The links of the documents lead somewhere, and the names in them exist: the keys of JSON, and every
other name in code font. tests/process/test_documents.py holds the commands, options, routes, metrics and
keys of the configuration against the program.
"""

import functools
import json
import re
import subprocess
from pathlib import Path
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [ROOT / name for name in subprocess.run(
    ["git", "-C", ROOT, "ls-files", "*.md"], check=True, capture_output=True, text=True).stdout.split()]
LINK = re.compile(r"(?<!!)\[[^\]\n]*\]\(([^)\s]+)\)")
CODE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
QUOTED_KEY = re.compile(r'"([A-Za-z_][\w./-]*)"\s*:')
NAME = re.compile(r"`([a-z][a-z0-9]*(?:_[a-z0-9]+)+)`")  # such as `share_percent`
SOURCES = ["src", "simulator", "include", "python", "packaging", "web", "*CMakeLists.txt", ":!*_test.cpp"]
# Keys of other programs' JSON, and other names that are none of ours.
FOREIGN_KEYS = {
    # A configuration of node-problem-detector.
    "docs/cli.md": {"args", "invoke_interval", "path", "plugin", "pluginConfig", "source", "timeout"},
    # A kubeconfig.
    "docs/kubernetes.md": {"cluster", "clusters", "context", "contexts", "current-context"},
}
FOREIGN_NAMES = {"authorized_keys", "file_sd_configs", "hpc_job", "training_gpu_temperature_celsius"}


def anchors(document):
    """Of its headings, as GitHub makes them."""
    text = CODE.sub("", document.read_text())
    found = set()
    for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        found.add(re.sub(r"[^\w\- ]", "", words.lower()).strip().replace(" ", "-"))
    return found


def broken_links(document):
    for link in LINK.findall(CODE.sub("", document.read_text())):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = unquote(link).partition("#")
        there = (document.parent / path).resolve() if path else document
        if not there.exists() or (anchor and there.suffix == ".md" and anchor not in anchors(there)):
            yield link


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda one: str(one.relative_to(ROOT)))
def test_links_lead_to_files_and_headings(document):
    assert list(broken_links(document)) == []


def test_a_link_to_nowhere_is_found(tmp_path):
    (tmp_path / "b.md").write_text("# One heading, `code`\n")
    page = tmp_path / "a.md"
    page.write_text("[a](b.md) [b](b.md#one-heading-code) [c](c.md) [d](b.md#another) [e](https://example.org)\n"
                    "```\n[in code](nowhere.md)\n```\n")
    assert list(broken_links(page)) == ["c.md", "b.md#another"]


def keys_in(value):
    """Every key in a value of JSON; of a schema these are the names of its properties, too."""
    if isinstance(value, dict):
        yield from value
    for one in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from keys_in(one)


@functools.cache
def json_keys():
    """The keys of what `gpuyard schema` prints, of the examples of the API, and of the rows of rules."""
    files = [*(ROOT / "docs/schema").glob("*.json"), ROOT / "src/faces/api/examples.json"]
    keys = {key for file in files for key in keys_in(json.loads(file.read_text()))}
    records = [*(ROOT / "src/faces/protocol").glob("*.h"), ROOT / "src/core/andon/signals.cpp"]
    return keys | {key for file in records for key in re.findall(r'"([a-z][a-z0-9_]*)"', file.read_text())}


@functools.cache
def words_of_sources():
    files = subprocess.run(["git", "-C", ROOT, "ls-files", "--", *SOURCES, ":!*.md"], check=True,
                           capture_output=True, text=True).stdout.split()
    return {word for name in files for word in re.findall(
        rb"[a-z][a-z0-9]*(?:_[a-z0-9]+)+", (ROOT / name).read_bytes())}


def wrong_keys(document):
    return set(QUOTED_KEY.findall(document.read_text())) - json_keys()


def wrong_names(document):
    names = set(NAME.findall(CODE.sub("", document.read_text())))
    return {name for name in names if not name.startswith("gpuyard_") and name.encode() not in words_of_sources()}


@pytest.mark.parametrize("document", [one for one in DOCUMENTS if one.parent.name != "decisions"],
                         ids=lambda one: str(one.relative_to(ROOT)))
def test_keys_and_names_exist(document):
    assert wrong_keys(document) - FOREIGN_KEYS.get(str(document.relative_to(ROOT)), set()) == set()
    assert wrong_names(document) - FOREIGN_NAMES == set()


def test_a_key_and_a_name_that_do_not_exist_are_found(tmp_path):
    page = tmp_path / "a.md"
    page.write_text('`{"power_limit_mw": 1, "power_limit_wm": 1}` `share_percent` `no_such_' 'share`\n')
    assert wrong_keys(page) == {"power_limit_wm"}
    assert wrong_names(page) == {"no_such_" + "share"}
