"""tools/kube_*.sh and `./yard fleet-test kube`, with a stand-in for Go that builds empty programs."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from test_orders import clone, run  # noqa: F401  (a fixture)

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = "tools/kube_control_plane.sh"
KUBELET = "tools/kube_kubelet_node.sh"
GO = """#!/bin/bash
set -e
case "$1 $2" in
  "mod download") ! [[ -e $STATE/offline ]] ;;
  "mod edit") echo '{"Tool": [{"Path": "one/server"}, {"Path": "one/kube-apiserver"}]}' ;;
  "build "*)
    [[ ! -e $STATE/broken || $PWD == */etcd ]]
    while [[ $1 != -o ]]; do shift; done
    if [[ -d $2 ]]; then touch "$2/server" "$2/kube-apiserver"; else echo program >"$2"; chmod +x "$2"; fi
    echo built >>"$STATE/builds" ;;
esac
"""


class Builder:
    def __init__(self, place):
        self.place = place
        self.cache = place / "cache"
        (place / "tools").mkdir()
        for script in (SCRIPT, KUBELET):
            shutil.copy(ROOT / script, place / script)
        for sources in ("tests/kube/control_plane", "tests/kube/node"):
            shutil.copytree(ROOT / sources, place / sources)
        (place / "bin").mkdir()
        (place / "bin/go").write_text(GO)
        (place / "bin/go").chmod(0o755)

    def __call__(self, *words, script=SCRIPT):
        environment = {"PATH": f"{self.place}/bin:/usr/bin:/bin", "HOME": str(self.place / "home"),
                       "GPUYARD_KUBE_CACHE": str(self.cache), "STATE": str(self.place)}
        return subprocess.run([self.place / script, *words], env=environment, capture_output=True, text=True,
                              check=False)

    def builds(self):
        return len((self.place / "builds").read_text().splitlines())

    def found(self):
        return sorted(os.listdir(self.cache)) if self.cache.exists() else []


@pytest.fixture
def control_plane(tmp_path):
    return Builder(tmp_path)


def test_control_plane_outside_cache_is_reported(control_plane):
    done = control_plane()
    assert done.returncode == 3 and not done.stdout and not control_plane.found()
    assert "1.37.2 is not in the cache: ./yard fleet-test kube builds it" in done.stderr


def test_control_plane_is_built_once(control_plane):
    for words in (["--build"], ["--build"], []):
        done = control_plane(*words)
        assert (done.returncode, done.stdout) == (0, f"{control_plane.cache}/kubernetes-1.37.2\n"), done.stderr
    assert control_plane.builds() == 2  # one for each module
    assert {"etcd", "kube-apiserver", "ready"} <= set(os.listdir(done.stdout.strip()))


def test_other_pins_are_not_ready(control_plane):
    control_plane("--build")
    with open(control_plane.place / "tests/kube/control_plane/etcd/go.sum", "a", encoding="utf-8") as file:
        file.write("more\n")
    assert control_plane().returncode == 3
    assert control_plane("--build").returncode == 0 and control_plane().returncode == 0


def test_failed_build_leaves_nothing_in_cache(control_plane):
    (control_plane.place / "broken").touch()
    assert control_plane("--build").returncode == 1
    assert control_plane.found() == [] and control_plane().returncode == 3


def test_silent_module_proxy_is_reported(control_plane):
    (control_plane.place / "offline").touch()
    done = control_plane("--build")
    assert done.returncode == 3 and "the module proxy does not answer" in done.stderr
    assert control_plane.found() == []


def test_kubelet_is_built_beside_control_plane_alone(control_plane):
    assert control_plane("--build", script=KUBELET).returncode == 3  # it does not build the control plane
    control_plane("--build")
    done = control_plane(script=KUBELET)
    assert done.returncode == 3 and "kubelet-node is not in the cache" in done.stderr
    for words in (["--build"], ["--build"], []):
        done = control_plane(*words, script=KUBELET)
        assert (done.returncode, done.stdout) == (0, f"{control_plane.cache}/kubernetes-1.37.2/kubelet-node\n"), done.stderr
    assert control_plane.builds() == 3 and control_plane().returncode == 0


def test_changed_kubelet_is_built_without_control_plane(control_plane):
    control_plane("--build")
    place = os.path.dirname(control_plane("--build", script=KUBELET).stdout)
    built = sorted(os.listdir(place))
    with open(control_plane.place / "tests/kube/node/main.go", "a", encoding="utf-8") as file:
        file.write("// more\n")
    assert control_plane(script=KUBELET).returncode == 3 and control_plane().returncode == 0
    (control_plane.place / "broken").touch()
    assert control_plane("--build", script=KUBELET).returncode == 1
    assert sorted(os.listdir(place)) == built
    (control_plane.place / "broken").unlink()
    assert control_plane("--build", script=KUBELET).returncode == 0 and control_plane.builds() == 4


def test_fleet_test_kube_builds_its_programs_first(clone):  # noqa: F811
    for script in (SCRIPT, KUBELET):
        (clone / script).write_text('#!/bin/bash\necho "${0##*/}" "$@" >>asked\n')
    (clone / "tests/kube").mkdir()
    (clone / "tests/kube/test_rig.py").write_text(
        "def test_first():\n    assert open('asked').read().split() == [\n"
        "        'kube_control_plane.sh', '--build', 'kube_kubelet_node.sh', '--build']\n"
        "def test_second():\n    pass\n")
    done = run(clone, "./yard", "fleet-test", "kube", "-k", "first")
    assert done.returncode == 0 and "1 passed, 1 deselected" in done.stdout, done.stdout
