import json
import shutil

import pytest

from coroutines import coroutines_in, main

pytestmark = pytest.mark.skipif(shutil.which("clang-query-19") is None, reason="needs clang-tools-19")

PREAMBLE = """
#include <coroutine>
#include <initializer_list>
#include <string>
struct Task {
  struct promise_type {
    Task get_return_object() { return {}; }
    std::suspend_never initial_suspend() { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() {}
  };
  bool await_ready() { return true; }
  void await_suspend(std::coroutine_handle<>) {}
  int await_resume() { return 0; }
};
struct Agg { std::string a, b; };
struct List { List(std::initializer_list<std::string>); ~List(); };
Task take(const Agg&);
Task list(const List&);
Task text(const std::string&);
"""


@pytest.fixture
def check(tmp_path):
    def run(body: str, name: str = "src/io/http/x.cpp") -> int:
        source = tmp_path / name
        source.parent.mkdir(parents=True, exist_ok=True)
        source.write_text(f"{PREAMBLE}Task f(std::string s) {{\n  {body}\n}}\n")
        (tmp_path / "compile_commands.json").write_text(json.dumps([
            {"directory": str(tmp_path), "command": f"g++ -std=c++20 -c {source}", "file": str(source)}]))
        return main([str(tmp_path), str(source)])
    return run


@pytest.mark.parametrize("body", [
    'co_await take(Agg{s, "b"});',
    "co_await take({s, s});",
    "co_await take({.a = s});",
    "co_await list({s, s});",
    "Agg a{s, std::to_string(co_await text(s))};",
    "co_await [s]() -> Task { co_await text(s); }();",
])
def test_form_broken_by_g__12_is_found(check, capsys, body):
    assert check(body) == 1
    assert "src/io/http/x.cpp:" in capsys.readouterr().out


@pytest.mark.parametrize("body", [
    "Agg a{s, s};\n  co_await take(a);",
    'co_await text("plain " + s);',
    "int n = co_await text(s);\n  (void)n;",
    "auto inner = [&s]() -> Task { co_await text(s); };\n  co_await inner();",
])
def test_named_locals_pass(check, body):
    assert check(body) == 0


def test_a_file_that_does_not_parse_fails(check, capsys):
    assert check("co_await nowhere(s);") == 1
    assert "error:" in capsys.readouterr().out


def test_no_compile_commands_fails(tmp_path):
    assert main([str(tmp_path)]) == 1


def test_coroutine_header_is_listed_as_source_file(tmp_path):
    for name, text in {"a.cpp": "co_await x;", "b.h": "co_await x;", "b.cpp": "", "c.cpp": "", "c.h": ""}.items():
        (tmp_path / name).write_text(text)
    assert coroutines_in(tmp_path) == [tmp_path / "a.cpp", tmp_path / "b.cpp"]
