import pytest

import weight


@pytest.mark.parametrize("text, lines", [
    ("int a;\n", 1),
    ("\n  // said\nint a;  // why\n", 1),
    ("/* one\n two */ int a;\n\n", 1),
    ('auto url = "http://x";\nauto raw = R"(// no\n/* comment */\n)";\n', 4),
])
def test_a_line_of_code_is_neither_blank_nor_all_comment(text, lines):
    assert weight.code_lines(text) == lines


def test_tests_do_not_count_and_each_wing_is_told(tmp_path):
    for name, text in {"src/core/lease/a.h": "int a;\n", "src/core/lease/a_test.cpp": "int b;\n",
                       "src/base/b_for_tests.h": "int c;\n", "src/base/c.cpp": "int d;\n" * 401,
                       "simulator/sim/d.h": "int e;\n" * 41, "src/base/note.md": "text\n"}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    whole, wings, long = weight.weigh(tmp_path)
    assert (whole["files"], whole["small headers"], whole["code lines"]) == (3, 1, 443)
    assert set(wings) == {"src/core", "src/base", "simulator"}
    assert wings["src/base"]["long files"] == 1
    assert long == ["src/base/c.cpp: 401 lines, more than 400"]


def test_a_house_that_is_too_heavy_is_found(monkeypatch, capsys):
    monkeypatch.setitem(weight.LIMITS, "files", 1)
    assert weight.main([]) == 1
    assert "files, at most 1 may be" in capsys.readouterr().out
