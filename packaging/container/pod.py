"""Runs a container of an image, or the containers of a pod, with what the kernel gives and no engine: its
own mounts, a root that is read-only, the user and the capabilities that are asked for. It is for tests on
machines where no container engine works. Not covered: seccomp, cgroups, devices, a real kubelet."""

import contextlib
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

PATIENCE = 20  # seconds until something that must happen has failed


def mounts_script(root, place, mounts):
    """Shell that makes `root` read-only at `place`, with `mounts` (source, target, read-only) in it."""
    lines = ["set -e", "mount --make-rprivate /", f"mount --bind {root} {place}"]
    lines += [f"mount --rbind /{name} {place}/{name}" for name in ("dev", "sys")]
    lines += [f"mount -t proc proc {place}/proc"]
    for source, target, read_only in mounts:
        lines.append(f"mount --bind {source} {place}{target}")
        if read_only:
            lines.append(f"mount -o remount,bind,ro {place}{target}")
    return [*lines, f"mount -o remount,bind,ro {place}"]


class Container:
    """One container: an unpacked image, and how it is run."""

    def __init__(self, root, *, user, groups=(), add=(), mounts=(), env=None, host_pid=False, network=None):
        self.root, self.user, self.groups, self.add = Path(root), user, groups, add
        self.mounts, self.env, self.host_pid, self.network = list(mounts), env or {}, host_pid, network
        for source, target, _ in self.mounts:  # an engine makes what is mounted upon, before it is read-only
            at = self.root / target.lstrip("/")
            if os.path.isdir(source):
                at.mkdir(parents=True, exist_ok=True)
            elif not at.exists():
                at.touch()

    def command(self, words):
        place = self.root.parent / f"{self.root.name}.at"
        place.mkdir(exist_ok=True)
        capabilities = ",".join(["-all", *(f"+{name.lower()}" for name in self.add)])
        groups = f"--groups={','.join(map(str, self.groups))}" if self.groups else "--clear-groups"
        inside = ["chroot", str(place), "setpriv", f"--reuid={self.user}", f"--regid={self.user}", groups,
                  f"--bounding-set={capabilities}", "--inh-caps=-all", "--no-new-privs"]
        script = mounts_script(self.root, place, self.mounts) + ['exec "$@"']
        spaces = ["--mount"] if self.host_pid else ["--mount", "--pid", "--fork", "--kill-child"]
        outside = ["nsenter", f"--net=/proc/{self.network}/ns/net"] if self.network else []
        return [*outside, "unshare", *spaces, "sh", "-c", "\n".join(script), "sh", *inside, *words]

    def run(self, *words, check=True):
        done = subprocess.run(self.command(words), env=self.env, capture_output=True, text=True, timeout=60)
        if check:
            assert done.returncode == 0, f"{words}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done

    def wait_until(self, words, still=lambda: None):
        """Runs a command until it succeeds; `still` raises when there is no point in waiting any more."""
        deadline = time.monotonic() + PATIENCE
        while (done := self.run(*words, check=False)).returncode != 0:
            still()
            assert time.monotonic() < deadline, f"{words}: {done.stdout}{done.stderr}"
            time.sleep(0.1)

    @contextlib.contextmanager
    def running(self, *words, answers, log):
        """Runs `words` until the block is over, once the command `answers` succeeds in the container."""
        with open(log, "w", encoding="utf-8") as out:
            process = subprocess.Popen(self.command(words), env=self.env, stdout=out, stderr=out)

        def still():
            assert process.poll() is None, f"it ended: {Path(log).read_text(encoding='utf-8')}"

        try:
            self.wait_until(answers, still)
            yield process
        finally:
            self.stop(process)

    def first_process(self, process):
        """The number of the container's first process. With process numbers of its own it is a child of
        the one that was started, which passes no signal on."""
        if self.host_pid:
            return process.pid
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text(encoding="utf-8")
        return int(children.split()[0])

    def stop(self, process):
        if process.poll() is not None:
            return
        first = self.first_process(process)
        os.kill(first, signal.SIGTERM)
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            os.kill(first, signal.SIGKILL)
            process.wait()
            raise


@contextlib.contextmanager
def network_of_its_own():
    """Gives the number of a process in a network with a loopback and nothing else, so that ports are free."""
    holder = subprocess.Popen(["unshare", "--net", "sh", "-c", "ip link set lo up && echo && exec sleep 600"],
                              stdout=subprocess.PIPE)
    try:
        holder.stdout.readline()
        yield holder.pid
    finally:
        holder.kill()
        holder.wait()


def write_volume(place, files, *, mode=0o644, group=0, sticky=False):
    """Writes files the way the kubelet does: in a folder of their own, with links to it by way of ..data,
    which is replaced in one step, in a volume that anybody may write to."""
    place.mkdir(parents=True, exist_ok=True)
    generation = place / f"..{time.monotonic_ns()}"
    generation.mkdir()
    for name, text in files.items():
        path = generation / name
        path.write_text(text, encoding="utf-8")
        os.chown(path, 0, group)
        path.chmod(mode)
        if not (place / name).is_symlink():
            (place / name).symlink_to(f"..data/{name}")
    before = (place / "..data").resolve() if (place / "..data").exists() else None
    (place / "..data_tmp").symlink_to(generation.name)
    (place / "..data_tmp").replace(place / "..data")
    if before is not None:
        shutil.rmtree(before)
    place.chmod(0o1777 if sticky else 0o777)


class Pod:
    """The pod of a DaemonSet, with its folders of the node below `place`."""

    def __init__(self, documents, root, place, network, secrets=None):
        kinds = {one["kind"]: one for one in documents}
        self.spec = kinds["DaemonSet"]["spec"]["template"]["spec"]
        self.root, self.place, self.network = root, Path(place), network
        self.volumes = {one["name"]: one for one in self.spec["volumes"]}
        self.group = self.spec["securityContext"]["fsGroup"]
        for name, volume in self.volumes.items():
            if "hostPath" in volume:
                self.source(name).mkdir(parents=True, exist_ok=True)  # DirectoryOrCreate: root's, 0755
            elif "configMap" in volume:
                write_volume(self.source(name), kinds["ConfigMap"]["data"])
            elif "secret" in volume:
                self.write_secret(name, (secrets or {})[volume["secret"]["secretName"]])

    def source(self, name):
        path = self.volumes[name].get("hostPath", {}).get("path", f"/volumes/{name}")
        return self.place / path.lstrip("/")

    def write_secret(self, name, files):
        write_volume(self.source(name), files, mode=self.volumes[name]["secret"]["defaultMode"],
                     group=self.group, sticky=True)

    def container(self, image_env, one):
        security = one["securityContext"]
        assert security["readOnlyRootFilesystem"] and security["capabilities"]["drop"] == ["ALL"]
        mounts = []
        for mount in one["volumeMounts"]:
            source = self.source(mount["name"])
            if "subPath" in mount:
                source = (source / mount["subPath"]).resolve()
            mounts.append((source, mount["mountPath"], mount.get("readOnly", False)))
        known = {"spec.nodeName": "node1", "status.podIP": "127.0.0.1"}
        env = dict(image_env)
        for variable in one.get("env", []):
            field = variable.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")
            env[variable["name"]] = known[field] if field else variable["value"]
        words = [*one.get("command", ["gpuyard"]), *one.get("args", [])]
        words = [word.replace("$(NODE_NAME)", "node1").replace("$(POD_IP)", "127.0.0.1") for word in words]
        made = Container(self.root, user=security["runAsUser"], groups=[self.group], mounts=mounts, env=env,
                         add=security["capabilities"].get("add", []), host_pid=self.spec["hostPID"],
                         network=self.network)
        return made, words

    def start_init_containers(self, image_env):
        for one in self.spec["initContainers"]:
            made, words = self.container(image_env, one)
            made.run(*words)
