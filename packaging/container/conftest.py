"""The image under test, built once, from the package and from the tarball."""

import json
import os
from pathlib import Path

import pytest

from common import Builder, package_of_the_program, tool
from pod import network_of_its_own


@pytest.fixture(scope="session", name="builder")
def builder_fixture(tmp_path_factory):
    made = Builder(tmp_path_factory.mktemp("builder"))
    yield made
    made.clear()


@pytest.fixture(scope="session", name="image", params=["deb", "tarball"])
def image_fixture(request, builder, tmp_path_factory):
    """An image, by its name, its configuration and its unpacked root."""
    name, more = f"gpuyard-{request.param}", []
    given = os.environ.get("GPUYARD_PACKAGE")
    if given and given.endswith(".deb") == (request.param == "deb"):
        context, more = Path(given).resolve().parent, ["--build-arg", f"PACKAGE={Path(given).name}"]
    else:
        context = package_of_the_program(request.param, tmp_path_factory.mktemp(name))
        if request.param == "tarball":
            more = ["--build-arg", "PACKAGE=gpuyard-*.tar.gz"]
    builder.build(name, context, *more)
    config = json.loads(builder("inspect", "--type", "image", name).stdout)["Docker"]["config"]
    made = builder("from", "--pull-never", name).stdout.strip()
    root = builder("mount", made).stdout.strip()
    return name, config, Path(root)


@pytest.fixture(name="network")
def network_fixture():
    tool("nsenter"), tool("ip")
    with network_of_its_own() as network:
        yield network
