"""Runs tasks in processes of several users at the same time. Needs root."""

import collections
import multiprocessing
import os
import time

from program import PATIENCE

Door = collections.namedtuple("Door", "path port")  # of a daemon: its socket and its TCP port


def run_as(uid, groups, task, until, answers):
    try:
        if uid != 0:
            os.setgroups(groups)
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
        answers.put((uid, task(uid, until), None))
    except Exception as error:  # pylint: disable=broad-except
        answers.put((uid, None, repr(error)))


def at_once(seconds, tasks):
    """Runs each (uid, supplementary groups, task), one of each uid, as task(uid, until): {uid: the result}.
    Fails if a task raised."""
    context = multiprocessing.get_context("fork")
    answers, until = context.Queue(), time.monotonic() + seconds
    processes = [context.Process(target=run_as, args=(*one, until, answers)) for one in tasks]
    try:
        for one in processes:
            one.start()
        found = [answers.get(timeout=seconds + 2 * PATIENCE) for _ in processes]
        for one in processes:
            one.join(PATIENCE)
    finally:
        for one in processes:
            if one.is_alive():
                one.kill()
    failed = {uid: error for uid, _, error in found if error}
    assert not failed, failed
    return {uid: result for uid, result, _ in found}
