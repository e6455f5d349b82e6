"""A test program in which every test was skipped is skipped itself. It ends with status 77, which CTest calls
skipped, and the table of proofs gets a row with its name and the reasons.

A conftest.py takes the hook: from skipped import pytest_sessionfinish
"""

from pathlib import Path

import pytest

import proofs

STATUS = 77  # SKIP_RETURN_CODE in tests/CMakeLists.txt


def reasons(reports):
    """Why these were skipped; each reason once, in one line."""
    texts = (report.longrepr[2].removeprefix("Skipped: ") for report in reports)
    return "; ".join(dict.fromkeys(" ".join(text.split()) for text in texts))


def pytest_sessionfinish(session, exitstatus):
    terminal = session.config.pluginmanager.get_plugin("terminalreporter")
    if terminal is None or exitstatus not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        return
    skipped = terminal.stats.get("skipped", [])
    if not skipped or any(terminal.stats.get(kind) for kind in ("passed", "xfailed", "xpassed")):
        return
    session.exitstatus = STATUS
    program = session.config.option.xmlpath or session.config.args[0]  # CTest names the report after the program
    proofs.record(Path(program).stem, f"skipped ({reasons(skipped)})")
