#include "cli/read/energy_table.h"

#include <fmt/format.h>

#include "cli/lease/lease_text.h"
#include "cli/screen/reading_text.h"
#include "cli/screen/terminal.h"

namespace gpuyard::cli {
namespace {

std::string watts_text(const std::optional<double>& watts) {
  return watts ? fmt::format("{:.0f} W", *watts) : std::string(kNothing);
}

// "2026-01-31 12:00" of "2026-01-31T12:00:01.250Z"
std::string minute_of(std::string_view rfc3339) {
  constexpr std::size_t kDate = 10;
  constexpr std::size_t kTime = 5;
  if (rfc3339.size() < kDate + 1 + kTime) return std::string(rfc3339);
  return fmt::format("{} {}", rfc3339.substr(0, kDate), rfc3339.substr(kDate + 1, kTime));
}

void remark(std::string& to, bool applies, std::string_view what) {
  if (!applies) return;
  if (!to.empty()) to += ", ";
  to += what;
}

std::string remarks_on(const protocol::WindowGpu& gpu) {
  // Readings lag behind the edges by their own duration anyway.
  constexpr double kNoticeable = 1;
  std::string text;
  remark(text, gpu.estimated, "estimated");
  remark(text, gpu.interrupted, "interrupted by a reset");
  remark(text, gpu.unknown_seconds >= kNoticeable,
         fmt::format("{:.0f} s not known", gpu.unknown_seconds));
  remark(text, gpu.age_seconds >= kNoticeable,
         fmt::format("no answer for {:.0f} s", gpu.age_seconds));
  return text;
}

std::string notes_text(const std::vector<std::string>& notes) {
  std::string text;
  for (const std::string& note : notes) text += fmt::format("{}\n", note);
  return text;
}

}  // namespace

std::string energy_table(const protocol::EnergyReport& report) {
  Table table{{"GPU", "ENERGY", "THIS EPOCH", "DAEMON DOWN", "SINCE (UTC)", "UUID", "REMARKS"},
              {true, true, true, true, false, false, false},
              {}};
  for (const protocol::GpuEnergy& gpu : report.gpus) {
    std::string remarks;
    remark(remarks, gpu.estimated, "estimated");
    remark(remarks, gpu.epoch.number > 1, fmt::format("epoch {}", gpu.epoch.number));
    remark(remarks, gpu.unknown_seconds >= 1,
           fmt::format("{:.0f} s not wholly known", gpu.unknown_seconds));
    table.rows.push_back(
        {index_text(gpu.index), joules_text(gpu.joules), joules_text(gpu.epoch.joules),
         joules_text(gpu.accounts.daemon_down_joules), minute_of(gpu.since), gpu.uuid, remarks});
  }
  constexpr double kJoulesPerKilowattHour = 3.6e6;
  return fmt::format("{}All together {} ({:.3f} kWh).\n{}{}", table.text(),
                     joules_text(report.joules), report.joules / kJoulesPerKilowattHour,
                     report.simulated ? "These GPUs are simulated.\n" : "",
                     notes_text(report.notes));
}

std::string energy_summary(const MeasuredCommand& measured) {
  // Of all GPUs together, where there is one of each.
  std::optional<double> mean = 0;
  for (const protocol::WindowGpu& gpu : measured.gpus) {
    mean = mean && gpu.mean_w ? std::optional(*mean + *gpu.mean_w) : std::nullopt;
  }
  std::string text = fmt::format("gpuyard: {} in {:.1f} s, mean {}\n", joules_text(measured.joules),
                                 measured.seconds, watts_text(mean));
  for (const protocol::WindowGpu& gpu : measured.gpus) {
    const std::string remarks = remarks_on(gpu);
    text += fmt::format("  GPU {}: {}, mean {}, peak {}{}\n", index_text(gpu.index),
                        joules_text(gpu.joules), watts_text(gpu.mean_w), watts_text(gpu.peak_w),
                        remarks.empty() ? "" : " (" + remarks + ")");
  }
  return text + notes_text(measured.notes);
}

}  // namespace gpuyard::cli
