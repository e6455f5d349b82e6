#!/usr/bin/env python3
"""Measures the page in a real Chromium: first paint, processor, bytes, heap; beside the API page.

    bars.py PROGRAM [--pictures DIRECTORY]

Prints a table with the bars of the design and ends with 1 where one is missed. With --pictures it
takes the pictures of docs/ instead.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from chromium import Chromium  # noqa: E402

WATCHED = 20  # seconds of an open page
SETTLED = 65  # seconds until the daemon has judged each GPU by a whole minute
HIDDEN = 8    # seconds until a hidden tab has closed its stream
DAY = 86400   # seconds of the recording that the heap is watched over, played SPEED times as fast
SPEED = 1000
LIVE = "document.querySelector('header .good')?.textContent === 'live'"
PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"


class Yard:
    """`gpuyard serve --simulate N`, alone in a directory."""

    def __init__(self, program, *arguments):
        self.place = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        place = Path(self.place.name)
        self.socket = place / "gpuyard.sock"
        self.log = place / "log"
        self.program = program
        self.environment = {**os.environ, "HOME": str(place), "XDG_RUNTIME_DIR": str(place),
                            "GPUYARD_SOCKET": str(self.socket),
                            "GPUYARD_SIM_WORLD": str(place / "state" / "world")}
        self.process = subprocess.Popen(
            [program, "serve", "--listen", "127.0.0.1:0", "--socket", self.socket, "--state",
             place / "state", *arguments], env=self.environment, stderr=open(self.log, "w"))

    def __enter__(self):
        deadline = time.monotonic() + 30
        while "listening on http://" not in self.log.read_text():
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.05)
        self.url = "http://" + self.log.read_text().split("listening on http://")[1].split()[0]
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.place.cleanup()

    def run(self, *arguments):
        subprocess.run([self.program, *arguments], env=self.environment, check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def metrics(page):
    return {one["name"]: one["value"] for one in page.call("Performance.getMetrics")["metrics"]}


def processor(page, seconds):
    """Percent of a core that the page's process works in its tasks."""
    before, began = metrics(page)["TaskDuration"], time.monotonic()
    page.listen(seconds)
    return 100 * (metrics(page)["TaskDuration"] - before) / (time.monotonic() - began)


def first_paint(browser, url, slower=1):
    """Milliseconds to the first paint of a page whose files the browser has."""
    page = browser.open(url)
    page.call("Emulation.setCPUThrottlingRate", {"rate": slower})
    for _ in range(3):
        page.call("Page.reload")
        time.sleep(1)
        page.wait_for(PAINT)
    return page.evaluate(PAINT)


def measure(program):
    """Rows: what, figure, unit, bar or None."""
    for gpus, bars in ((8, {"cpu": 1, "bytes": 0.4}), (64, {"cpu": 3, "bytes": 2})):
        with Yard(program, "--simulate", str(gpus), "--load", "mixed") as yard, tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
            with Chromium(Path(place)) as browser:
                if gpus == 8:
                    yield "first paint, 8 GPUs", first_paint(browser, yard.url + "/"), "ms", 100
                    yield "first paint, 8 GPUs, processor 4 times slower", \
                        first_paint(browser, yard.url + "/", 4), "ms", 400
                    yield "first paint of /docs, to compare", first_paint(browser, yard.url + "/docs"), "ms", None
            (Path(place) / "second").mkdir()
            with Chromium(Path(place) / "second") as browser:
                page = browser.open(yard.url + "/")
                page.wait_for(LIVE)
                page.call("Performance.enable")
                page.listen(SETTLED)
                page.received = 0
                yield f"open tab, {gpus} GPUs", processor(page, WATCHED), "% of a core", bars["cpu"]
                yield f"stream, {gpus} GPUs", page.received / WATCHED / 1000, "kB/s", bars["bytes"]
                page.call("HeapProfiler.collectGarbage")
                yield f"heap, {gpus} GPUs", metrics(page)["JSHeapUsedSize"] / 2**20, "MiB", 25
                page.hide()
                page.listen(HIDDEN)
                page.received = 0
                yield f"hidden tab, {gpus} GPUs", processor(page, WATCHED), "% of a core", 0.05
                yield f"stream of a hidden tab, {gpus} GPUs", page.received / WATCHED / 1000, "kB/s", 0
    yield "heap, growth over a replayed day", growth_over_a_day(program), "MiB", 1


def record_a_day(program, place):
    """A recording of a simulated day: of a world that runs SPEED times too fast, and then made as long."""
    environment = {**os.environ, "HOME": str(place), "XDG_RUNTIME_DIR": str(place), "GPUYARD_SIM_WORLD": str(place / "world")}
    library = Path(program).parent / "sim/libnvidia-ml.so.1"
    subprocess.run([program, "sim", "start", "--gpus", "8", "--load", "mixed", "--speed", str(SPEED)], env=environment,
                   check=True, stdout=subprocess.DEVNULL)
    try:
        subprocess.run([program, "record", place / "fast.rec", "--local", "--nvml", library, "--interval", "500ms",
                        "--for", f"{DAY / SPEED:.0f}s"], env=environment, check=True, stderr=subprocess.DEVNULL)
    finally:
        subprocess.run([program, "sim", "stop"], env=environment, check=True, stdout=subprocess.DEVNULL)
    with open(place / "day.rec", "w", encoding="utf-8") as day:
        for line in (place / "fast.rec").read_text(encoding="utf-8").splitlines():
            entry = json.loads(line)
            if "t_ms" in entry:
                entry["t_ms"] *= SPEED
            day.write(json.dumps(entry) + "\n")
    return place / "day.rec"


def heap(page):
    """MiB that are in use once the rubbish is gone."""
    for _ in range(3):
        page.call("HeapProfiler.collectGarbage")
    return metrics(page)["JSHeapUsedSize"] / 2**20


def growth_over_a_day(program):
    """MiB that the heap grows by while a day is replayed and all views are opened in turn."""
    def turn(page):
        for path in ("/", "/gpu/0", "/queue", "/alerts", "/usage", "/gpu/1"):
            page.evaluate(f"history.pushState(null, '', '{path}'); dispatchEvent(new PopStateEvent('popstate')); 0")
            page.listen(1.5)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
        recording = record_a_day(program, Path(place))
        with Yard(program, "--replay", recording, "--replay-speed", str(SPEED)) as yard, Chromium(Path(place)) as browser:
            page = browser.open(yard.url + "/")
            page.wait_for(LIVE)
            page.call("Performance.enable")
            turn(page)  # each view has made what it keeps
            began, before = time.monotonic(), heap(page)
            while time.monotonic() < began + DAY / SPEED - 15:
                turn(page)
            return heap(page) - before


def show(browser, url, path, name, into, both=False):
    """One page wide and dark, narrow and light; with `both` each in both."""
    page = browser.open(url + path)
    page.wait_for("document.querySelector('main h1')")
    page.listen(3)
    for width, height in ((1280, 720), (360, 640)):
        for dark in (False, True):
            if both or dark == (width > 1000):
                page.picture(into / f"{name}_{width}_{'dark' if dark else 'light'}.png", width, height, dark)


def as_others_see(browser, url, path, name, into):
    """One page as people with other colour vision see it."""
    page = browser.open(url + path)
    page.wait_for("document.querySelector('main h1')")
    page.listen(3)
    for kind in ("protanopia", "deuteranopia", "tritanopia", "achromatopsia"):
        page.call("Emulation.setEmulatedVisionDeficiency", {"type": kind})
        page.picture(into / f"{name}_{kind}.png", 800, 500)


def pictures(program, into):
    into.mkdir(parents=True, exist_ok=True)
    # The demo, as the README's first commands show it.
    with Yard(program, "--simulate", "8") as yard, tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
        time.sleep(70)
        yard.run("lease", "take", "-n", "2", "--for", "1h")
        yard.run("cordon", "6", "--reason", "its fan is replaced")
        with Chromium(Path(place)) as browser:
            show(browser, yard.url, "/", "8_gpus", into, both=True)
            for path, name in (("/gpu/2", "one_gpu"), ("/queue", "queue"), ("/alerts", "alerts")):
                show(browser, yard.url, path, name, into)
            past = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 30))
            show(browser, yard.url, f"/?at={past}", "past", into)
            show(browser, yard.url, "/usage", "usage", into)
            yard.run("sim", "inject", "--gpu", "2", "--xid", "48")
            time.sleep(3)
            as_others_see(browser, yard.url, "/gpu/2", "one_gpu", into)
            yard.run("sim", "inject", "--gpu", "3", "--lost")
            time.sleep(5)
            show(browser, yard.url, "/?gpu=3", "lost", into)
    for gpus in (1, 64):
        with Yard(program, "--simulate", str(gpus), "--load", "mixed") as yard, tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
            time.sleep(5)
            with Chromium(Path(place)) as browser:
                show(browser, yard.url, "/", f"{gpus}_gpus", into)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--pictures", type=Path)
    options = parser.parse_args()
    if options.pictures:
        return pictures(options.program, options.pictures)
    missed = 0
    for what, figure, unit, bar in measure(options.program):
        wrong = bar is not None and figure > bar
        missed += wrong
        print(f"{what:48} {figure:10.2f} {unit:12} {'' if bar is None else f'bar {bar}'}"
              f"{'  MISSED' if wrong else ''}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
