"""The links of the documents lead somewhere."""

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
