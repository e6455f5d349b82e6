#include "cli/control/control_log.h"

#include <array>

#include <fmt/format.h>

#include "base/printable.h"
#include "cli/control/control_text.h"
#include "cli/screen/fitted_table.h"
#include "cli/screen/reading_text.h"

namespace gpuyard::cli {
namespace {

// Which columns go first where there is not room for all.
struct LogColumn {
  enum Drops : int { never, took, who, when };
};

// "2026-01-31 12:00:03" of "2026-01-31T12:00:03.250Z"
std::string second_of(std::string_view rfc3339) {
  constexpr std::size_t kDate = 10;
  constexpr std::size_t kTime = 8;
  if (rfc3339.size() < kDate + 1 + kTime) return printable(rfc3339);
  return printable(
      fmt::format("{} {}", rfc3339.substr(0, kDate), rfc3339.substr(kDate + 1, kTime)));
}

std::string gpu_text(const std::optional<std::uint32_t>& index, std::string_view uuid) {
  if (index) return std::to_string(*index);
  return uuid.empty() ? std::string(kNothing) : printable(uuid);
}

std::string or_nothing(const std::optional<std::string>& text) {
  return text ? printable(*text) : std::string(kNothing);
}

std::string words(std::string_view name) {
  std::string text = printable(name);
  for (char& c : text) c = c == '_' ? ' ' : c;
  return text;
}

std::string outcome_text(std::string_view outcome, const std::optional<std::string>& error,
                         bool forced) {
  std::string text = words(outcome);
  if (forced) text += ", forced";
  if (error) text += ": " + printable(*error);
  return text;
}

std::string took_text(double seconds) {
  constexpr double kShort = 0.9995;
  return seconds < kShort ? fmt::format("{:.0f} ms", seconds * 1000)
                          : fmt::format("{:.1f} s", seconds);
}

std::string setting_text(const std::optional<protocol::SettingView>& view) {
  return view ? printable(view->text) : std::string(kNothing);
}

}  // namespace

std::string audit_table(const protocol::Audit& audit, const Screen& screen) {
  FittedTable table{{{"AT (UTC)", false, LogColumn::when},
                     {"BY", false, LogColumn::who},
                     {"GPU", true},
                     {"WHAT"},
                     {"FROM"},
                     {"TO"},
                     {"TOOK", true, LogColumn::took},
                     {"OUTCOME"}}};
  for (const protocol::AuditLine& line : audit.entries) {
    const std::array cells = {second_of(line.at),
                              printable(line.by),
                              gpu_text(line.index, line.uuid.value_or("")),
                              action_text(line.action),
                              or_nothing(line.before),
                              or_nothing(line.after),
                              took_text(line.seconds),
                              outcome_text(line.outcome, line.error, line.forced)};
    table.add_texts(cells);
  }
  return table.text(screen);
}

std::string operations_table(const protocol::Operations& operations, const Screen& screen) {
  FittedTable table{{{"ID", true},
                     {"STATE"},
                     {"AT (UTC)", false, LogColumn::when},
                     {"BY", false, LogColumn::who},
                     {"GPU", true},
                     {"WHAT"},
                     {"FROM"},
                     {"TO"},
                     {"TOOK", true, LogColumn::took},
                     {"OUTCOME"}}};
  for (const protocol::Operation& one : operations.operations) {
    const protocol::Change& change = one.change;
    const bool over = one.seconds.has_value();
    const auto error = change.error ? std::optional(change.error->message) : std::nullopt;
    const std::array cells = {
        printable(change.operation),
        std::string(enum_name(one.state)),
        second_of(one.asked_at),
        printable(one.asked_by),
        gpu_text(change.index, change.uuid),
        action_text(one.action),
        setting_text(change.before),
        setting_text(change.after),
        one.seconds ? took_text(*one.seconds) : std::string(kNothing),
        over ? outcome_text(enum_name(change.outcome), error, false) : std::string(kNothing)};
    table.add_texts(cells);
  }
  return table.text(screen);
}

}  // namespace gpuyard::cli
