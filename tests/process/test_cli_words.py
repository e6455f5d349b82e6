"""The meaning of words of a command line, of the environment and of a configuration: an empty value, a
selection that selects nothing, a time, and ~. No word silently means something else."""

import datetime
import json
import os
import re
import subprocess

import pytest

from program import PATIENCE, PROGRAM, clean_environment, wait_until

TOKYO = {"TZ": "JST-9"}  # a zone that needs no files
MIG = "MIG-377e0049-554c-540b-93c6-d0976f8426cb"


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


def test_instance_is_charged_to_its_gpu_if_known(world, run, tmp_path):
    world.start("--gpus", "2", "--load", "idle")
    simulated = {"GPUYARD_SIM_WORLD": str(world.directory)}
    words = ("energy", "--nvml", os.path.abspath(os.environ["GPUYARD_SIM_LIB"]), "--json")
    done = run(*words, "--", "sh", "-c", "exit 5", **simulated, CUDA_VISIBLE_DEVICES=MIG)
    told = json.loads(done.stderr)
    assert (done.returncode, told["joules"], told["gpus"]) == (5, None, [])
    assert "its energy use is unknown" in told["notes"][0] and MIG in told["notes"][0]
    done = run(*words, "--", "true", **simulated, CUDA_VISIBLE_DEVICES=f"MIG-{world.uuid(1)}/1/0")
    told = json.loads(done.stderr)
    assert [gpu["index"] for gpu in told["gpus"]] == [1]
    assert [note for note in told["notes"] if "MIG instance of GPU 1" in note]


def test_missing_gpu_is_named_without_internal_details(daemon, run):
    yard = daemon("--simulate", "2")
    for words in (("run", "--no-wait", "--among", "99", "--", "true"),
                  ("energy", "--gpus", "99", "--", "true")):
        done = run(*words, GPUYARD_SOCKET=yard.socket)
        assert done.returncode == 6, done.stderr
        assert 'GPU "99" not found' in done.stderr
        assert "/among" not in done.stderr and "/gpus" not in done.stderr and "body" not in done.stderr


# ---- times


def local(seconds_ago, form="%Y-%m-%d %H:%M:%S"):
    there = datetime.timezone(datetime.timedelta(hours=9))
    return (datetime.datetime.now(there) - datetime.timedelta(seconds=seconds_ago)).strftime(form)


def history(run, yard, *words):
    done = run("history", "0", "--metric", "power", "--json", *words, GPUYARD_SOCKET=yard.socket,
               **TOKYO)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["series"][0]["points"]


def test_time_is_local_or_names_its_zone(yard, run):
    yard.wait_for_readings(4)
    for since in (local(120), local(120, "%Y-%m-%dT%H:%M:%S+09:00"), local(120, "%Y/%m/%d %H:%M:%S"),
                  local(120, "%m-%d %H:%M"), local(120, "%H:%M"), local(120, "%H:%M:%S"), "2m", "2m ago"):
        assert len(history(run, yard, "--since", since)) >= 2, since
    utc = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(seconds=120)
    assert history(run, yard, "--since", utc.strftime("%Y-%m-%dT%H:%M:%SZ"))
    done = run("history", "--since", local(-3600), GPUYARD_SOCKET=yard.socket, **TOKYO)
    assert done.returncode == 2 and "since must be before until" in done.stderr
    done = run("history", "--since", "30", GPUYARD_SOCKET=yard.socket, **TOKYO)
    assert done.returncode == 2
    assert done.stderr.startswith("gpuyard: --since: expected a time before now such as 90s")


def test_tables_print_local_time_zone(yard, run):
    yard.wait_for_readings(2)
    plot = run("history", "0", "--metric", "power", "--plot", GPUYARD_SOCKET=yard.socket, **TOKYO).stdout
    assert plot.rstrip().endswith(" JST"), plot
    wait_until(lambda: "JST" in (shown := run("energy", GPUYARD_SOCKET=yard.socket, **TOKYO).stdout)
               and re.search(local(0, "%Y-%m-%d"), shown), "the books in local time")


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
    for since in ("5m", "5m ago", local(300), local(300, "%H:%M"), printed):
        assert "Xid 31" in events("--since", since), since
    assert events("--since", local(-60)) == "No events.\n"
    refused = run("events", "--since", "30", GPUYARD_SOCKET=yard.socket)
    assert refused.returncode == 2 and "or an event ID; got" in refused.stderr


# ---- ~


def test_tilde_in_a_configuration_is_the_home_directory(daemon, run, tmp_path):
    file = tmp_path / "c.toml"
    file.write_text('[state]\ndirectory = "~/yard/state"\n[server]\nsocket = "~/yard.sock"\nlisten = []\n')
    home = tmp_path / "home"
    home.mkdir()
    shown = run("config", "print", "--config", str(file), HOME=str(home))
    assert f'directory = "{home}/yard/state"' in shown.stdout
    assert f'socket = "{home}/yard.sock"' in shown.stdout
    environment = clean_environment(tmp_path, HOME=str(home))
    environment.pop("GPUYARD_SOCKET", None)
    served = subprocess.Popen([PROGRAM, "serve", "--simulate", "1", "--config", str(file)], cwd=tmp_path,
                              env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: (home / "yard.sock").exists() and (home / "yard" / "state" / "state.db").exists(),
                   "the daemon's files in the home directory")
        assert run("devices", GPUYARD_SOCKET="~/yard.sock", HOME=str(home)).returncode == 0
    finally:
        served.terminate()
        served.wait(PATIENCE)
    assert not (tmp_path / "~").exists()


def test_relative_path_in_a_configuration_is_refused(run, tmp_path):
    file = tmp_path / "c.toml"
    file.write_text('[state]\ndirectory = "yard"\n')
    done = run("config", "validate", "--config", str(file))
    assert done.returncode == 2
    assert f'{file}:2: state.directory: "yard" is not an absolute path' in done.stderr


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
