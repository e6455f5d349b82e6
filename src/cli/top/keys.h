// The bytes of a terminal as strokes, and the command of each key: the one table from which the
// footer, the help and the handling of keys come.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace gpuyard::cli::top {

// One key, or one event of the mouse.
struct Stroke {
  enum class Kind : std::uint8_t {
    none,      // bytes that mean nothing
    sign,      // a letter, digit or other sign, also Ctrl and a letter
    function,  // a function key; `sign` is the letter that does the same
    up,
    down,
    left,
    right,
    page_up,
    page_down,
    home,
    end,
    enter,
    escape,
    backspace,
    tab,
    wheel_up,
    wheel_down,
    click,
  };
  Kind what = Kind::none;
  std::string sign = {};   // UTF-8
  std::size_t column = 0;  // of a click
  std::size_t row = 0;

  friend bool operator==(const Stroke&, const Stroke&) = default;
};

// Takes one stroke from the front of what a terminal sent. Takes nothing and returns `none` while a
// sequence has not all come. Escape alone is a key only once nothing follows it: `ended`.
Stroke take_stroke(std::string& bytes, bool ended);

enum class Command : std::uint8_t {
  none,
  up,
  down,
  first,
  last,
  page_up,
  page_down,
  open,
  back,
  quit,
  help,
  overview,
  processes,
  queue,
  alerts,
  usage,
  next_pane,
  density,
  filter,
  mine,
  next_order,
  previous_order,
  turn_order,
  freeze,
  earlier,
  later,
  mark_before,
  mark_after,
  ask_time,
  live,
  closer,
  wider,
  cap,
  cordon,
  acknowledge,
  silence,
  release,
  adopt,
  signal,
  undo,
  verb,
  copy,
  copy_screen,
  mouse,
};

// A key as the footer and the help name it.
struct KeyRow {
  std::string_view keys;  // as the help has them; the first sign is the key
  Command command{};
  std::string_view brief;  // in the footer; empty: only in the help
  std::string_view help;
  bool changes = false;  // something outside this screen: never with --read-only or in the past
};
std::span<const KeyRow> key_rows();

// The command of a stroke while no text is being typed.
Command command_of(const Stroke&);

}  // namespace gpuyard::cli::top
