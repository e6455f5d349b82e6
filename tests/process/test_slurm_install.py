"""The hooks that `gpuyard slurm install` writes: root runs them, so they may run nothing that another user can
change. Slurm's own programs are scripts here."""

import os
import pathlib
import shutil
import subprocess

import pytest
from program import PATIENCE, PROGRAM, clean_environment

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the rules for root's programs apply to root")
STRANGER = 1001
HOOKS = ("health", "prolog", "epilog", "epilog-slurmctld")
SLURM = "scontrol sinfo squeue sacct sacctmgr slurmd"
USUAL = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# A script that records its name and arguments.
NOTES = '#!/bin/sh\nprintf "%s\\n" "$0 $*" >>"{mark}"\nexit {status}\n'


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


class Site:
    """A machine with Slurm's programs in a folder of their own."""

    def __init__(self, place):
        self.place = place
        self.slurm = place / "slurm"
        self.hooks = place / "hooks"
        self.called = place / "called"
        self.config = ""
        for name in SLURM.split():
            write(self.slurm / name, NOTES.format(mark=self.called, status=1))
        self.environment = clean_environment(place, PATH=f"{self.slurm}:{USUAL}", GPUYARD_SOCKET=f"{place}/none.sock")

    def configure(self, **lines):
        """Sets the output of `scontrol show config`."""
        text = "".join(f"{key} = {value}\n" for key, value in lines.items())
        write(self.slurm / "scontrol", f"#!/bin/sh\ncat <<'END'\n{text}END\n")

    def program(self, *folders, owner=0):
        """A copy of gpuyard in this folder, which belongs to `owner`."""
        path = self.place.joinpath(*folders, "gpuyard")
        path.parent.mkdir(parents=True)
        shutil.copy(PROGRAM, path)
        os.chown(path.parent, owner, owner)
        os.chown(path, owner, owner)
        return path

    def install(self, program, into=None, **environment):
        words = ["--into", str(into or self.hooks)]
        return self.go([str(program), "slurm", "install", *words], **environment)

    def check(self, program=PROGRAM):
        """The verdict of `slurm install` on each line of slurm.conf."""
        done = self.go([str(program), "slurm", "install"])
        lines = (line.split(None, 1) for line in done.stdout.splitlines() if line.startswith("  "))
        return {line.split("=")[0]: verdict for line, verdict in lines}

    def go(self, words, cwd="/", **environment):
        return subprocess.run(words, env=self.environment | environment, cwd=cwd, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=PATIENCE, check=False)


@pytest.fixture
def site(tmp_path):
    return Site(tmp_path)


@pytest.mark.parametrize("folder", ["with blank", "$(touch owned)", "it's", "`id`;&|", 'a"b\\c'])
def test_the_hooks_run_a_program_in_any_folder(site, folder):
    program = site.program(folder)
    site.install(program)
    # Replaced by one that records its arguments.
    write(program, NOTES.format(mark=site.called, status=7))
    site.called.write_text("")
    for hook, verb in zip(HOOKS, ("health", "begin", "end", "epilog-ctld")):
        done = site.go([str(site.hooks / hook)], cwd=site.place)
        assert (done.returncode, done.stderr) == (7, ""), hook
        assert site.called.read_text().splitlines()[-1] == f"{program} slurm {verb}"
    program.unlink()
    for hook in HOOKS:
        done = site.go([str(site.hooks / hook)], cwd=site.place)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), "a removed program keeps no job out"
    assert not (site.place / "owned").exists()


def test_a_program_of_another_user_is_refused(site):
    program = site.program("home", "alice", owner=STRANGER)
    done = site.install(program)
    assert done.returncode == 2 and not site.hooks.exists(), done
    assert f"{program}: Slurm's hooks run it as root, but {program.parent} belongs to UID {STRANGER} " in done.stderr
    assert "(a directory, mode 0755)" in done.stderr
    assert f"`install -m 755 {program} /usr/bin/gpuyard`" in done.stderr
    assert "chown" not in done.stderr and "chmod" not in done.stderr


def test_a_program_others_may_change_is_refused(site):
    program = site.program("bin")
    program.chmod(0o777)
    done = site.install(program)
    assert done.returncode == 2 and not site.hooks.exists()
    assert f"other users can write to {program}, which belongs to root (mode 0777); install the package" in done.stderr


@pytest.mark.parametrize("owner, mode", [(STRANGER, 0o755), (0, 0o777)])
def test_a_folder_others_may_change_gets_no_hooks(site, owner, mode):
    theirs = site.place / "theirs"
    theirs.mkdir()
    os.chown(theirs, owner, owner)
    theirs.chmod(mode)
    for into in (theirs, theirs / "hooks"):
        done = site.install(PROGRAM, into)
        assert done.returncode == 2 and not list(theirs.iterdir()), done
        assert f"{into}: root runs the hooks in it, but " in done.stderr
        assert "/etc/gpuyard/slurm is the usual folder" in done.stderr


def test_hooks_search_folders_of_install_only(site):
    site.install(PROGRAM)
    for hook in HOOKS:
        path = next(line for line in (site.hooks / hook).read_text().splitlines() if line.startswith("PATH="))
        folders = path.removeprefix("PATH=").split(":")
        assert folders[0] == str(site.slurm) and "/usr/bin" in folders
        assert all(folder.startswith("/") for folder in folders) and "$" not in path
    # A folder with programs of Slurm's names.
    trap, mark = site.place / "trap", site.place / "trapped"
    for name in SLURM.split():
        write(trap / name, NOTES.format(mark=mark, status=0))
    job = {"SLURM_JOB_ID": "7", "SLURM_JOB_UID": "1000", "SLURM_JOB_USER": "alice", "SLURM_JOB_GPUS": "0",
           "SLURMD_NODENAME": "n1", "BASH_ENV": str(trap / "scontrol"), "ENV": str(trap / "scontrol"), "IFS": "/"}
    for path in ("", ".", f"{trap}:/usr/bin", ":/usr/bin"):
        for hook in HOOKS:
            site.go([str(site.hooks / hook)], cwd=trap, PATH=path, **job)
    assert site.called.exists(), "a hook called Slurm"
    assert not mark.exists(), mark.read_text()


@pytest.mark.parametrize("path", ["", ":", ".:/usr/bin", "trap"])
def test_slurm_install_runs_no_program_from_working_directory(site, path):
    trap, mark = site.place / "trap", site.place / "trapped"
    for name in SLURM.split():
        write(trap / name, NOTES.format(mark=mark, status=0))
    done = site.go([PROGRAM, "slurm", "install"], cwd=trap, PATH=path)
    assert "HealthCheckProgram=" in done.stdout + done.stderr, done
    assert not mark.exists(), mark.read_text()


def test_slurm_of_another_user_is_refused(site):
    os.chown(site.slurm, STRANGER, STRANGER)
    done = site.install(PROGRAM)
    assert done.returncode == 2 and not site.hooks.exists()
    assert f"{site.slurm}/scontrol: Slurm's hooks run it as root, but {site.slurm} belongs to" in done.stderr


CALLS = {  # a prolog's text that runs {0}
    "unquoted": "exec {0} slurm prolog\n",
    "single quotes": "exec '{0}' slurm prolog\n",
    "double quotes": '"{0}" slurm prolog || exit 1\n',
    "a comment before": "# was: exec /usr/bin/gpuyard slurm prolog\n  {0} slurm prolog # ours\n",
    "another call after": "{0} slurm prolog;/usr/bin/env true slurm prolog\n",
    "in a condition": "if ! ({0} slurm prolog>/dev/null); then exit 1; fi\n",
    "today's verb": "exec {0} slurm prolog\n",
}


def configure_all(site):
    keys = dict(zip(HOOKS, ("HealthCheckProgram", "Prolog", "Epilog", "EpilogSlurmctld")))
    site.configure(**{key: site.hooks / hook for hook, key in keys.items()}, HealthCheckInterval="30 sec",
                   PrologFlags="Alloc")
    assert set(site.check().values()) == {"ok"}


def check_prolog(site, text):
    write(site.hooks / "prolog", "#!/bin/sh\n" + text)
    verdicts = site.check()
    prolog = verdicts.pop("Prolog")
    assert set(verdicts.values()) == {"ok"}
    return prolog


@pytest.mark.parametrize("call", CALLS)
def test_hooks_that_run_another_users_program_are_named(site, call):
    site.install(PROGRAM)
    configure_all(site)
    theirs = site.program("home", "alice", owner=STRANGER)
    verdict = check_prolog(site, CALLS[call].format(theirs))
    assert verdict.startswith(f"{theirs}: Slurm's hooks run it as root, but ")
    assert check_prolog(site, CALLS[call].format(PROGRAM)) == "ok"


def test_the_quoted_program_of_a_hook_is_checked(site):
    program = site.program("it's")
    site.install(program)
    configure_all(site)
    os.chown(program.parent, STRANGER, STRANGER)
    refused = [verdict for verdict in site.check().values() if verdict != "ok"]
    assert len(refused) == len(HOOKS) and all(verdict.startswith(str(program)) for verdict in refused), refused


def test_hook_called_by_hook_of_site_is_checked(site):
    site.install(PROGRAM)
    configure_all(site)
    theirs = site.program("home", "alice", owner=STRANGER)
    ours = write(site.place / "ours" / "prolog", f"#!/bin/sh\nexec {PROGRAM} slurm prolog\n")
    assert check_prolog(site, f"{ours} || exit 1\n") == "ok"
    write(ours, f"#!/bin/sh\nexec {theirs} slurm prolog\n")
    assert check_prolog(site, f"{ours} || exit 1\n").startswith(f"{theirs}: Slurm's hooks run it as root, but ")
    write(ours, f"#!/bin/sh\nexec {PROGRAM} slurm prolog\n")
    os.chown(ours, STRANGER, STRANGER)
    assert f"{ours} belongs to UID {STRANGER}" in check_prolog(site, f"{ours} || exit 1\n")


def test_a_call_of_a_missing_hook_is_named(site):
    usual = pathlib.Path("/etc/gpuyard/slurm/prolog")
    if usual.exists():
        pytest.skip(f"{usual} exists")
    site.install(PROGRAM)
    configure_all(site)
    assert "No such file" in check_prolog(site, f"{usual} || exit 1\n")


def test_a_call_in_a_comment_does_not_count(site):
    site.install(PROGRAM)
    configure_all(site)
    verdict = check_prolog(site, f"# exec {PROGRAM} slurm prolog\n# /etc/gpuyard/slurm/prolog\nexit 0\n")
    assert verdict.endswith("which does not run `gpuyard slurm prolog`: add it")


def test_the_controllers_hook_is_not_the_epilog(site):
    site.install(PROGRAM)
    configure_all(site)
    write(site.hooks / "epilog", f"#!/bin/sh\nexec {PROGRAM} slurm epilog-ctld\n")
    assert site.check()["Epilog"].endswith("which does not run `gpuyard slurm epilog`: add it")
    write(site.hooks / "epilog", f"#!/bin/sh\nexec {PROGRAM} slurm epilog\n")
    assert site.check()["Epilog"] == "ok"


class UsualSite(Site):
    """A machine whose Slurm is in /opt/slurm, and not in PATH."""

    def __init__(self, place):
        super().__init__(place)
        self.opt = place / "opt"
        self.usual = self.opt / "slurm"
        for folder in ("bin", "sbin"):
            for name in SLURM.split():
                write(self.usual / folder / name, NOTES.format(mark=self.called, status=1))
        self.environment["PATH"] = USUAL

    def give(self, owner):
        for path in (self.usual, *self.usual.rglob("*")):
            os.chown(path, owner, owner)

    def go(self, words, cwd="/", **environment):
        script = 'mount --bind "$0" /opt && exec "$@"'
        return super().go(["unshare", "--mount", "--propagation", "private", "sh", "-c", script, str(self.opt), *words],
                          cwd, **environment)


@pytest.fixture
def usual_site(tmp_path):
    site = UsualSite(tmp_path)
    if not os.path.isdir("/opt") or shutil.which("scontrol") or site.go(["true"]).returncode != 0:
        pytest.skip("needs a mount namespace and a machine without Slurm")
    return site


JOB = {"SLURM_JOB_ID": "7", "SLURM_JOB_UID": "1000", "SLURM_JOB_USER": "alice", "SLURM_JOB_GPUS": "0",
       "SLURMD_NODENAME": "n1"}


@pytest.mark.parametrize("owner", [0, STRANGER])
def test_commands_run_slurm_of_root_only(usual_site, owner):
    usual_site.give(owner)
    spool = ["--spool", str(usual_site.place / "spool")]
    for words in (["install"], ["begin", *spool]):
        usual_site.called.unlink(missing_ok=True)
        done = usual_site.go([PROGRAM, "slurm", *words], **JOB)
        assert usual_site.called.exists() == (owner == 0), (words, done)


def test_slurm_of_another_user_is_refused_with_remedy(usual_site):
    usual_site.give(STRANGER)
    mend = "chown -R root:root /opt/slurm && chmod -R go-w /opt/slurm"
    for words in ([], ["--into", str(usual_site.hooks)]):
        done = usual_site.go([PROGRAM, "slurm", "install", *words])
        assert done.returncode == 2 and not usual_site.hooks.exists(), done
        assert f"/opt/slurm belongs to UID {STRANGER} " in done.stderr
        assert "if /opt/slurm holds Slurm's programs and nothing else, give it to root, " in done.stderr
        assert f"`{mend}`" in done.stderr
    assert usual_site.go(["sh", "-c", mend]).returncode == 0
    usual_site.install(PROGRAM)
    assert "PATH=/opt/slurm/" in (usual_site.hooks / "prolog").read_text()


def test_slurm_in_a_home_gets_no_chown_advice(site):
    home = site.place / "home"
    home.mkdir()
    site.slurm.rename(home / "slurm")
    os.chown(home, STRANGER, STRANGER)
    done = site.install(PROGRAM, PATH=f"{home}/slurm:{USUAL}")
    assert done.returncode == 2 and "chown" not in done.stderr and "install Slurm where only root" in done.stderr


def test_a_relative_folder_is_printed_as_absolute(site):
    done = site.go([PROGRAM, "slurm", "install", "--into", "hooks"], cwd=site.place)
    assert f"Prolog={site.place}/hooks/prolog" in done.stdout
    assert pathlib.Path(site.hooks, "prolog").exists()


def test_another_munge_key_is_the_probable_cause(site):
    """The words of Slurm 22.05 if the controller cannot read the credential of a request."""
    write(site.slurm / "scontrol", "#!/bin/sh\necho 'slurm_load_ctl_conf error: Zero Bytes were transmitted or "
                                   "received' >&2\nexit 1\n")
    done = site.go([PROGRAM, "slurm", "install"])
    assert done.returncode != 0 and "gpuyard: slurm.conf could not be checked\n" in done.stderr, done
    assert "Zero Bytes were transmitted or received, as with another munge key on the controller\n" in done.stderr
    assert "\n  try:   munge -n | ssh CONTROLLER unmunge  # " in done.stderr
