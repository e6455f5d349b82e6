"""The tables of docs/performance.md that ./yard bench writes.

Each stands between `<!-- bench: NAME -->` and `<!-- end -->`, below a line that says when, where and at
which commit it was measured. The text around them is written by hand.
"""

import os
import re
import subprocess
import time
from pathlib import Path
from typing import NamedTuple

import control
import top
from rows import NotMeasured, measured, why_not
from servers import FIXED, PEERS_OF, ROOT

PAGE = ROOT / "docs/performance.md"
BLOCK = re.compile(r"<!-- bench: (\w+) -->\n.*?<!-- end -->\n", re.DOTALL)


class Table(NamedTuple):
    """Of one part of the benchmarks. `rows(result)` gives (name, the row's figures, its cells); a row without
    figures says why."""
    part: str
    columns: tuple
    rows: object


def count(number):
    return f"{number:,.0f}"


def ratio(one, other, key):
    return f"{one[key] / other[key]:.2g}x" if measured(one, other) else ""


def each(part):
    """The rows of a part, or the one that says why the whole part has none."""
    return {"all of them": part}.items() if why_not(part) else part.items()


def idle(result):
    for name, one in each(result["idle"]):
        yield name, one, lambda one: (f"{one['cpu_percent_of_core']:.3f}", f"{one['rss_mib']:.1f}")


def listeners(result):
    for name, one in each(result["listeners"]):
        yield name, one, lambda one: (count(one["listeners"]), count(one["bytes_per_event"]),
                                      f"{one['events_per_s_fewest']:.1f}", f"{one['cpu_percent_of_core']:.1f}",
                                      f"{one['rss_mib']:.1f}", f"{one['rss_mib_alone']:.1f}")


def http(result):
    rows = result["http"]
    for name, one in each(rows):
        fixed = rows["gpuyard " + FIXED] if name.startswith("gpuyard") else None
        peers = [rows[peer] for peer in PEERS_OF.get(name, ()) if peer in rows]
        yield name, one, lambda one, fixed=fixed, peers=peers: (
            count(one["bytes"]), count(one["requests_per_s"]), count(one["p99_us"]),
            f"{one['cpu_us_per_request']:.1f}", ratio(one, fixed, "requests_per_s").rstrip("x"),
            ", ".join(filter(None, (ratio(one, peer, "requests_per_s") for peer in peers))))


STEPS = {"sample_fast_tier": "sample the fast tier (12 driver calls a GPU)",
         "sample_all_tiers": "sample all tiers but the PCIe counters, which sleep 20 ms each",
         "snapshot_to_json": "snapshot to JSON", "snapshot_to_prometheus": "snapshot to Prometheus text",
         "whole_tick": "fast tier, JSON and text together"}
TICKS = {"tick/8/0": "8 GPUs, 56 alerts fire", "tick/64/0": "64 GPUs, 448 alerts fire",
         "tick/64/8": "64 GPUs, one in eight too hot for every rule about heat, 1,824 alerts fire"}
LEASE_STEPS = {
    "claim_and_release/8/0/1": "claim and release of one of 8 GPUs",
    "claim_and_release/8/1/1": "the same, GPUs with links and NUMA nodes",
    "claim_and_release/8/1/4": "claim and release of 4 of 8 with links",
    "claim_and_release/64/1/1": "claim and release of one of 64 with links",
    "claim_and_release/64/1/8": "claim and release of 8 of 64 with links",
    "pool_claim_and_release/8": "`Pool` of the C++ library: claim and drop, with the mutex, one of 8",
    "pool_claim_and_release/64": "the same, one of 64",
    "queue/100": "release and claim with 100 waiting, in order",
    "queue/10000": "the same with 10,000 waiting",
    "check_waiting_claims/10000": "finding that none of 10,000 who say how long they hold may pass the first",
    "queue_positions_of_waiters/10000": "position, reason and expected start of each of 10,000",
    "waiting_claim_memory/iterations:1": "bytes of a claim that waits"}


def steps(part, words, scale=1.0, digits=0):
    """Rows of a program of benchmarks; one that has no words here goes by its own name."""
    def rows(result):
        for name, one in each(top.part_of(result, *part)):
            one = one if why_not(one) else {"value": one}
            yield words.get(name, name), one, lambda one: (f"{one['value'] * scale:,.{digits}f}",)
    return rows


def start(result):
    for words, one in each(result["start_ms"]):
        one = one if why_not(one) else {"value": one}
        yield f"`gpuyard {words}`", one, lambda one: (f"{one['value']:.1f}",)


def limits(result):
    rows = result["control"]
    if why_not(rows):
        yield "all of them", rows, None
        return
    for name, words in control.WORDS.items():
        def cells(one):
            begun = [one.get(f"arrival_to_command_{share}_us") for share in ("p50", "p99")]
            return (count(one["p50_us"]), count(one["p99_us"]), *("" if value is None else count(value) for value in begun))
        yield words, rows[name], cells
    if measured(rows["gpuyard"], rows["zeusd"]):
        yield "gpuyard to zeusd", rows["gpuyard"], lambda one: (
            ratio(one, rows["zeusd"], "p50_us"), ratio(one, rows["zeusd"], "p99_us"), "", "")


def lease_socket(result):
    socket, clients = result["leases"]["socket"], result["leases"]["clients"]
    words = {"disk": "4 KiB in a file until they are on the disk", "claim": "a claim that is granted",
             "release": "giving it back", "crowd": f"a claim that has to wait, {clients} clients at once"}
    for name, text in words.items():
        yield text, top.part_of(socket, name), lambda one: (count(one["p50_us"]), count(one["p99_us"]),
                                               count(one["changes_per_s"]) if "changes_per_s" in one else "",
                                               f"{one['changes_per_commit']:.0f}" if "changes_per_commit" in one else "")


def crowd(result):
    for name, one in each(result["crowd"]):
        yield name, one, lambda one: (
            f"{one['load']['p50_us'] / 1e3:.1f}", f"{one['load']['p99_us'] / 1e3:.1f}",
            f"{one['load']['longest_us'] / 1e3:.1f}", f"{one['loop_late_s'] * 1e3:.0f}",
            count(one["bytes_per_s"] / 1e6), count(one["queues_per_s"]))


def viewers(gpus):
    def rows(result):
        viewers_of_fleet = top.part_of(result["top"], "fleets", gpus, "viewers")
        ours = top.part_of(viewers_of_fleet, top.OURS)
        for name, one in each(viewers_of_fleet):
            yield name, one, lambda one: (
                f"{one['first_frame_ms']:.1f}", f"{one['cpu_percent_of_core']:.3f}",
                ratio(one, ours, "cpu_percent_of_core"), f"{one['rss_mib']:.1f}", ratio(one, ours, "rss_mib"),
                count(one["bytes_per_s"]))
    return rows


def top_bars(result):
    for what, one, key, allowed, unit in top.bars(result["top"]):
        yield what, one, lambda one, key=key, allowed=allowed, unit=unit: (
            f"{one[key]:.3g}{'' if one[key] <= allowed else ', missed'}", f"{allowed:g} {unit}")


VIEWER = ("first values, ms", "CPU, % of a core", "to the first row", "RSS, MiB", "to the first row", "B/s")
TABLES = {
    "idle": Table("idle", ("process, idle with its tiers", "CPU, % of a core", "RSS, MiB"), idle),
    "listeners": Table("listeners", ("stream", "listeners", "bytes", "events/s", "CPU, % of a core", "RSS, MiB", "without them"), listeners),
    "http": Table("http", ("server and route", "bytes", "req/s", "p99, us", "CPU us/req", "of the fixed answer", "of the peers"), http),
    "pipeline": Table("pipeline_ns", ("step, in process, eight GPUs", "us of CPU"), steps(["pipeline_ns"], STEPS, 1e-3)),
    "start": Table("start_ms", ("command, median wall time", "ms"), start),
    "andon": Table("andon_us", ("200 rules", "us of CPU"), steps(["andon_us"], TICKS)),
    "control": Table("control", ("round trip, us", "p50", "p99", "to the command, p50", "p99"), limits),
    "lease_steps": Table("leases", ("step, in process", "ns of CPU"), steps(["leases", "steps"], LEASE_STEPS)),
    "lease_socket": Table("leases", ("round trip, us", "p50", "p99", "changes/s", "in each commit"), lease_socket),
    "crowd": Table("crowd", ("ms", "p50", "p99", "longest", "loop", "MB/s sent", "queues/s"), crowd),
    "top_8": Table("top", ("8 GPUs", *VIEWER), viewers("8")),
    "top_64": Table("top", ("64 GPUs", *VIEWER), viewers("64")),
    "top_bars": Table("top", ("bar", "found", "allowed"), top_bars)}


def markdown(table, result):
    lines = [f"| {' | '.join(table.columns)} |", "|" + "---|" * len(table.columns)]
    for name, one, cells in table.rows(result):
        figures = (why_not(one),) if why_not(one) else cells(one)
        figures = (*figures, *[""] * (len(table.columns) - 1 - len(figures)))
        lines.append(f"| {name} | {' | '.join(figures)} |")
    return "\n".join(lines) + "\n"


def provenance():
    """When, at which commit and on what."""
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short=8", "HEAD"], check=True, capture_output=True,
                            text=True).stdout.strip()
    model = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    cores = len(os.sched_getaffinity(0))
    return (f"`./yard bench --write`, {time.strftime('%Y-%m-%d')}, commit {commit}, "
            f"{cores} cores of {model[1] if model else 'an unknown processor'}:\n")


def write(result, page=PAGE, measured_at=None):
    """Puts the tables of the parts that were measured into the page. Raises NotMeasured if it lacks one of them."""
    measured_at = measured_at or provenance()
    text = page.read_text()
    missing = TABLES.keys() - {found[1] for found in BLOCK.finditer(text)}
    if missing:
        raise NotMeasured(f"{page.name} has no place for {', '.join(sorted(missing))}")

    def updated(found):
        name = found[1]
        if TABLES[name].part not in result:
            return found[0]
        return f"<!-- bench: {name} -->\n{measured_at}\n{markdown(TABLES[name], result)}<!-- end -->\n"

    page.write_text(BLOCK.sub(updated, text))
