#include "cli/top/model.h"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "cli/read/gpu_filter.h"
#include "cli/top/verb_runner.h"
#include "faces/client/local_daemon.h"

namespace gpuyard::cli::top {
namespace {

// The names of the rows that match, by the first order, among equals by the next, and at last as
// they came.
template <class Row>
std::vector<std::string> sorted_names(const std::vector<Row>& rows, const Filter& filter,
                                      std::initializer_list<Order> orders) {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (filter.matches(rows[i].values)) places.push_back(i);
  }
  std::ranges::sort(places, [&](std::size_t a, std::size_t b) {
    for (const Order& order : orders) {
      const FilterValue& one = rows[a].values[order.field];
      const FilterValue& other = rows[b].values[order.field];
      if (is_before(one, other, order.descending)) return true;
      if (is_before(other, one, order.descending)) return false;
    }
    return a < b;
  });
  std::vector<std::string> names;
  for (const std::size_t place : places) names.push_back(rows[place].name);
  return names;
}

std::vector<std::string> names_in(const std::vector<TextRow>& rows) {
  std::vector<std::string> names;
  for (const TextRow& row : rows) {
    if (!row.name.empty()) names.push_back(row.name);
  }
  return names;
}

std::vector<std::string> names_of(const Model& model, Pane pane) {
  switch (pane) {
    case Pane::overview:
      return sorted_names(gpu_rows(model.data), model.filter, {model.gpu_order});
    case Pane::processes:
      return sorted_names(process_rows(model.data), model.filter,
                          {model.process_order, {field_index("vram"), true}});
    case Pane::queue:
      return names_in(queue_rows(model.data));
    case Pane::alerts:
      return names_in(alert_rows(model.data));
    default:
      return {};
  }
}

// The remaining rows in their earlier order, and the new ones behind them.
std::vector<std::string> keep_order(const std::vector<std::string>& before,
                                    std::vector<std::string> now) {
  std::set<std::string> left(now.begin(), now.end());
  std::vector<std::string> names;
  for (const std::string& name : before) {
    if (left.erase(name) > 0) names.push_back(name);
  }
  std::erase_if(now, [&](const std::string& name) { return !left.contains(name); });
  names.insert(names.end(), now.begin(), now.end());
  return names;
}

// The rows that the list of the pane names, in its order.
template <class Row>
std::vector<Row> in_list_order(const Model& model, Pane pane, std::vector<Row> rows) {
  std::map<std::string_view, Row*> called;
  for (Row& row : rows) called.emplace(row.name, &row);
  std::vector<Row> listed;
  const auto list = model.lists.find(pane);
  if (list == model.lists.end()) return listed;
  for (const std::string& name : list->second.names) {
    if (const auto found = called.find(name); found != called.end()) {
      listed.push_back(*found->second);
    }
  }
  return listed;
}

// One sentence for the status line; a command may print notes, or a table.
std::string result_of(const Action& action, const std::string& printed) {
  if (action.command == Command::silence) {
    return fmt::format("{} for {}", action.done, action.value(0));
  }
  if (!action.done.empty()) return action.done;
  std::string_view rest = printed;
  while (!rest.empty()) {
    const std::string_view line = take_until('\n', rest);
    const bool remark = line.starts_with("gpuyard: note: ") || line.starts_with("On ");
    if (!remark && !line.empty()) return without_program_name(line);
  }
  return "done";
}

}  // namespace

const List& list_of(const Model& model) {
  static const List kNone;
  const auto found = model.lists.find(model.pane == Pane::gpu ? Pane::overview : model.pane);
  return found != model.lists.end() ? found->second : kNone;
}

const protocol::Device* device_of(const Model& model) {
  const auto found = model.lists.find(Pane::overview);
  if (found == model.lists.end()) return nullptr;
  for (const protocol::Device& device : model.data.snapshot.devices) {
    if (name_of(device) == found->second.selected) return &device;
  }
  return nullptr;
}

std::vector<const protocol::Device*> gpus_of(const Model& model) {
  struct NamedGpu {
    std::string name;
    const protocol::Device* device;
  };
  std::vector<NamedGpu> named;
  for (const protocol::Device& device : model.data.snapshot.devices) {
    named.push_back({name_of(device), &device});
  }
  std::vector<const protocol::Device*> gpus;
  for (const NamedGpu& gpu : in_list_order(model, Pane::overview, std::move(named))) {
    gpus.push_back(gpu.device);
  }
  return gpus;
}

std::vector<ProcessRow> processes_of(const Model& model) {
  return in_list_order(model, Pane::processes, process_rows(model.data));
}

const protocol::Lease* lease_of(const Model& model, const protocol::Device& device) {
  return model.data.leases ? cli::lease_of(*model.data.leases, device.uuid) : nullptr;
}

WallTime shown_moment(const Model& model) {
  return model.data.at.value_or(model.now);
}

std::string needs_daemon_text(std::string_view what) {
  return fmt::format("{} needs a daemon, and none is running on this machine", what);
}

Result<void> check_can_change(const Model& model, Command command) {
  if (model.readonly) return Error{Errc::denied, "changes are disabled by --read-only"};
  if (model.is_replay) return Error{Errc::denied, "a recording cannot be changed"};
  if (model.query.at)
    return Error{Errc::denied, "the past cannot be changed; press L to return to live"};
  if (model.daemon.empty() && command != Command::signal) {
    return Error{Errc::unavailable, needs_daemon_text("a change"), "", client::start_command()};
  }
  return {};
}

void select_row(List& list, std::size_t place) {
  list.position = list.names.empty() ? 0 : std::min(place, list.names.size() - 1);
  list.selected = list.names.empty() ? "" : list.names[list.position];
}

void update(Model& model, ScreenData data) {
  const bool went_back = model.is_replay && data.at < model.data.at;
  model.data = std::move(data);
  // A past moment without stored readings shows none.
  const bool past = model.data.at && !model.is_replay;
  if (past || went_back || !model.data.past_utilization.empty())
    model.utilization = model.data.past_utilization;
  if (!model.data.at || model.is_replay) append_utilization(model.utilization, model.data.snapshot);
}

void sort_lists(Model& model) {
  const bool still = model.frozen || model.now < model.order_frozen_until || model.dialog;
  for (const Pane pane : kPanes) {
    List& list = model.lists[pane];
    auto names = names_of(model, pane);
    list.names = still ? keep_order(list.names, std::move(names)) : std::move(names);
    const auto found = std::ranges::find(list.names, list.selected);
    select_row(list, found != list.names.end()
                         ? static_cast<std::size_t>(found - list.names.begin())
                         : list.position);
  }
  // A filter may be a word of any field. By its first key, the prompt has brought them. A daemon
  // always returns them.
  const bool filters =
      !model.filter.empty() || (model.prompt && model.prompt->what == Prompt::Kind::filter);
  const bool ordered =
      model.gpu_order.field != Order{}.field || model.process_order.field != field_index("sm");
  model.query.clocks = model.daemon.empty() && (filters || ordered);
  const protocol::Device* const device = model.pane == Pane::gpu ? device_of(model) : nullptr;
  model.query.charts_gpu = device != nullptr ? device->uuid : "";
  model.query.span = kTimeSpans.at(model.span);
}

void finish_action(Model& model, const Result<std::string>& done) {
  if (!model.dialog) return;
  if (!done) {
    model.dialog->in_progress = false;
    model.dialog->error = without_program_name(done.error().text());
    return;
  }
  ++model.query.change_count;
  model.undo = undo_words(model.dialog->action);
  model.message = result_of(model.dialog->action, *done);
  model.message_is_error = false;
  model.dialog.reset();
}

}  // namespace gpuyard::cli::top
