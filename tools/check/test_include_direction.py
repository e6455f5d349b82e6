import pytest

import include_direction
from include_direction import ARROWS, judge_file, judge_seen, judge_tree


def one(path: str, text: str) -> str:
    problems = judge_file(path, text)
    assert len(problems) == 1, problems
    return problems[0]


@pytest.mark.parametrize("path, include", [
    ("src/gpu/device/x.cpp", '"gpu/nvml/table.h"'),
    ("src/base/x.h", '"gpu/device/sample.h"'),
    ("src/gpu/telemetry/x.cpp", '"io/http/session.h"'),
    ("src/faces/api/x.cpp", '"gpu/nvml/api.h"'),
    ("src/faces/client/x.cpp", '"daemon/wiring.h"'),
    ("src/io/http/x_test.cpp", '"faces/api/routes.h"'),
    ("src/io/kube/x.cpp", '"io/notify/back_off.h"'),
    ("simulator/sim/x.h", '"gpu/nvml/table.h"'),
    ("include/gpuyard/x.h", '"base/result.h"'),
])
def test_an_arrow_the_wrong_way_is_found(path, include):
    assert "may not include" in one(path, f"#pragma once\n#include {include}\n")


@pytest.mark.parametrize("path, include", [
    ("src/gpu/device/x.cpp", '"base/result.h"'),
    ("src/gpu/device/x.cpp", '"gpu/device/sample.h"'),
    ("src/gpu/device/x.cpp", '"gpuyard/monitor.h"'),
    ("src/daemon/x.cpp", '"gpu/nvml/table.h"'),
    ("src/cli/x.cpp", '"sim/world.h"'),
    ("simulator/sim/keeper.cpp", '"gpu/nvml/abi.h"'),
    ("simulator/sim/keeper.cpp", '"sim/world.h"'),
    ("include/gpuyard/x.h", "<vector>"),
    ("include/gpuyard/x.h", '"gpuyard/snapshot.h"'),
    ("src/io/http/x.cpp", "<boost/asio/ip/tcp.hpp>"),
    ("src/daemon/config/config.cpp", '"base/toml_reader.h"'),
    ("simulator/sim/scenario_table.h", '"base/toml_reader.h"'),
    ("src/base/third_party/toml.h", "<toml++/toml.h>"),
    ("src/gpu/device/x_test.cpp", "<gtest/gtest.h>"),
    ("simulator/sim_nvml/abi_test.cpp", "<dlfcn.h>"),
    ("src/faces/api/x.cpp", "<boost/json.hpp>"),
])
def test_an_allowed_include_passes(path, include):
    assert judge_file(path, f"  #  include {include}\n") == []


@pytest.mark.parametrize("path, include", [
    ("src/faces/api/x.cpp", "<boost/asio.hpp>"),
    ("src/faces/api/x.cpp", "<boost/beast/http.hpp>"),
    ("src/daemon/x.cpp", "<sqlite3.h>"),
    ("src/daemon/x.cpp", "<CLI/CLI.hpp>"),
    ("src/base/x.cpp", "<toml++/toml.h>"),
    ("src/daemon/config/x.cpp", "<toml++/toml.h>"),
    ("simulator/sim/keeper.cpp", '"base/toml_reader.h"'),
    ("src/daemon/x.cpp", "<spdlog/spdlog.h>"),
    ("src/daemon/x.cpp", "<dlfcn.h>"),
    ("simulator/sim/world.cpp", "<dlfcn.h>"),
    ("src/base/x.cpp", "<gmock/gmock.h>"),
    ("src/base/x.h", "<rapidcheck.h>"),
])
def test_a_library_outside_its_room_is_found(path, include):
    assert "may stand only in" in one(path, f"#include {include}\n")


@pytest.mark.parametrize("include", ["<fmt/format.h>", "<sys/types.h>", "<unistd.h>"])
def test_a_public_header_stands_on_the_standard_library(include):
    assert "standard library only" in one("include/gpuyard/x.h", f"#include {include}\n")


@pytest.mark.parametrize("include", ['"sample.h"', '"../base/result.h"', '"nowhere/x.h"'])
def test_an_include_names_its_room(include):
    assert "names no room" in one("src/gpu/device/x.cpp", f"#include {include}\n")


def test_a_new_room_needs_a_row():
    for path in ("src/attic/x.h", "src/core/attic/x.h", "src/gpu/lease/x.h", "src/core/x.h"):
        assert "no room that has a row" in one(path, "")


def test_nested_room_has_separate_row():
    assert judge_file("src/cli/read/x.cpp", '#include "daemon/config/config.h"\n') == []
    assert "may not include cli" in one("src/faces/client/x.cpp", '#include "cli/read/x.h"\n')
    assert "may not include daemon" in one("src/daemon/config/x.cpp", '#include "daemon/serve.h"\n')


def test_wing_may_include_only_earlier_wings(monkeypatch):
    assert include_direction.judge_wings() == []
    monkeypatch.setitem(ARROWS, "gpu/device", {"base", "core/lease"})
    monkeypatch.setitem(ARROWS, "core/lease", {"base", "gpu/device", "core/energy"})
    backward, among = include_direction.judge_wings()
    assert backward == "gpu/device may not include core/lease, a room of a later wing"
    assert "do not know each other" in among


def test_coroutine_outside_http_is_found_with_line():
    text = '/* a\n comment */\nauto f() {\n  co_return 1;\n}\n'
    assert one("src/faces/api/x.cpp", text).startswith("src/faces/api/x.cpp:4: co_return")
    assert judge_file("src/io/http/x.cpp", text) == []


def test_comment_about_coroutines_is_not_a_coroutine():
    text = '// co_await\n/* co_return */ auto a = "co_await"; auto b = R"x(\nco_yield)x";\n'
    assert judge_file("src/faces/api/x.cpp", text) == []


def test_the_table_has_no_circle():
    done: set[str] = set()
    rooms = {room: {a for a in allowed if a in ARROWS} for room, allowed in ARROWS.items()
             if allowed is not include_direction.EVERYTHING}
    rooms["daemon"] = set(rooms) - {"cli"}
    while rooms:
        free = {room for room, needs in rooms.items() if needs <= done}
        assert free, f"a circle among {sorted(rooms)}"
        done |= free
        rooms = {room: needs for room, needs in rooms.items() if room not in free}


def test_a_tree_is_read_whole(tmp_path):
    for name in ("src/base/a.h", "src/gpu/device/deep/b.cpp", "simulator/c.cpp", "include/gpuyard/d.h"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text('#include "cli/verb.h"\n')
    problems, count = judge_tree(tmp_path)
    assert (len(problems), count) == (4, 4)


def write(root, files: dict[str, str]):
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


COSTLY = "#include <boost/json.hpp>\n"


def test_costly_library_is_counted_through_transitive_includes(tmp_path):
    write(tmp_path, {
        "src/base/tree.h": COSTLY,
        "src/faces/api/answer.h": '#include "base/tree.h"\n',
        "src/faces/api/a.cpp": '#include "faces/api/answer.h"\n',
        "simulator/sim/b_test.cpp": '#include "faces/api/answer.h"\n',
        "src/faces/api/c.cpp": "#include <vector>\n",
    })
    assert judge_seen(tmp_path, {"boost/json": 2}) == []
    problem, = judge_seen(tmp_path, {"boost/json": 1})
    assert "2 sources see <boost/json...>, at most 1 may" in problem
    assert problem.endswith(": src/base/tree.h")


def test_costly_library_counts_outside_rooms_by_any_header(tmp_path):
    write(tmp_path, {
        "fuzz/near.h": "#include <boost/json/value.hpp>\n",
        "fuzz/a.cpp": '#include "near.h"\n',
        "bench/b.cpp": COSTLY,
        "tests/consumer/c.cpp": COSTLY,
        "examples/d.cpp": COSTLY,
    })
    assert judge_seen(tmp_path, {"boost/json": 4}) == []
    assert "4 sources" in judge_seen(tmp_path, {"boost/json": 3})[0]


def test_headers_that_include_each_other_are_read_once(tmp_path):
    write(tmp_path, {
        "src/base/a.h": '#include "base/b.h"\n',
        "src/base/b.h": '#include "base/a.h"\n' + COSTLY,
        "src/base/a.cpp": '#include "base/a.h"\n',
    })
    assert "1 sources" in judge_seen(tmp_path, {"boost/json": 0})[0]


def test_forward_declaration_headers_are_not_counted(tmp_path):
    write(tmp_path, {"src/base/a.cpp": "#include <boost/json/fwd.hpp>\n"})
    assert judge_seen(tmp_path, {"boost/json": 0}) == []
