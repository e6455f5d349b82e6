#!/usr/bin/env python3
"""Writes cmake/text_order.ld: the functions that commands which run for long have run in these traces, for the
linker to place side by side. The kernel maps at least 64 KiB around each function that runs.

    tools/text_order.py link FOLDER       # the program of build/release in no order, and its map
    valgrind --tool=callgrind --dump-instr=yes --callgrind-out-file=TRACE FOLDER/gpuyard COMMAND
    tools/text_order.py write FOLDER TRACE...
"""

import bisect
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build/release"
SCRIPT = ROOT / "cmake/text_order.ld"
WIDTH = 128
# Least part of what a pattern takes that has run, of functions and of members.
DENSITY, MEMBER_DENSITY = 0.4, 0.6
SECTION = re.compile(r"^ (\.text\S*)\s+0x([0-9a-f]+)\s+0x([0-9a-f]+) (\S+)$", re.MULTILINE)
MEMBER = re.compile(r"(lib\w+\.a)\(([\w.-]+\.o)\)")
HEADER = """/* Functions that commands which run for long have run, side by side: see gpuyard's link options. A function that
   is missing here only costs memory. Written by tools/text_order.py. */
"""


def link(folder):
    line = subprocess.run(["ninja", "-C", BUILD, "-t", "commands", "gpuyard"], check=True, capture_output=True,
                          text=True).stdout.splitlines()[-1]
    command = re.search(r"\S*g\+\+ .*?(?= &&)", line)[0].replace(f"-Wl,-T,{SCRIPT}", "")
    subprocess.run(f"{command} -o {folder}/gpuyard -Wl,-Map,{folder}/map", shell=True, check=True, cwd=BUILD)


def sections(folder):
    """(address, end, library, name) of all code in the program, in order. The name is a section's or, in a library
    that has no sections for its functions, a member's."""
    found = SECTION.findall(Path(folder, "map").read_text())
    for name, address, size, source in sorted(found, key=lambda one: int(one[1], 16)):
        member = MEMBER.search(source)
        start, end = int(address, 16), int(address, 16) + int(size, 16)
        if start == 0:  # left out of the program
            continue
        if name.startswith(".text._Z"):
            yield start, end, "", name
        elif name == ".text" and member:
            yield start, end, *member.groups()


def addresses(trace):
    """Of the program's instructions that have run."""
    objects, ours, last, found = {}, False, 0, set()
    for line in Path(trace).read_text().splitlines():
        if named := re.match(r"(c?)ob=\((\d+)\) ?(.*)", line):
            path = objects.setdefault(named[2], named[3])
            ours = ours if named[1] else path.endswith("/gpuyard")
        elif position := re.match(r"([+-]?(?:0x)?[0-9a-f]+|\*) ", line):
            word = position[1]
            last = last if word == "*" else int(word, 0) + (last if word[0] in "+-" else 0)
            if ours:
                found.add(last)
    return found


def patterns(names, size_of, used, density, begin=""):
    """Shortest beginnings of `names`, all of which have `begin`, of which this part of the bytes is `used`."""
    ran = sum(size_of[name] for name in names if name in used)
    if ran and (len(names) == 1 or ran >= density * sum(size_of[name] for name in names)):
        yield begin + "*"
    elif ran:
        groups, known = {}, len(os.path.commonprefix(names))
        for name in names:
            groups.setdefault(name[:known + 1], []).append(name)
        for begin, group in groups.items():
            yield from patterns(group, size_of, used, density, begin)


def write(folder, *traces):
    code = list(sections(folder))
    starts = [start for start, *_ in code]
    sizes, used_by = {}, {}
    for start, end, library, name in code:
        names = sizes.setdefault(library, {})
        names[name] = names.get(name, 0) + end - start
    for number, trace in enumerate(traces):
        for address in addresses(trace):
            start, end, *name = code[bisect.bisect_right(starts, address) - 1]
            if start <= address < end:
                used_by.setdefault(tuple(name), set()).add(number)
    groups = {}
    for library, size_of in sorted(sizes.items()):
        used = {name: traces for (of, name), traces in used_by.items() if of == library}
        for pattern in patterns(sorted(size_of), size_of, used, MEMBER_DENSITY if library else DENSITY):
            whose = set().union(*(traces for name, traces in used.items() if name.startswith(pattern[:-1])))
            group = groups.setdefault((-len(whose), *sorted(whose)), {})
            group.setdefault(library, []).append(f"*{library}:{pattern}(.text)" if library else pattern)
    text = ""
    for _, group in sorted(groups.items()):
        for library, names in group.items():
            lines = textwrap.fill(" ".join(names), WIDTH, break_long_words=False, break_on_hyphens=False)
            text += f"{lines}\n" if library else f"*({lines})\n"
    SCRIPT.write_text(f"{HEADER}SECTIONS {{\n.text.running : {{\n{text}}}\n}}\nINSERT BEFORE .text;\n")


if __name__ == "__main__":
    {"link": link, "write": write}[sys.argv[1]](*sys.argv[2:])
