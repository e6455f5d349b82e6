"""Three users of the machine flood what all users share, and the others must still be served: see
tests/process/floods.py.
"""

import os
import statistics

from floods import KINDS, flooded, idle_flooders, runs_at_once

os.environ.setdefault("GPUYARD_SIM_LIB", "build/release/sim/libnvidia-ml.so.1")

ONLY_ROOT = "only root can be several users"
MOST_LINES = 100  # of the log
MEDIAN = 50  # ms


def judge(board, what, found):
    other, root = found["other"], found["root"]
    idle = idle_flooders(found)
    board.note(f"{what}: floods", f"without effect: {idle}" if idle else "all took place", not idle)
    board.note(f"{what}: claims of another user", f"{len(other['waits'])} granted, refused: {other['refused']}",
               other["waits"] and not other["refused"])
    board.bar(f"{what}: the median of them", statistics.median(other["waits"] or [0]) * 1000, MEDIAN, "ms")
    board.note(f"{what}: root's audit", f"{len(root['waits'])} answers, refused: {root['refused']}",
               root["waits"] and not root["refused"])
    board.note(f"{what}: a member's line in the audit", "there" if found["member"] else "gone", found["member"])
    board.note(f"{what}: lines of the log", str(found["log"]), found["log"] <= MOST_LINES, str(MOST_LINES))


def seconds(board):
    return 3 if board.short else 10


def what_users_share(board):
    if os.geteuid() != 0:
        return board.skip("floods of three users", ONLY_ROOT)
    with flooded() as floods:
        judge(board, "a revoked token, revoked again", floods.run(seconds(board), *KINDS["revoked"]))
        floods.be_refused_from("127.9.9.9")
        judge(board, "3,300 addresses", floods.run(seconds(board), *KINDS["addresses"]))
        lines, first = floods.refused_lines()
        board.note("3,300 addresses: the first refusal before them", f"{lines} lines", first)
        codes, messages, took = runs_at_once(floods, 100)
        board.note("100 `gpuyard run` of one user at once", f"{took:.1f} s, refused: {messages[:2]}",
                   codes == [0] * len(codes))


def the_past(board):
    if os.geteuid() != 0:
        return board.skip("questions about the past", ONLY_ROOT)
    with flooded(old=True) as floods:
        judge(board, "questions about the past", floods.run(seconds(board), *KINDS["disk"]))


ALL = (what_users_share, the_past)
