#include "cli/top/keys.h"

#include <array>
#include <optional>

#include "base/text.h"

namespace gpuyard::cli::top {
namespace {

using Kind = Stroke::Kind;

struct Sequence {
  std::string_view bytes;
  Kind what;
  std::string_view sign = {};
};
// As xterm and its kin send them.
constexpr std::array kSequences = {
    Sequence{"\x1b[5~", Kind::page_up},
    Sequence{"\x1b[6~", Kind::page_down},
    Sequence{"\x1b[1~", Kind::home},
    Sequence{"\x1b[4~", Kind::end},
    Sequence{"\x1b[14~", Kind::function, "/"},
    Sequence{"\x1b[17~", Kind::function, ">"},
    Sequence{"\x1b[20~", Kind::function, "x"},
    Sequence{"\x1b[21~", Kind::function, "q"},
    Sequence{"\x1b[A", Kind::up},
    Sequence{"\x1b[B", Kind::down},
    Sequence{"\x1b[C", Kind::right},
    Sequence{"\x1b[D", Kind::left},
    Sequence{"\x1b[H", Kind::home},
    Sequence{"\x1b[F", Kind::end},
    Sequence{"\x1bOA", Kind::up},
    Sequence{"\x1bOB", Kind::down},
    Sequence{"\x1bOC", Kind::right},
    Sequence{"\x1bOD", Kind::left},
    Sequence{"\x1bOH", Kind::home},
    Sequence{"\x1bOF", Kind::end},
    Sequence{"\x1bOP", Kind::function, "?"},
    Sequence{"\x1bOS", Kind::function, "/"},
};

// The end of an escape sequence; npos: it has not all come yet.
std::size_t end_of_sequence(std::string_view bytes) {
  for (std::size_t i = 2; i < bytes.size(); ++i) {
    if (bytes[i] >= '@' && bytes[i] <= '~') return i + 1;
  }
  return bytes.npos;
}

// "\x1b[<0;12;5M" is a press of the left button; a release ends with m.
Stroke mouse_of(std::string_view bytes) {
  bytes.remove_prefix(3);
  const auto button = take_number<unsigned>(bytes);
  const auto number = [&]() -> std::optional<std::size_t> {
    if (!bytes.starts_with(';')) return std::nullopt;
    bytes.remove_prefix(1);
    return take_number<std::size_t>(bytes);
  };
  const auto column = number();
  const auto row = number();
  if (!button || !column || !row || *column == 0 || *row == 0 || bytes != "M") return {};
  constexpr unsigned kWheelUp = 64;
  if (*button == kWheelUp) return {Kind::wheel_up};
  if (*button == kWheelUp + 1) return {Kind::wheel_down};
  return {*button == 0 ? Kind::click : Kind::none, {}, *column - 1, *row - 1};
}

Stroke take_sign(std::string& bytes, bool ended) {
  const std::size_t length = utf8_sequence_length(bytes);
  constexpr std::size_t kMaxSignBytes = 4;
  const bool begun = static_cast<unsigned char>(bytes.front()) >= 0xC2;
  if (length == 0 && begun && !ended && bytes.size() < kMaxSignBytes) return {};
  Stroke stroke{Kind::sign, bytes.substr(0, std::max<std::size_t>(length, 1))};
  bytes.erase(0, stroke.sign.size());
  if (length == 0) return {};
  if (stroke.sign == "\r" || stroke.sign == "\n") return {Kind::enter};
  if (stroke.sign == "\x1b") return {Kind::escape};
  if (stroke.sign == "\t") return {Kind::tab};
  if (stroke.sign == "\x7f" || stroke.sign == "\b") return {Kind::backspace};
  return stroke;
}

constexpr bool kChanges = true;
constexpr std::array kKeys = {
    KeyRow{"? F1", Command::help, "help", "show this help"},
    KeyRow{"j Down", Command::down, "", "next row"},
    KeyRow{"k Up", Command::up, "", "previous row"},
    KeyRow{"g Home", Command::first, "", "first row"},
    KeyRow{"G End", Command::last, "", "last row"},
    KeyRow{"PgUp ^U", Command::page_up, "", "page up"},
    KeyRow{"PgDn ^D", Command::page_down, "", "page down"},
    KeyRow{"Enter", Command::open, "", "open the selected GPU"},
    KeyRow{"Esc", Command::back, "", "go back (never quits)"},
    KeyRow{"1", Command::overview, "", "all GPUs"},
    KeyRow{"2", Command::processes, "", "processes"},
    KeyRow{"3", Command::queue, "", "queue and leases"},
    KeyRow{"4", Command::alerts, "", "alerts"},
    KeyRow{"5", Command::usage, "", "usage by user"},
    KeyRow{"Tab", Command::next_pane, "pane", "next pane"},
    KeyRow{"/ F4", Command::filter, "filter", "filter rows, e.g. temp>80"},
    KeyRow{"f", Command::mine, "", "show only mine, or all"},
    KeyRow{"> F6", Command::next_order, "", "sort by the next field"},
    KeyRow{"<", Command::previous_order, "", "sort by the previous field"},
    KeyRow{"i", Command::turn_order, "", "reverse the sort order"},
    KeyRow{"Z", Command::freeze, "", "freeze or unfreeze the order"},
    KeyRow{"d", Command::density, "", "GPUs as rows or as columns"},
    KeyRow{"[", Command::earlier, "time", "step back in time"},
    KeyRow{"]", Command::later, "", "step forward in time"},
    KeyRow{"{", Command::mark_before, "", "previous event"},
    KeyRow{"}", Command::mark_after, "", "next event"},
    KeyRow{"@", Command::ask_time, "", "go to a time: 02:10, 3h"},
    KeyRow{"L", Command::live, "", "return to live"},
    KeyRow{"+", Command::closer, "", "smaller time steps"},
    KeyRow{"-", Command::wider, "", "larger time steps"},
    KeyRow{"p", Command::cap, "limit", "set a power limit for a time", kChanges},
    KeyRow{"c", Command::cordon, "cordon", "cordon or uncordon the GPU", kChanges},
    KeyRow{"a", Command::acknowledge, "ack", "acknowledge the alert", kChanges},
    KeyRow{"s", Command::silence, "silence", "silence the alert for a time", kChanges},
    KeyRow{"r", Command::release, "release", "release lease or cancel claim", kChanges},
    KeyRow{"A", Command::adopt, "adopt", "adopt the process's GPUs", kChanges},
    KeyRow{"x F9", Command::signal, "signal", "send the process a signal", kChanges},
    KeyRow{"u", Command::undo, "undo", "undo the last change", kChanges},
    KeyRow{":", Command::verb, "cmd", "run a gpuyard command", kChanges},
    KeyRow{"y", Command::copy, "copy", "copy the ID of the row"},
    KeyRow{"Y", Command::copy_screen, "", "copy the screen as text"},
    KeyRow{"m", Command::mouse, "", "turn the mouse off or on"},
    KeyRow{"q F10", Command::quit, "quit", "quit"},
};

Command command_of_sign(std::string_view sign) {
  if (sign == "\x03") return Command::quit;  // Ctrl-C
  if (sign == "\x15") return Command::page_up;
  if (sign == "\x04" || sign == " ") return Command::page_down;
  for (const KeyRow& row : kKeys) {
    const bool named = row.keys.size() == 1 || row.keys[1] == ' ';
    if (named && row.keys.substr(0, 1) == sign) return row.command;
  }
  return Command::none;
}

}  // namespace

std::span<const KeyRow> key_rows() {
  return kKeys;
}

Stroke take_stroke(std::string& bytes, bool ended) {
  if (bytes.empty()) return {};
  // No key is pressed together with Alt: Escape and a letter are two keys, however fast.
  const bool alone = bytes.size() == 1 ? ended : bytes[1] != '[' && bytes[1] != 'O';
  if (bytes.front() != '\x1b' || alone) return take_sign(bytes, ended);
  for (const Sequence& one : kSequences) {
    if (!bytes.starts_with(one.bytes)) continue;
    bytes.erase(0, one.bytes.size());
    return {one.what, std::string(one.sign)};
  }
  const std::size_t end = end_of_sequence(bytes);
  const std::string sequence =
      bytes.substr(0, end != bytes.npos ? end : (ended ? bytes.size() : 0));
  bytes.erase(0, sequence.size());
  return sequence.starts_with("\x1b[<") ? mouse_of(sequence) : Stroke{};
}

Command command_of(const Stroke& stroke) {
  switch (stroke.what) {
    case Kind::sign:
    case Kind::function:
      return command_of_sign(stroke.sign);
    case Kind::up:
    case Kind::left:
    case Kind::wheel_up:
      return Command::up;
    case Kind::down:
    case Kind::right:
    case Kind::wheel_down:
      return Command::down;
    case Kind::page_up:
      return Command::page_up;
    case Kind::page_down:
      return Command::page_down;
    case Kind::home:
      return Command::first;
    case Kind::end:
      return Command::last;
    case Kind::enter:
      return Command::open;
    case Kind::escape:
      return Command::back;
    case Kind::tab:
      return Command::next_pane;
    case Kind::none:
    case Kind::backspace:
    case Kind::click:
      return Command::none;
  }
  return Command::none;
}

}  // namespace gpuyard::cli::top
