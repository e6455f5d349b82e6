"""The meaning of words of a command line, of the environment and of a configuration: a selection that selects
nothing, a time, and ~. No word silently means something else."""

import json
import os

import pytest

from program import wait_until

TOKYO = {"TZ": "JST-9"}  # a zone that needs no files
# ---- a selection that selects nothing


@pytest.mark.parametrize("visible, said", [
    ("", 'CUDA_VISIBLE_DEVICES="" shows the command no GPU'),
    ("0,0", 'CUDA_VISIBLE_DEVICES="0,0" names a GPU twice'),
])
def test_command_without_visible_gpus_has_zero_energy(run, tmp_path, visible, said):
    path = tmp_path / "report.json"
    done = run("energy", "--simulate", "2", "--report", str(path), "--", "sh", "-c", "echo out; exit 7",
               CUDA_VISIBLE_DEVICES=visible)
    assert (done.returncode, done.stdout) == (7, "out\n")
    assert done.stderr.startswith(f"gpuyard: {said}") and done.stderr.count("\n") == 1
    told = json.loads(path.read_text())
    assert (told["joules"], told["gpus"], told["exit_code"]) == (0, [], 7)
    assert [note for note in told["notes"] if note.startswith(said)]


def test_command_without_gpus_needs_no_driver(run):
    done = run("energy", "--nvml", "/nowhere/libnvidia-ml.so.1", "--", "sh", "-c", "exit 3",
               CUDA_VISIBLE_DEVICES="NoDevFiles")
    assert done.returncode == 3 and "shows the command no GPU" in done.stderr


def test_missing_gpu_is_named_without_internal_details(daemon, run):
    yard = daemon("--simulate", "2")
    for words in (("run", "--no-wait", "--among", "99", "--", "true"),
                  ("energy", "--gpus", "99", "--", "true")):
        done = run(*words, GPUYARD_SOCKET=yard.socket)
        assert done.returncode == 6, done.stderr
        assert 'GPU "99" not found' in done.stderr
        assert "/among" not in done.stderr and "/gpus" not in done.stderr and "body" not in done.stderr


# ---- times


def test_events_are_shown_since_a_time(world, daemon, run):
    world.start("--gpus", "1", "--load", "idle")
    yard = daemon(GPUYARD_SIM_WORLD=str(world.directory))
    yard.wait_for_readings(2)
    world.must("inject", "--gpu", "0", "--xid", "31")

    def events(*words):
        done = run("events", *words, GPUYARD_SOCKET=yard.socket, **TOKYO)
        assert done.returncode == 0, done.stderr
        return done.stdout
    wait_until(lambda: "Xid 31" in events(), "the event")
    printed = events().split()[0]
    for since in ("5m", printed):
        assert "Xid 31" in events("--since", since), since
    refused = run("events", "--since", "30", GPUYARD_SOCKET=yard.socket)
    assert refused.returncode == 2 and "or an event ID; got" in refused.stderr


def test_unreadable_token_file_is_named(run, tmp_path):
    hosts = tmp_path / "config" / "gpuyard" / "hosts.toml"
    hosts.parent.mkdir(parents=True)
    hosts.write_text('[lab]\nurl = "https://127.0.0.1:1"\ntoken_file = "~/tok"\n')
    done = run("devices", "-H", "lab", HOME=str(tmp_path), XDG_CONFIG_HOME=str(tmp_path / "config"))
    assert done.returncode != 0
    assert f"reading the token in {tmp_path}/tok: No such file" in done.stderr
    assert "--socket" not in done.stderr


# ---- ssh


def test_domain_user_and_program_at_home_reach_ssh(run, tmp_path):
    ssh = tmp_path / "ssh"
    ssh.write_text(f'#!/bin/sh\nfor word; do printf "%s\\n" "$word"; done >{tmp_path}/words\nexit 255\n')
    ssh.chmod(0o755)
    for user in ("user@corp.example.org", "CORP\\alice"):
        done = run("devices", "-H", f"ssh://{user}@lab/~/bin/gpuyard",
                   PATH=f"{tmp_path}:{os.environ['PATH']}")
        assert done.returncode == 5, done.stderr
        words = (tmp_path / "words").read_text().splitlines()
        assert words[words.index("-l") + 1] == user
        assert words[words.index("--"):] == ["--", "lab", "~/bin/gpuyard", "dial-stdio"]
