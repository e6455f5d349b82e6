"""A row that cannot be measured says why, and the other rows go on.

A row is its figures. Where there are none it is {"failed": reason}, or {"unavailable": reason} if the
machine lacks what the row compares with: a peer, or root. Only a failed row makes the run fail.
"""

import statistics
import subprocess
from pathlib import Path

LONGEST_REASON = 240


class NotMeasured(Exception):
    """A row fails, for this reason."""


class Unavailable(Exception):
    """The machine lacks what the row needs, for this reason."""


def reason(error):
    """One short line about any error."""
    if isinstance(error, subprocess.CalledProcessError):
        said = [line for line in (error.stderr or error.stdout or "").splitlines() if line.strip()]
        words = [str(word) for word in error.cmd]
        command = words[3] if words[:2] == ["taskset", "-c"] else words[0]
        text = said[-1].removeprefix("bench: ") if said else f"exit status {error.returncode}"
        text = f"{Path(command).name}: {text}"
    elif isinstance(error, (NotMeasured, Unavailable)):
        text = str(error)
    elif isinstance(error, OSError) and error.filename:
        text = f"{error.filename}: {error.strerror}"
    else:
        text = f"{type(error).__name__}: {error}"
    text = " ".join(text.split())
    return text if len(text) <= LONGEST_REASON else text[:LONGEST_REASON - 3] + "..."


def row(measure, *words, peer=False):
    """What `measure` returns, or why it did not. A peer's failure is not a failure of the run."""
    try:
        return measure(*words)
    except Unavailable as error:
        return {"unavailable": reason(error)}
    except Exception as error:
        return {"unavailable" if peer else "failed": reason(error)}


def why_not(one):
    """What a table says in place of the figures, or None where there are figures."""
    if not isinstance(one, dict):
        return None
    if "failed" in one:
        return f"FAILED: {one['failed']}"
    return f"(not measured: {one['unavailable']})" if "unavailable" in one else None


def medians(cells, times, peers=(), warm_up=0):
    """cells: name -> what measures one row's figures. Each cell takes its turn in every round, so that
    an hour's noise meets all of them; a cell that failed takes no further turn."""
    seen, without = {name: [] for name in cells}, {}
    for turn in range(warm_up + times):
        for name, cell in cells.items():
            if name in without:
                continue
            figures = row(cell, peer=name in peers)
            if why_not(figures):
                without[name] = figures
            elif turn >= warm_up:
                seen[name].append(figures)
    return {name: without.get(name) or {key: statistics.median(one[key] for one in seen[name])
                                        for key in seen[name][0]} for name in cells}


def line(name, width, one, text):
    """A row of a table: its name, and text(one) or why there are no figures."""
    print(f"{name:<{width}}{why_not(one) and '  ' + why_not(one) or text(one)}")


def table(part, show):
    """show(part), or why the whole part has no figures."""
    if why_not(part):
        print(why_not(part))
    else:
        show(part)


def measured(*all_of):
    """Whether there are figures in each of these rows, so that they can be compared."""
    return not any(one is None or why_not(one) for one in all_of)


def failures(result, path=""):
    """The names of the rows that failed, with those of the parts around them."""
    if not isinstance(result, dict):
        return []
    if "failed" in result:
        return [path]
    return [name for key, one in result.items() for name in failures(one, f"{path}: {key}" if path else key)]


def verdict(result):
    """For sys.exit: None, or which rows failed."""
    failed = failures(result)
    return f"\nbench: without figures: {'; '.join(failed)}" if failed else None


class Stage:
    """Worlds and servers. Each starts when a row first needs it; where one did not start, each of its
    rows says so. All of them stop at the end, the last one first."""

    def __init__(self):
        self.players = {}

    def get(self, name, start):
        if name not in self.players:
            try:
                self.players[name] = start()
            except Exception as error:
                self.players[name] = error
        if isinstance(self.players[name], Exception):
            raise self.players[name]
        return self.players[name]

    def close(self):
        while self.players:
            _, player = self.players.popitem()
            if not isinstance(player, Exception):
                player.stop()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
