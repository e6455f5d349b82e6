// Applies keys to the model.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/try.h"
#include "cli/read/gpu_filter.h"
#include "cli/shared_options.h"
#include "cli/top/model.h"

namespace gpuyard::cli::top {
namespace {

using namespace std::chrono_literals;

constexpr auto kOrderFreeze = 3s;  // the order stays for so long after a move

List& current_list(Model& model) {
  return model.lists[model.pane == Pane::gpu ? Pane::overview : model.pane];
}

void move(Model& model, std::int64_t by) {
  List& list = current_list(model);
  const auto last = static_cast<std::int64_t>(std::max<std::size_t>(list.names.size(), 1)) - 1;
  const auto place = static_cast<std::int64_t>(list.position);
  select_row(list, static_cast<std::size_t>(std::clamp<std::int64_t>(place + by, 0, last)));
  model.order_frozen_until = model.now + kOrderFreeze;
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
  model.pane = model.query.pane = pane;
  model.scrolled = 0;
}

void next_pane(Model& model) {
  const auto* const now = std::ranges::find(kPanes, model.pane);
  show(model, now == kPanes.end() || now + 1 == kPanes.end() ? kPanes.front() : *(now + 1));
}

void set_message(Model& model, const std::string& text, bool wrong = false) {
  model.message = text;
  model.message_is_error = wrong;
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
  model.order_frozen_until = {};
  set_message(model, fmt::format("sorted by {}", kFields.at(order.field)));
}

// The requested time, even while its answer is still under way.
WallTime shown_time(const Model& model) {
  return model.query.at.value_or(shown_moment(model));
}

void go_to_time(Model& model, WallTime to) {
  if (!model.has_history) return set_message(model, needs_daemon_text("history"), true);
  const bool live = !model.is_replay && to >= model.now;
  model.query.at = live ? std::nullopt : std::optional(to);
}

std::chrono::seconds step_of(const Model& model) {
  return kTimeSpans.at(model.span) / 60;
}

void go_to_mark(Model& model, bool before) {
  const WallTime from = shown_time(model);
  std::optional<WallTime> found;
  for (const TimelineMark& mark : model.data.marks) {
    if (before ? mark.at < from : (mark.at > from && !found)) found = mark.at;
  }
  if (!found) return set_message(model, before ? "no earlier event" : "no later event");
  go_to_time(model, *found);
}

void begin_action(Model& model, Command command) {
  if (command == Command::undo && model.undo.empty()) return set_message(model, "nothing to undo");
  if (!is_applicable(model, command)) return;
  if (const auto may = check_can_change(model, command); !may) {
    return set_message(model, may.error().text(), true);
  }
  if (command == Command::verb) {
    model.prompt = Prompt{Prompt::Kind::verb};
    return;
  }
  auto action = action_for(model, command);
  if (!action) return set_message(model, action.error().text(), true);
  if (command == Command::signal && !model.uid) {
    return set_message(model, fmt::format("run it on that machine: {}", shell_line(*action, "")),
                       true);
  }
  model.dialog = Dialog{*std::move(action)};
}

std::string copied_text(const Model& model) {
  if (model.pane == Pane::usage || model.pane == Pane::help) return "";
  std::string name = list_of(model).selected;
  for (const std::string_view prefix :
       {kLeasePrefix, kProcessPrefix, kWithheldPrefix, kAlertPrefix}) {
    if (name.starts_with(prefix)) name.erase(0, prefix.size());
  }
  return name.substr(0, name.find(' '));
}

void filter_by(Model& model, const std::string& text) {
  auto filter = Filter::parse(text, kFields);
  if (model.prompt) model.prompt->error = filter ? "" : filter.error().text();
  if (!filter) return;
  model.filter = *std::move(filter);
  model.filter_text = text;
}

constexpr std::int64_t kMoveToEnd = INT32_MAX;

bool handle_move(Model& model, Command command, Size size) {
  switch (command) {
    case Command::up:
      move(model, -1);
      return true;
    case Command::down:
      move(model, 1);
      return true;
    case Command::first:
      move(model, -kMoveToEnd);
      return true;
    case Command::last:
      move(model, kMoveToEnd);
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

bool handle_pane(Model& model, Command command) {
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

bool handle_rows(Model& model, Command command) {
  switch (command) {
    case Command::filter:
      model.prompt = Prompt{Prompt::Kind::filter, model.filter_text};
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
      model.order_frozen_until = {};
      return true;
    case Command::freeze:
      model.frozen = !model.frozen;
      set_message(model, model.frozen ? "order frozen" : "order follows the values");
      return true;
    default:
      return false;
  }
}

bool handle_time(Model& model, Command command) {
  switch (command) {
    case Command::earlier:
      go_to_time(model, shown_time(model) - step_of(model));
      return true;
    case Command::later:
      if (model.query.at) go_to_time(model, shown_time(model) + step_of(model));
      return true;
    case Command::mark_before:
      go_to_mark(model, true);
      return true;
    case Command::mark_after:
      go_to_mark(model, false);
      return true;
    case Command::ask_time:
      model.prompt = Prompt{Prompt::Kind::time};
      return true;
    case Command::live:
      model.query.at.reset();
      return true;
    case Command::closer:
      model.span -= model.span > 0 ? 1 : 0;
      return true;
    case Command::wider:
      model.span += model.span + 1 < kTimeSpans.size() ? 1 : 0;
      return true;
    default:
      return false;
  }
}

SessionAction handle_command(Model& model, Command command, const Grid& shown) {
  if (handle_move(model, command, shown.size()) || handle_pane(model, command) ||
      handle_rows(model, command) || handle_time(model, command)) {
    return {};
  }
  switch (command) {
    case Command::none:
      return {};
    case Command::quit:
      return {SessionAction::Kind::leave};
    case Command::copy:
      return {SessionAction::Kind::copy, copied_text(model)};
    case Command::copy_screen:
      return {SessionAction::Kind::copy, shown.text()};
    case Command::mouse:
      model.mouse = !model.mouse;
      set_message(model, model.mouse ? "mouse on: a click selects a row"
                                     : "mouse off: left to the terminal");
      return {SessionAction::Kind::mouse};
    default:
      begin_action(model, command);
      return {};
  }
}

SessionAction handle_dialog_key(Model& model, const Stroke& stroke) {
  Dialog& dialog = *model.dialog;
  if (stroke.sign == "\x03") return {SessionAction::Kind::leave};
  if (stroke.sign == "\x19")
    return {SessionAction::Kind::copy, shell_line(dialog.action, model.remote_daemon)};
  if (stroke.what == Stroke::Kind::escape && !dialog.in_progress) {
    model.dialog.reset();
    return {};
  }
  if (dialog.in_progress || !handle_stroke(dialog, stroke)) return {};
  dialog.in_progress = true;
  return {SessionAction::Kind::act};
}

SessionAction handle_prompt_key(Model& model, const Stroke& stroke) {
  Prompt& prompt = *model.prompt;
  if (stroke.sign == "\x03") return {SessionAction::Kind::leave};
  if (stroke.what == Stroke::Kind::escape) {
    if (prompt.what == Prompt::Kind::filter) filter_by(model, "");
    model.prompt.reset();
    return {};
  }
  edit_text(prompt.text, stroke);
  if (prompt.what == Prompt::Kind::filter) filter_by(model, prompt.text);
  if (stroke.what != Stroke::Kind::enter || !prompt.error.empty()) {
    if (prompt.what == Prompt::Kind::time) prompt.error.clear();
    return {};
  }
  const Prompt done = *std::exchange(model.prompt, std::nullopt);
  if (done.what == Prompt::Kind::verb) return {SessionAction::Kind::verb, done.text};
  if (done.what == Prompt::Kind::time) {
    const auto time = parse_time(done.text, model.is_replay ? shown_time(model) : model.now);
    if (time) go_to_time(model, *time);
    if (!time) model.prompt = Prompt{done.what, done.text, time.error().text()};
  }
  return {};
}

}  // namespace

SessionAction handle_key(Model& model, const Stroke& stroke, const Grid& shown) {
  if (stroke.what == Stroke::Kind::none) return {};
  if (model.dialog) return handle_dialog_key(model, stroke);
  if (model.prompt) {
    SessionAction effect = handle_prompt_key(model, stroke);
    sort_lists(model);
    return effect;
  }
  model.message.clear();
  if (stroke.what == Stroke::Kind::click) {
    List& list = current_list(model);
    const auto found = std::ranges::find(list.names, shown.about(stroke.column, stroke.row));
    if (found != list.names.end()) {
      move(model, (found - list.names.begin()) - static_cast<std::int64_t>(list.position));
    }
    return {};
  }
  SessionAction effect = handle_command(model, command_of(stroke), shown);
  sort_lists(model);
  return effect;
}

Result<WallTime> parse_time(std::string_view text, WallTime now) {
  const auto moment = GPUYARD_TRY(parse_moment(text, now));
  return moment.at;
}

}  // namespace gpuyard::cli::top
