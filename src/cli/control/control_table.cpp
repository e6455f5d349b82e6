#include "cli/control/control_table.h"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "base/local_time.h"
#include "cli/control/control_text.h"
#include "cli/screen/fitted_table.h"
#include "cli/screen/reading_text.h"

namespace gpuyard::cli {
namespace {

using protocol::ManagedSetting;
using protocol::Management;
using protocol::SettingStatus;
using protocol::SettingView;

// The order in which columns are dropped where there is not room for all; the last goes first.
struct ControlColumn {
  enum Drops : int { never, names, ranges, defaults };
};

constexpr const char* kRange = "RANGE";
constexpr const char* kDefault = "DEFAULT";

std::string view_text(const std::optional<SettingView>& view) {
  return view ? view->text : std::string(kNothing);
}

std::optional<std::int64_t> number_of(const std::optional<SettingView>& view) {
  if (!view) return std::nullopt;
  return view->power_limit_mw ? view->power_limit_mw : view->max_clock_mhz;
}

std::string range_of(const ManagedSetting& setting) {
  const auto kind = enum_from_name<SettingKind>(setting.setting);
  const auto lowest = number_of(setting.lowest);
  const auto highest = number_of(setting.highest);
  if (!kind || !lowest || !highest) return std::string(kNothing);
  return range_text(*kind, {*lowest, *highest});
}

std::string setting_claim_text(const protocol::SettingClaimView& claim,
                               const ControlReader& reader) {
  std::string text =
      fmt::format("{} by {}", claim.wanted.text, claim.owner == reader.name ? "you" : claim.owner);
  if (claim.until) text += " until " + zoned_moment(*claim.until, reader.now);
  return text;
}

std::string_view status_remark(SettingStatus status) {
  switch (status) {
    case SettingStatus::free:
    case SettingStatus::applied:
      return "";
    case SettingStatus::assumed:
      return "assumed";
    case SettingStatus::pending_reboot:
      return "takes effect at the next reset or reboot";
    case SettingStatus::drifted:
      return "changed outside gpuyard";
    case SettingStatus::owed:
      break;
  }
  return "not applied yet";
}

std::string display_setting(const std::string& setting) {
  const auto kind = enum_from_name<SettingKind>(setting);
  return kind ? std::string(display_name(*kind)) : setting;
}

class SettingTable {
 public:
  SettingTable(const ControlReader& reader, bool several) : reader_(reader), several_(several) {
    table_.columns = {{"GPU", true}, {"NAME", false, ControlColumn::names}};
    if (several) table_.columns.push_back({"SETTING"});
    table_.columns.insert(table_.columns.end(), {{"NOW"},
                                                 {kRange, false, ControlColumn::ranges},
                                                 {kDefault, false, ControlColumn::defaults},
                                                 {"REQUESTED"},
                                                 {"REMARKS"}});
  }

  void add(const protocol::ManagedGpu& gpu, const ManagedSetting& setting) {
    const auto& claims = setting.claims;
    add_row({{gpu.index ? std::to_string(*gpu.index) : std::string(kNothing)},
             {short_name(gpu.name)},
             {display_setting(setting.setting)},
             {view_text(setting.now)},
             {range_of(setting)},
             {view_text(setting.by_default)},
             {claims.empty() ? std::string(kNothing) : setting_claim_text(claims.front(), reader_)},
             {std::string(status_remark(setting.standing))}});
    for (std::size_t i = 1; i < claims.size(); ++i) {
      add_row({{}, {}, {}, {}, {}, {}, {setting_claim_text(claims[i], reader_)}, {}});
    }
  }

  // Leaves out the columns for ranges and defaults if they are empty.
  Printable text(const Screen& screen) {
    std::erase_if(table_.columns, [](const Column& column) {
      return (column.heading == kRange || column.heading == kDefault) &&
             std::ranges::all_of(column.cells, [](const Cell& cell) {
               return cell.text.empty() || cell.text == kNothing;
             });
    });
    return table_.text(screen);
  }

 private:
  void add_row(std::vector<Cell> cells) {
    constexpr std::ptrdiff_t kSetting = 2;
    if (!several_) cells.erase(cells.begin() + kSetting);
    table_.add(std::move(cells));
  }

  const ControlReader& reader_;
  bool several_;
  FittedTable table_;
};

// Says why values are missing, each reason once.
Printable reasons(const Management& management) {
  std::map<std::string, std::set<std::string>> settings_by_reason;
  for (const protocol::ManagedGpu& gpu : management.gpus) {
    for (const ManagedSetting& setting : gpu.settings) {
      if (setting.now || !setting.why) continue;
      settings_by_reason[*setting.why].insert(display_setting(setting.setting));
    }
  }
  Printable text;
  for (const auto& [reason, settings] : settings_by_reason) {
    text += formatted("{}: {}\n", fmt::join(settings, ", "), reason);
  }
  return text;
}

// The order in which columns are dropped where there is not room for all; the last goes first.
struct LogColumn {
  enum Drops : int { never, took, who, when };
};

std::string gpu_text(const std::optional<std::uint32_t>& index, std::string_view uuid) {
  if (index) return std::to_string(*index);
  return uuid.empty() ? std::string(kNothing) : std::string(uuid);
}

std::string text_or_dash(const std::optional<std::string>& text) {
  return text ? *text : std::string(kNothing);
}

std::string spaced_words(std::string_view name) {
  std::string text(name);
  std::ranges::replace(text, '_', ' ');
  return text;
}

// Returns what went wrong without advice, and without the route of the API that a refusal names.
std::string_view brief_error(std::string_view error) {
  error = error.substr(0, error.find("; "));
  const std::size_t route = error.find(" /api/");
  const bool named = route < error.find(' ') + 1;
  return named ? error.substr(std::min(error.find(' ', route + 1) + 1, error.size())) : error;
}

std::string outcome_text(std::string_view outcome, const std::optional<std::string>& error,
                         bool forced) {
  std::string text = spaced_words(outcome);
  if (forced) text += ", forced";
  if (error) text += fmt::format(": {}", brief_error(*error));
  return text;
}

std::string took_text(double seconds) {
  constexpr double kShort = 0.9995;
  return seconds < kShort ? fmt::format("{:.0f} ms", seconds * 1000)
                          : fmt::format("{:.1f} s", seconds);
}

std::vector<Column> log_columns() {
  return {{heading_with_zone("TIME", wall_now()), false, LogColumn::when},
          {"BY", false, LogColumn::who},
          {"GPU", true},
          {"ACTION"},
          {"FROM"},
          {"TO"},
          {"TOOK", true, LogColumn::took},
          {"OUTCOME"}};
}

}  // namespace

void keep_only(Management& management, const std::vector<SettingKind>& kinds) {
  for (protocol::ManagedGpu& gpu : management.gpus) {
    std::erase_if(gpu.settings, [&](const ManagedSetting& setting) {
      const auto kind = enum_from_name<SettingKind>(setting.setting);
      return !kind || std::ranges::find(kinds, *kind) == kinds.end();
    });
  }
}

Printable control_table(const Management& management, const ControlReader& reader,
                        const Screen& screen) {
  const bool several = std::ranges::any_of(
      management.gpus, [](const protocol::ManagedGpu& gpu) { return gpu.settings.size() > 1; });
  SettingTable rows(reader, several);
  for (const protocol::ManagedGpu& gpu : management.gpus) {
    for (const ManagedSetting& setting : gpu.settings) rows.add(gpu, setting);
  }
  Printable text = rows.text(screen) + reasons(management);
  if (management.simulated) text += "These GPUs are simulated.\n";
  return text;
}

Printable audit_table(const protocol::Audit& audit, const Screen& screen) {
  if (audit.entries.empty()) return "No changes or refused requests recorded.\n";
  FittedTable table{log_columns()};
  for (const protocol::AuditLine& line : audit.entries) {
    table.add({{local_time(line.at, TimeDetail::second)},
               {line.by},
               {gpu_text(line.index, line.gpu)},
               {action_text(line.action)},
               {text_or_dash(line.before)},
               {text_or_dash(line.after)},
               {took_text(to_seconds(line.took))},
               {outcome_text(line.outcome, line.error, line.forced)}});
  }
  return table.text(screen);
}

Printable operations_table(const protocol::Operations& operations, const Screen& screen) {
  if (operations.operations.empty())
    return "No changes are queued, running or recently finished.\n";
  FittedTable table{{{"ID", true}, {"STATE"}}};
  std::ranges::move(log_columns(), std::back_inserter(table.columns));
  for (const protocol::Operation& one : operations.operations) {
    const protocol::ChangeResult& change = one.change;
    const auto error = change.error ? std::optional(change.error->message) : std::nullopt;
    table.add({{change.operation},
               {std::string(enum_name(one.state))},
               {local_time(one.asked_at, TimeDetail::second)},
               {one.asked_by},
               {gpu_text(change.index, change.uuid)},
               {action_text(one.action)},
               {view_text(change.before)},
               {view_text(change.after)},
               {one.seconds ? took_text(*one.seconds) : std::string(kNothing)},
               {one.seconds ? outcome_text(enum_name(change.outcome), error, false)
                            : std::string(kNothing)}});
  }
  return table.text(screen);
}

}  // namespace gpuyard::cli
