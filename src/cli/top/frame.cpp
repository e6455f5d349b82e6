// The parts around the panes: the line of time, the footer, the help, and the dialog of a change.
#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/text.h"
#include "cli/screen/fitted_table.h"
#include "cli/screen/reading_text.h"
#include "cli/top/render.h"

namespace gpuyard::cli::top {
namespace {

std::string_view sign_of(const KeyRow& row) {
  return row.keys.substr(0, row.keys.find(' '));
}

// Whether the key does something in this pane, to the row that is selected.
bool is_active_key(const Model& model, const KeyRow& row) {
  const bool rows = model.pane != Pane::usage && model.pane != Pane::help;
  switch (row.command) {
    case Command::earlier:
      return model.has_history;
    case Command::filter:
      return model.pane == Pane::overview || model.pane == Pane::processes;
    case Command::copy:
      return rows && !list_of(model).selected.empty();
    case Command::verb:
      return check_can_change(model, row.command).ok();
    default:
      return !row.changes ||
             (is_applicable(model, row.command) && check_can_change(model, row.command) &&
              action_for(model, row.command));
  }
}

// As "p limit".
std::vector<std::string> active_keys(const Model& model) {
  std::vector<std::string> keys;
  for (const KeyRow& row : key_rows()) {
    if (row.brief.empty() || row.command == Command::quit) continue;
    if (!is_active_key(model, row)) continue;
    keys.push_back(fmt::format("{} {}", sign_of(row), row.brief));
  }
  return keys;
}

void draw_prompt(Grid& grid, std::size_t row, const Prompt& prompt) {
  const std::string_view name = prompt.what == Prompt::Kind::filter ? "filter: "
                                : prompt.what == Prompt::Kind::time ? "time: "
                                                                    : ":gpuyard ";
  std::size_t column = grid.put(1, row, name, {Tone::strong});
  column = grid.put(column, row, prompt.text + "_");
  const std::string_view hint = prompt.what == Prompt::Kind::filter ? "Enter: apply  Esc: show all"
                                : prompt.what == Prompt::Kind::time
                                    ? "02:10, 3h (ago), 2026-01-31T02:10:00Z"
                                    : "Enter: run  Esc: cancel";
  const bool wrong = !prompt.error.empty();
  grid.put(column + 2, row, wrong ? prompt.error : hint, {wrong ? Tone::bad : Tone::faint});
}

}  // namespace

void draw_footer(Grid& grid, const Model& model) {
  const std::size_t rows = grid.size().rows;
  if (rows < 2) return;
  const std::size_t row = rows - 1;
  if (model.prompt) return draw_prompt(grid, row, *model.prompt);
  if (!model.message.empty()) {
    grid.put(1, row, model.message, {model.message_is_error ? Tone::bad : Tone::good});
    return;
  }
  if (!model.failure.empty()) {
    grid.put(1, row, model.failure, {Tone::bad});
    return;
  }
  constexpr std::string_view kQuit = "q quit";
  const std::size_t width = grid.size().columns;
  const std::size_t room = width > kQuit.size() + 3 ? width - kQuit.size() - 2 : 0;
  std::size_t column = 1;
  for (const std::string& key : active_keys(model)) {
    if (column + key.size() + 1 > room) break;
    column = grid.put(column, row, key, {Tone::faint}) + 2;
  }
  grid.put_right(width - 1, row, kQuit, {Tone::faint});
}

void draw_help(Grid& grid, RowRange rows, const Model& model) {
  std::vector<std::string> lines;
  for (const KeyRow& row : key_rows()) {
    if (row.changes && model.readonly) continue;
    lines.push_back(fmt::format("{:8} {}", row.keys, row.help));
  }
  if (rows.count() < 2) return;
  grid.put(2, rows.first++, "gpuyard top", {Tone::strong});
  // The column fits its widest line; further lines are on the next page.
  constexpr std::size_t kColumnWidth = 39;
  const std::size_t columns = std::max<std::size_t>(grid.size().columns / kColumnWidth, 1);
  const std::size_t height = rows.count() > 2 ? rows.count() - 1 : rows.count();
  const std::size_t page = height * columns;
  const std::size_t first = lines.size() > page ? std::min(model.scrolled, lines.size() - page) : 0;
  for (std::size_t i = first; i < std::min(lines.size(), first + page); ++i) {
    const std::size_t place = i - first;
    grid.put(1 + place / height * kColumnWidth, rows.first + place % height, lines[i], {},
             kColumnWidth - 1);
  }
  if (lines.size() > page && rows.count() > 2) {
    const bool more = first + page < lines.size();
    grid.put(1, rows.until - 1, more ? "PgDn: more" : "PgUp: back", {Tone::faint});
  }
}

void draw_time(Grid& grid, std::size_t row, const Model& model) {
  const std::size_t width = grid.size().columns;
  constexpr std::size_t kEnds = 8;
  if (width < kEnds + 4) return;
  const std::size_t cells = width - kEnds;
  const WallTime until = model.now;
  const WallTime since = until - kTimeSpans.at(model.span);
  const auto place = [&](WallTime at) -> std::optional<std::size_t> {
    if (at < since || at > until) return std::nullopt;
    const double share =
        static_cast<double>((at - since).count()) / static_cast<double>((until - since).count());
    return std::min(cells - 1, static_cast<std::size_t>(share * static_cast<double>(cells)));
  };
  std::string line(cells, '-');
  for (const TimelineMark& mark : model.data.marks) {
    if (const auto cell = place(mark.at)) line[*cell] = mark.sign;
  }
  grid.put(1, row, "|" + line + "| now", {Tone::busy});
  if (const auto cell = place(shown_moment(model))) {
    grid.put(2 + *cell, row, "#", {Tone::strong, true});
  }
}

void draw_dialog(Grid& grid, const Dialog& dialog, const std::string& line) {
  const Action& action = dialog.action;
  const std::size_t width = std::min<std::size_t>(grid.size().columns, 100);
  if (width < 12 || grid.size().rows < 3) return;
  const std::size_t inner = width - 4;
  std::vector<std::pair<std::string, Tone>> lines;
  const auto add = [&](std::string_view text, Tone tone) {
    while (!text.empty()) {
      for (const std::string& part : wrap_text(printable(take_until('\n', text)), inner)) {
        lines.emplace_back(part, tone);
      }
    }
  };
  add(action.about, Tone::plain);
  const auto box = [&](std::size_t field, const std::string& text) {
    return fmt::format("[ {}{} ]", text, field == dialog.field ? "_" : "");
  };
  std::string fields;
  for (std::size_t i = 0; i < action.fields.size(); ++i) {
    fields += fmt::format("{} {}   ", action.fields[i].label, box(i, action.fields[i].value));
  }
  if (!fields.empty()) add(fields, Tone::strong);
  if (!dialog.planned.empty()) add(dialog.planned, Tone::plain);
  add("= " + line, Tone::busy);
  if (!action.confirmation.empty()) {
    add(fmt::format("enter {} to confirm  {}", action.confirmation,
                    box(action.fields.size(), dialog.typed_confirmation)),
        Tone::warning);
  }
  if (!dialog.error.empty()) add(dialog.error, Tone::bad);
  add(dialog.in_progress ? "in progress ..."
                         : "Enter: apply  Esc: cancel  Tab: next field  ^Y: copy command",
      Tone::faint);
  const std::size_t height = std::min(lines.size() + 2, grid.size().rows);
  std::size_t row = grid.size().rows - height;
  const std::string edge = "+" + std::string(width - 2, '-') + "+";
  grid.put(0, row, edge, {Tone::strong});
  grid.put(3, row++, " " + action.title + " ", {Tone::strong}, width - 6);
  for (const auto& [text, tone] : lines) {
    if (row + 1 >= grid.size().rows) break;
    grid.put(0, row, "|" + std::string(width - 2, ' ') + "|", {Tone::strong});
    grid.put(2, row++, text, {tone}, inner);
  }
  grid.put(0, grid.size().rows - 1, edge, {Tone::strong});
}

}  // namespace gpuyard::cli::top
