"""The image, and a container of it as Docker would run it."""

import contextlib
import os
import shutil
import signal
from pathlib import Path

from common import MOST_BYTES, USER, env_of
from pod import Container, network_of_its_own


def test_our_layers_are_small(image, builder):
    name, _, root = image
    ours = builder.layers(name)[1:]
    unpacked = sum(path.stat().st_size for folder in ("usr/bin/gpuyard", "usr/lib/gpuyard")
                   for path in [root / folder, *(root / folder).rglob("*")] if path.is_file())
    print(f"{name}: {len(ours)} layers, {sum(ours):,} bytes compressed, {unpacked:,} bytes of files")
    assert sum(ours) < MOST_BYTES and unpacked < MOST_BYTES


def test_image_describes_how_to_run(image):
    config = image[1]
    assert config["User"] == f"{USER}:{USER}" and config["StopSignal"] == "SIGTERM"
    assert config["Entrypoint"] == ["gpuyard"] and config["Cmd"] == ["serve"]
    assert set(config["Volumes"]) == {"/run/gpuyard", "/var/lib/gpuyard"}
    assert config["Healthcheck"]["Test"] == ["CMD", "gpuyard", "driver"]
    assert env_of(config)["NVIDIA_DRIVER_CAPABILITIES"] == "utility"


def test_a_context_with_two_packages_is_refused(builder, tmp_path):
    for version in ("1", "2"):
        (tmp_path / f"gpuyard_{version}_amd64.deb").touch()
    done = builder.build("wrong", tmp_path, check=False)
    assert done.returncode != 0 and "has 2 packages" in done.stderr + done.stdout


@contextlib.contextmanager
def volumes_like_docker(root, place):
    """A new volume has the owner and the mode of the folder of the image."""
    mounts = []
    for target in ("/run/gpuyard", "/var/lib/gpuyard"):
        source = place / target.lstrip("/")
        shutil.copytree(root / target.lstrip("/"), source)
        status = (root / target.lstrip("/")).stat()
        os.chown(source, status.st_uid, status.st_gid)
        mounts.append((source, target, False))
    with network_of_its_own() as network:
        yield mounts, network


def test_container_runs_unprivileged_on_read_only_root(image, tmp_path):
    _, config, root = image
    with volumes_like_docker(root, tmp_path) as (mounts, network):
        made = Container(root, user=USER, mounts=mounts, env=env_of(config), network=network)
        health = config["Healthcheck"]["Test"][1:]
        with made.running("gpuyard", "serve", "--simulate", "2", answers=health, log=tmp_path / "log") as daemon:
            shown = made.run("gpuyard", "devices").stdout
            assert shown.count("H100") == 2, shown
            refused = made.run("touch", "/etc/x", check=False)
            assert "Read-only file system" in refused.stderr
            first = made.first_process(daemon)
            status = Path(f"/proc/{first}/status").read_text(encoding="utf-8")
            assert f"Uid:\t{USER}" in status and "CapEff:\t0000000000000000" in status
            assert "NSpid:" in status and status.split("NSpid:")[1].split("\n")[0].split()[-1] == "1"
            os.kill(first, signal.SIGTERM)  # as an engine stops it: the first process, which no default ends
            assert daemon.wait(10) == 0, (tmp_path / "log").read_text(encoding="utf-8")


def test_root_with_two_capabilities_sets_power_limits(image, tmp_path):
    """DAC_OVERRIDE, since the volumes belong to the image's own user."""
    _, config, root = image
    settings = tmp_path / "gpuyard.toml"
    settings.write_text("[control]\nenabled = true\n", encoding="utf-8")
    with volumes_like_docker(root, tmp_path / "volumes") as (mounts, network):
        mounts.append((settings, "/etc/gpuyard/gpuyard.toml", True))
        made = Container(root, user=0, mounts=mounts, env=env_of(config), network=network,
                         add=["SYS_ADMIN", "DAC_OVERRIDE"])
        with made.running("gpuyard", "serve", "--simulate", "1", answers=["gpuyard", "driver"], log=tmp_path / "log"):
            made.run("gpuyard", "power", "0", "300", "--yes")
            assert "300" in made.run("gpuyard", "power").stdout


def test_container_without_driver_is_unhealthy_and_doctor_explains(image, tmp_path):
    _, config, root = image
    with volumes_like_docker(root, tmp_path) as (mounts, network):
        made = Container(root, user=USER, mounts=mounts, env=env_of(config), network=network)
        with made.running("gpuyard", "serve", answers=["gpuyard", "queue"], log=tmp_path / "log"):
            assert made.run("gpuyard", "driver", check=False).returncode == 5
            assert "NVML Shared Library Not Found" in made.run("gpuyard", "doctor", check=False).stdout
