#include "cli/control/control_text.h"

#include <unistd.h>

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/result.h"
#include "base/text.h"
#include "cli/screen/reading_text.h"
#include "cli/shared_options.h"
#include "gpu/device/setting.h"

namespace gpuyard::cli {
namespace {

using protocol::ChangeOutcome;
using protocol::ChangeResult;

// Worst first: broken, away, not allowed, something in the way, not possible.
constexpr std::array kErrorsBySeverity = {
    Errc::internal, Errc::busy,     Errc::unavailable, Errc::device_lost, Errc::timed_out,
    Errc::denied,   Errc::conflict, Errc::unsupported, Errc::not_found,   Errc::invalid};

std::string gpu_text(const ChangeResult& change) {
  return change.index ? fmt::format("GPU {}", *change.index) : printable(change.uuid);
}

std::optional<SettingKind> kind_of(const ChangeResult& change) {
  return change.setting ? enum_from_name<SettingKind>(*change.setting) : std::nullopt;
}

std::string subject_of(const ChangeResult& change, std::string_view what) {
  if (const auto kind = kind_of(change)) return std::string(display_name(*kind));
  return change.setting ? printable(*change.setting) : std::string(what);
}

std::string value_text(const std::optional<protocol::SettingView>& value) {
  return value ? printable(value->text) : "unknown";
}

bool is_same(const ChangeResult& change) {
  return change.before && change.after && change.before->text == change.after->text;
}

std::string lasting_text(const ChangeResult& change, const ControlReader& reader) {
  std::string text;
  if (change.owner && *change.owner != reader.name) {
    text = fmt::format(", set by {}", printable(*change.owner));
  }
  if (change.until) text += ", until " + zoned_moment(*change.until, reader.now);
  return text;
}

// "300 W (was 700 W)"
std::string value_and_before(const ChangeResult& change) {
  if (!change.before) return value_text(change.after);
  if (is_same(change)) return value_text(change.after) + " (unchanged)";
  return fmt::format("{} (was {})", value_text(change.after), value_text(change.before));
}

// Puts the message on one line: a command's output may have several.
std::string error_text(const ChangeResult& change) {
  if (!change.error) return "failed for an unknown reason";
  std::string text = change.error->message;
  text.erase(text.find_last_not_of(" \n") + 1);
  std::ranges::replace(text, '\n', ' ');
  return printable(text);
}

std::string outcome_text(const ChangeResult& change, const std::string& subject,
                         const ControlReader& reader) {
  const auto now = [&](std::string_view remark) {
    return fmt::format("{} {}{}{}", subject, value_and_before(change), lasting_text(change, reader),
                       remark);
  };
  switch (change.outcome) {
    case ChangeOutcome::applied:
    case ChangeOutcome::planned:
      return now("");
    case ChangeOutcome::assumed:
      return now("; accepted by the driver, which does not report the value in effect");
    case ChangeOutcome::pending_reboot:
      return now("; takes effect at the next reset or reboot");
    case ChangeOutcome::held:
      return fmt::format("{} stays at {}{}; your setting is on hold behind it", subject,
                         value_text(change.after), lasting_text(change, reader));
    case ChangeOutcome::restored:
      // If another owner still wants something, its value is in force now.
      if (change.owner) return now("");
      return now(kind_of(change) == SettingKind::ecc ? ", restored at the next reset or reboot"
                                                     : ", restored");
    case ChangeOutcome::drifted:
      return fmt::format("{} left at {}: changed outside gpuyard in the meantime", subject,
                         value_text(change.after));
    case ChangeOutcome::cleared:
      return "ECC error counters cleared";
    case ChangeOutcome::reset:
      return "reset";
    case ChangeOutcome::queued:
      return fmt::format("{}: queued; check the result with `gpuyard operations {}`", subject,
                         change.operation);
    case ChangeOutcome::rolled_back:
      return fmt::format("{} rolled back to {} because another GPU failed", subject,
                         value_text(change.after));
    case ChangeOutcome::failed:
      break;
  }
  return fmt::format("{}: {}", subject, error_text(change));
}

}  // namespace

ControlReader ControlReader::of_process() {
  return {fmt::format("uid {}", ::geteuid()), wall_now()};
}

bool has_succeeded(const ChangeResult& change) {
  return change.outcome != ChangeOutcome::failed && change.outcome != ChangeOutcome::rolled_back;
}

std::string plan_line(const ChangeResult& change, std::string_view what, std::string_view gpu_name,
                      const ControlReader& reader) {
  std::string line = gpu_text(change);
  if (!gpu_name.empty()) line += " " + std::string(gpu_name);
  line += ": " + subject_of(change, what);
  if (change.after && is_same(change)) {
    line += " stays " + value_text(change.after);
  } else if (change.after) {
    line += fmt::format(" {} -> {}", value_text(change.before), value_text(change.after));
  }
  line += lasting_text(change, reader);
  if (kind_of(change) == SettingKind::ecc) line += ", at the next reset or reboot";
  if (change.outcome == ChangeOutcome::held) line += "; your setting is on hold behind it";
  return line;
}

std::string result_line(const ChangeResult& change, std::string_view what,
                        const ControlReader& reader) {
  return fmt::format("{}: {}", gpu_text(change),
                     outcome_text(change, subject_of(change, what), reader));
}

int worst_exit_code(const protocol::ChangeResults& changes) {
  std::size_t worst = kErrorsBySeverity.size();
  for (const ChangeResult& change : changes.changes) {
    if (has_succeeded(change)) continue;
    const auto code = change.error ? enum_from_name<Errc>(change.error->code) : std::nullopt;
    // A rolled-back change has no error of its own; the GPU that failed has it.
    if (!code && change.outcome == ChangeOutcome::rolled_back) continue;
    const auto at = std::ranges::find(kErrorsBySeverity, code.value_or(Errc::internal));
    worst = std::min(worst, static_cast<std::size_t>(at - kErrorsBySeverity.begin()));
  }
  return worst < kErrorsBySeverity.size() ? exit_code_of(kErrorsBySeverity[worst]) : 0;
}

std::string action_text(std::string_view action) {
  std::string text;
  for (std::string word : split(action, ' ')) {
    if (const auto kind = enum_from_name<SettingKind>(word)) word = display_name(*kind);
    text += (text.empty() ? "" : " ") + word;
  }
  return printable(text);
}

}  // namespace gpuyard::cli
