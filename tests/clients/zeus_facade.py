"""A daemon of ours as programs see it that were written for zeusd."""

from program import wait_until


# Members of this group may set GPUs; every Debian has it.
GROUP = "daemon"


class Facade:
    """A daemon on a world, and the socket that is zeusd's to its clients."""

    def __init__(self, daemon, world, directory, *, control=True, powercap=None):
        self.socket = str(directory / "zeusd.sock")
        config = directory / "gpuyard.toml"
        config.write_text(f'[control]\nenabled = {str(control).lower()}\n'
                          f'group = "{GROUP}"\n'
                          f'[zeus]\nsocket = "{self.socket}"\nlisten = ["127.0.0.1:0"]\n'
                          f'rapl_root = "{powercap or directory / "nowhere"}"\n')
        self.arguments = ("--config", str(config))
        self.world = world
        self.start = lambda: daemon(*self.arguments, directory=directory,
                                    GPUYARD_SIM_WORLD=world.directory)
        self.yard = self.start()
        wait_until(lambda: self.yard.get("/api/gpu/snapshot").json()["devices"], "the GPUs")

    def tcp_port(self):
        place = next(line for line in self.yard.log().splitlines()
                     if "listening on http" in line and "for Zeus" in line)
        return int(place.split("127.0.0.1:")[1].split()[0])
