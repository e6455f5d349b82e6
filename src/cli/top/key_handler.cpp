// What keys do to the model.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "cli/read/gpu_filter.h"
#include "cli/shared_options.h"
#include "cli/top/model.h"

namespace gpuyard::cli::top {
namespace {

using namespace std::chrono_literals;

constexpr auto kStill = 3s;  // the order stays for so long after a move

List& list_in(Model& model) {
  return model.lists[model.pane == Pane::gpu ? Pane::overview : model.pane];
}

void move(Model& model, std::int64_t by) {
  List& list = list_in(model);
  const auto last = static_cast<std::int64_t>(std::max<std::size_t>(list.names.size(), 1)) - 1;
  const auto place = static_cast<std::int64_t>(list.place);
  choose(list, static_cast<std::size_t>(std::clamp<std::int64_t>(place + by, 0, last)));
  model.still_until = model.now + kStill;
}

// A page: of the overview's processes, or of the list.
void turn_page(Model& model, std::int64_t by, Size size) {
  const auto page = static_cast<std::int64_t>(std::max<std::size_t>(size.rows / 2, 1)) * by;
  const bool helps = model.pane == Pane::help;
  if (model.pane != Pane::overview && model.pane != Pane::gpu && !helps) return move(model, page);
  const auto rows = helps ? std::ssize(key_rows()) : std::ssize(model.lists[Pane::processes].names);
  const auto next = static_cast<std::int64_t>(model.scrolled) + page;
  model.scrolled = static_cast<std::size_t>(
      std::clamp<std::int64_t>(next, 0, std::max<std::int64_t>(rows - 1, 0)));
}

void show(Model& model, Pane pane) {
  model.pane = model.wish.pane = pane;
  model.scrolled = 0;
}

void next_pane(Model& model) {
  const auto* const now = std::ranges::find(kPanes, model.pane);
  show(model, now == kPanes.end() || now + 1 == kPanes.end() ? kPanes.front() : *(now + 1));
}

void say(Model& model, const std::string& text, bool wrong = false) {
  model.said = text;
  model.said_wrong = wrong;
}

Order& order_of(Model& model) {
  return model.pane == Pane::processes ? model.process_order : model.gpu_order;
}

// Orders by the next field that the rows of this pane have.
void change_order(Model& model, std::int64_t by) {
  const bool processes = model.pane == Pane::processes;
  const auto fields = std::int64_t{processes ? std::ssize(kFields) : std::ssize(kGpuFields)};
  Order& order = order_of(model);
  const auto next = static_cast<std::int64_t>(order.field) + by + fields;
  order.field = static_cast<std::size_t>(next % fields);
  model.still_until = {};
  say(model, fmt::format("sorted by {}", kFields.at(order.field)));
}

// Time.

// What was asked for, though the answer may still be under way.
WallTime shown_time(const Model& model) {
  return model.wish.at.value_or(moment_of(model));
}

void travel(Model& model, WallTime to) {
  if (!model.knows_past) return say(model, needs_daemon("history"), true);
  const bool live = !model.replays && to >= model.now;
  model.wish.at = live ? std::nullopt : std::optional(to);
}

std::chrono::seconds step_of(const Model& model) {
  return kSpans.at(model.span) / 60;
}

void travel_to_mark(Model& model, bool before) {
  const WallTime from = shown_time(model);
  std::optional<WallTime> found;
  for (const Mark& mark : model.news.marks) {
    if (before ? mark.at < from : (mark.at > from && !found)) found = mark.at;
  }
  if (!found) return say(model, before ? "no earlier event" : "no later event");
  travel(model, *found);
}

Effect begin_action(Model& model, Command command) {
  if (command == Command::undo && model.undo.empty()) {
    say(model, "nothing to undo");
    return {};
  }
  if (!applies(model, command)) return {};
  if (const auto may = may_change(model, command); !may) {
    say(model, may.error().text(), true);
    return {};
  }
  if (command == Command::verb) {
    model.prompt = Prompt{Prompt::What::verb};
    return {};
  }
  auto action = action_for(model, command);
  if (!action) {
    say(model, action.error().text(), true);
    return {};
  }
  if (command == Command::signal && !model.uid) {
    say(model, fmt::format("run it on that machine: {}", line_of(*action, "")), true);
    return {};
  }
  model.dialog = Dialog{*std::move(action)};
  return {};
}

std::string copied(const Model& model) {
  if (model.pane == Pane::usage || model.pane == Pane::help) return "";
  std::string name = list_of(model).chosen;
  for (const std::string_view prefix : {kOfLease, kOfProcess, kOfHeldBack, kOfAlert}) {
    if (name.starts_with(prefix)) name.erase(0, prefix.size());
  }
  return name.substr(0, name.find(' '));
}

void filter_by(Model& model, const std::string& text) {
  auto filter = Filter::parse(text, kFields);
  if (model.prompt) model.prompt->wrong = filter ? "" : filter.error().text();
  if (!filter) return;
  model.filter = *std::move(filter);
  model.filter_text = text;
}

constexpr std::int64_t kToTheEnd = INT32_MAX;

bool obey_move(Model& model, Command command, Size size) {
  switch (command) {
    case Command::up:
      move(model, -1);
      return true;
    case Command::down:
      move(model, 1);
      return true;
    case Command::first:
      move(model, -kToTheEnd);
      return true;
    case Command::last:
      move(model, kToTheEnd);
      return true;
    case Command::page_up:
      turn_page(model, -1, size);
      return true;
    case Command::page_down:
      turn_page(model, 1, size);
      return true;
    default:
      return false;
  }
}

bool obey_pane(Model& model, Command command) {
  constexpr std::array kOpens = {
      std::pair{Command::overview, Pane::overview},   std::pair{Command::back, Pane::overview},
      std::pair{Command::processes, Pane::processes}, std::pair{Command::queue, Pane::queue},
      std::pair{Command::alerts, Pane::alerts},       std::pair{Command::usage, Pane::usage}};
  for (const auto& [opening, pane] : kOpens) {
    if (command == opening) show(model, pane);
    if (command == opening) return true;
  }
  switch (command) {
    case Command::open:
      if (model.pane == Pane::overview) show(model, Pane::gpu);
      return true;
    case Command::help:
      show(model, model.pane == Pane::help ? Pane::overview : Pane::help);
      return true;
    case Command::next_pane:
      next_pane(model);
      return true;
    case Command::density:
      model.detailed = !model.detailed;
      return true;
    default:
      return false;
  }
}

bool obey_rows(Model& model, Command command) {
  switch (command) {
    case Command::filter:
      model.prompt = Prompt{Prompt::What::filter, model.filter_text};
      return true;
    case Command::mine:
      filter_by(model, model.filter_text.empty() ? "user==\"" + model.user + "\"" : "");
      return true;
    case Command::next_order:
      change_order(model, 1);
      return true;
    case Command::previous_order:
      change_order(model, -1);
      return true;
    case Command::turn_order:
      order_of(model).descending = !order_of(model).descending;
      model.still_until = {};
      return true;
    case Command::freeze:
      model.frozen = !model.frozen;
      say(model, model.frozen ? "order frozen" : "order follows the values");
      return true;
    default:
      return false;
  }
}

bool obey_time(Model& model, Command command) {
  switch (command) {
    case Command::earlier:
      travel(model, shown_time(model) - step_of(model));
      return true;
    case Command::later:
      if (model.wish.at) travel(model, shown_time(model) + step_of(model));
      return true;
    case Command::mark_before:
      travel_to_mark(model, true);
      return true;
    case Command::mark_after:
      travel_to_mark(model, false);
      return true;
    case Command::ask_time:
      model.prompt = Prompt{Prompt::What::time};
      return true;
    case Command::live:
      model.wish.at.reset();
      return true;
    case Command::closer:
      model.span -= model.span > 0 ? 1 : 0;
      return true;
    case Command::wider:
      model.span += model.span + 1 < kSpans.size() ? 1 : 0;
      return true;
    default:
      return false;
  }
}

Effect obey(Model& model, Command command, const Grid& shown) {
  if (obey_move(model, command, shown.size()) || obey_pane(model, command) ||
      obey_rows(model, command) || obey_time(model, command)) {
    return {};
  }
  switch (command) {
    case Command::none:
      return {};
    case Command::quit:
      return {Effect::What::leave};
    case Command::copy:
      return {Effect::What::copy, copied(model)};
    case Command::copy_screen:
      return {Effect::What::copy, shown.text()};
    case Command::mouse:
      model.mouse = !model.mouse;
      say(model,
          model.mouse ? "mouse on: a click selects a row" : "mouse off: left to the terminal");
      return {Effect::What::mouse};
    default:
      return begin_action(model, command);
  }
}

Effect press_in_dialog(Model& model, const Stroke& stroke) {
  Dialog& dialog = *model.dialog;
  if (stroke.sign == "\x03") return {Effect::What::leave};
  if (stroke.sign == "\x19") return {Effect::What::copy, line_of(dialog.action, model.elsewhere)};
  if (stroke.what == Stroke::What::escape && !dialog.under_way) {
    model.dialog.reset();
    return {};
  }
  if (dialog.under_way || !type(dialog, stroke)) return {};
  dialog.under_way = true;
  return {Effect::What::act};
}

Effect press_in_prompt(Model& model, const Stroke& stroke) {
  Prompt& prompt = *model.prompt;
  if (stroke.sign == "\x03") return {Effect::What::leave};
  if (stroke.what == Stroke::What::escape) {
    if (prompt.what == Prompt::What::filter) filter_by(model, "");
    model.prompt.reset();
    return {};
  }
  edit(prompt.text, stroke);
  if (prompt.what == Prompt::What::filter) filter_by(model, prompt.text);
  if (stroke.what != Stroke::What::enter || !prompt.wrong.empty()) {
    if (prompt.what == Prompt::What::time) prompt.wrong.clear();
    return {};
  }
  const Prompt done = *std::exchange(model.prompt, std::nullopt);
  if (done.what == Prompt::What::verb) return {Effect::What::verb, done.text};
  if (done.what == Prompt::What::time) {
    const auto time = time_in(done.text, model.replays ? shown_time(model) : model.now);
    if (time) travel(model, *time);
    if (!time) model.prompt = Prompt{done.what, done.text, time.error().text()};
  }
  return {};
}

}  // namespace

Effect press(Model& model, const Stroke& stroke, const Grid& shown) {
  if (stroke.what == Stroke::What::none) return {};
  if (model.dialog) return press_in_dialog(model, stroke);
  if (model.prompt) {
    Effect effect = press_in_prompt(model, stroke);
    arrange(model);
    return effect;
  }
  model.said.clear();
  if (stroke.what == Stroke::What::click) {
    List& list = list_in(model);
    const auto found = std::ranges::find(list.names, shown.about(stroke.column, stroke.row));
    if (found != list.names.end()) {
      move(model, (found - list.names.begin()) - static_cast<std::int64_t>(list.place));
    }
    return {};
  }
  Effect effect = obey(model, command_of(stroke), shown);
  arrange(model);
  return effect;
}

Result<WallTime> time_in(std::string_view text, WallTime now) {
  const auto moment = parse_moment(text, now);
  if (!moment) return moment.error();
  return moment->at;
}

}  // namespace gpuyard::cli::top
