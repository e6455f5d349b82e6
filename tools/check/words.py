#!/usr/bin/env python3
"""Checks the words of the tree:

- no file names the place where it was written: an absolute path of a workplace, or the address of a
  package registry or mirror, which are right on one machine only;
- the commands write to a terminal in one way only;
- no string literal that people read has a stilted phrase, in C++, in the script of the page and in
  the Python package.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from house import ROOT, our_files, report, text_of

# Put together from pieces, so that this file does not contain these words.
WORKPLACES = ("wo" + "rk", "fa" + "rm")
REGISTRIES = ("registry", "deb", "files", "proxy", "static", "index")

PATTERNS = {
    "a path of one machine": re.compile(r"(?<![\w./~}-])/(?:" + "|".join(WORKPLACES) + r")/"),
    "the address of a registry": re.compile(r"https?://" + "(?:" + "|".join(REGISTRIES) + r")\."),
}

# The output of the commands passes through cli::Printable, which these calls do not require.
TERMINAL = "src/cli/screen/output.cpp"  # the only file that writes to it
PAST_PRINTABLE = {
    "unchecked text to a terminal": re.compile(
        r"fmt::print\b|std::c(?:out|err)\b|\bf?(?:puts|printf)\(|\bwrite\(STD(?:OUT|ERR)_FILENO"),
}


# Phrases with a plainer form: "who waits" (a claim), "given up" (released, dropped), "told" (notified).
STILTED = re.compile(r"""\b(who\s(waits|asks|has|uses|it\sis)|whoever|meanwhile|so\s(many|long)|for\sever|anew
    |nobody|somebody|everybody|hand(ed|s)?\sout|gives?\sup|given\sup|tells?|told|(is|are)\sno\s(?!longer|data)
    |there\s(is|are)\sno\s\\?"|not\sknown(?!\s(yet|to))|afar|in\svain|any\smore|under\sway|outside\s(any\s)?lease
    |held\sback|looks\scloser|;\selse\b|,\ssay\b|says\s(who|what|why|how|whether|until|when))""", re.I | re.X)

# Literals that match and are plain all the same, by a part of each.
HARMLESS = {
    "python/gpuyard/aio/energy_window.py": ["says why a value is None"],
    "python/gpuyard/energy_window.py": ["says what to do"],
    "python/gpuyard/errors.py": ["There is no driver"],
    "python/gpuyard/hosts_file.py": ["if there is no file"],
    "src/cli/sim/sim_options.cpp": ["root or nobody"],  # a value of the option
    "src/io/store/alert_db.cpp": ["acknowledged_ms, told"],  # a column
    "src/io/store/alert_db.h": ["told INTEGER"],
}

CPP = re.compile(r"""R"(?P<mark>[^()\\\s]*)\((?P<raw>.*?)\)(?P=mark)"|"(?P<text>(?:\\.|[^"\\\n])*)"
    |'(?:\\.|[^'\\\n])'|//[^\n]*|/\*.*?\*/""", re.DOTALL | re.VERBOSE)
SCRIPT = re.compile(r"""(["'])(?P<text>(?:\\.|(?!\1)[^\\\n])*)\1|[`{}]|//[^\n]*|/\*.*?\*/
    |(?<=[(,=:!])\s?/(?:\\.|\[(?:\\.|[^]\\\n])*]|[^/\\\n])+/""", re.DOTALL | re.VERBOSE)  # the last: a pattern
TEMPLATE = re.compile(r"`|\$\{|\\.", re.DOTALL)  # what ends a part of a template's text


def judge(name: str, text: str) -> list[str]:
    """Every line that names a workplace or a registry, or writes to a terminal."""
    printing = name.startswith("src/cli/") and name != TERMINAL and not name.endswith("_test.cpp")
    patterns = PATTERNS | PAST_PRINTABLE if printing else PATTERNS
    return [f"{name}:{number}: {what}: {line.strip()[:120]}"
            for number, line in enumerate(text.splitlines(), start=1)
            for what, pattern in patterns.items() if pattern.search(line)]


def cpp_literals(code: str) -> Iterator[tuple[int, str]]:
    """The position and text of each string literal; one that is broken over lines is one literal."""
    begin, end, text = 0, -1, ""
    for token in CPP.finditer(code):
        piece = token["text"] if token["raw"] is None else token["raw"]
        if piece is None:
            continue
        if end < 0 or code[end:token.start()].strip():
            yield begin, text
            begin, text = token.start(), ""
        text += piece
        end = token.end()
    yield begin, text


def script_literals(code: str) -> Iterator[tuple[int, str]]:
    """The same of JavaScript. The text of a template is one literal, without its ${expressions}."""
    open_templates: list[tuple[int, str]] = []
    braces: list[int] = []  # how many are open in each ${expression}
    in_template, at = False, 0
    while token := (TEMPLATE if in_template else SCRIPT).search(code, at):
        if in_template:
            begin, text = open_templates.pop()
            open_templates.append((begin, text + code[at:token.start()]))
        at = token.end()
        match token[0]:
            case "`" if in_template:
                yield open_templates.pop()
                in_template = False
            case "`":
                open_templates.append((token.start(), ""))
                in_template = True
            case "${" if in_template:
                braces.append(0)
                in_template = False
            case "{" if braces and not in_template:
                braces[-1] += 1
            case "}" if braces and not in_template:
                braces[-1] -= 1
                in_template = braces[-1] < 0
                if in_template:
                    braces.pop()
            case _ if not in_template and token["text"]:
                yield token.start(), token["text"]


def python_literals(code: str) -> Iterator[tuple[int, str]]:
    """The line and text of each string literal. The text of an f-string is without its {expressions}."""
    parts: set[ast.AST] = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.JoinedStr):
            parts.update(node.values)
            yield node.lineno, "".join(str(part.value) for part in node.values if isinstance(part, ast.Constant))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in parts:
            yield node.lineno, node.value


def literals(name: str, code: str) -> Iterator[tuple[int, str]]:
    """The line and text of each string literal that people may read."""
    path = Path(name)
    if name.startswith("python/gpuyard/") and path.suffix == ".py":
        yield from python_literals(code)
        return
    of_tests = "_test." in path.name or "for_tests" in path.name or "third_party" in path.parts
    if name.startswith("src/") and path.suffix in {".cpp", ".h", ".def"} and not of_tests:
        found = cpp_literals(code)
    elif name.startswith("web/page/") and path.suffix == ".js":
        found = script_literals(code)
    else:
        return
    for at, text in found:
        yield code.count("\n", 0, at) + 1, text


def stilted(name: str, code: str) -> list[str]:
    """Every stilted literal of a file, and every exception that it does not need."""
    problems = []
    unused = set(HARMLESS.get(name, ()))
    for line, text in literals(name, code):
        found = STILTED.search(text) if " " in text else None
        if not found:
            continue
        excused = {part for part in HARMLESS.get(name, ()) if part in text}
        unused -= excused
        if not excused:
            around = " ".join(text[max(found.start() - 50, 0):found.end() + 50].split())
            problems.append(f'{name}:{line}: "{found[0]}" is stilted: {around}')
    return problems + [f"{name}:1: exception without a literal: {part}" for part in sorted(unused)]


def main(root: Path = ROOT) -> int:
    problems: list[str] = []
    files = our_files(root)
    for path in files:
        text = text_of(path)
        if text is not None:
            name = path.relative_to(root).as_posix()
            problems += judge(name, text) + stilted(name, text)
    return report("words", problems, f"{len(files)} files")


if __name__ == "__main__":
    sys.exit(main())
