#include "cli/read/process_table.h"

#include <array>
#include <map>

#include <fmt/format.h>

#include "base/printable.h"
#include "cli/screen/fitted_table.h"
#include "cli/screen/reading_text.h"
#include "cli/screen/text_width.h"

namespace gpuyard::cli {
namespace {

struct ProcessColumn {
  enum Drops : int { never, places, shares, kinds, times };
};

// "2026-01-31 12:00" of "2026-01-31T12:00:01.250Z"
std::string since_text(const protocol::Process& process) {
  constexpr std::size_t kDate = 10;
  constexpr std::size_t kToTheMinute = 16;
  if (!process.started_at || process.started_at->size() < kToTheMinute) {
    return std::string(kNothing);
  }
  return process.started_at->substr(0, kDate) + " " +
         process.started_at->substr(kDate + 1, kToTheMinute - kDate - 1);
}

std::array<std::string, 9> cells_of(const ListedProcess& process) {
  return {std::to_string(process.gpu_index),
          std::to_string(process.pid),
          user_text(process),
          std::string(enum_name(process.kind)),
          process.sm_percent ? fmt::format("{} %", *process.sm_percent) : std::string(kNothing),
          process.memory_bytes ? bytes_text(*process.memory_bytes) : std::string(kNothing),
          since_text(process),
          place_text(process),
          command_text(process)};
}

// "not known (its process has ended): 7, 8"
std::string notes(const ProcessAnswer& answer, const Screen& screen) {
  std::map<std::string, std::string> pids_by_reason;
  for (const ListedProcess& process : answer.processes) {
    const auto reason = process.missing.find("process");
    if (reason == process.missing.end()) continue;
    std::string& pids = pids_by_reason[reason->second];
    pids += (pids.empty() ? "" : ", ") + std::to_string(process.pid);
  }
  std::string out;
  const auto add = [&](Tone tone, const std::string& text) {
    const std::size_t width = screen.columns > 0 ? screen.columns : text.size();
    for (const std::string& line : wrapped(text, width)) out += painted(screen, tone, line) + "\n";
  };
  for (const auto& [reason, pids] : pids_by_reason) {
    add(Tone::warning, fmt::format("not known ({}): {}", printable(reason), pids));
  }
  for (const auto& [gpu, reason] : answer.missing) {
    add(Tone::warning, fmt::format("{} lists no processes: {}", gpu, printable(reason)));
  }
  if (answer.simulated) add(Tone::faint, "These GPUs are simulated.");
  return out;
}

}  // namespace

std::string user_text(const protocol::Process& process) {
  if (process.user) return printable(*process.user);
  return process.uid ? std::to_string(*process.uid) : std::string(kNothing);
}

std::string place_text(const protocol::Process& process) {
  if (process.slurm_job) {
    return "slurm " + *process.slurm_job + (process.slurm_step ? "." + *process.slurm_step : "");
  }
  if (process.pod) return "pod " + *process.pod;
  if (process.container) {
    constexpr std::size_t kUsualLength = 12;  // by which people name them
    const std::string shown = printable(*process.container).substr(0, kUsualLength);
    return process.container_runtime.value_or("container") + " " + shown;
  }
  return process.unit ? printable(*process.unit) : std::string(kNothing);
}

std::string command_text(const protocol::ProcessInFull& process) {
  if (!process.arguments || process.arguments->empty()) {
    return printable(process.command.value_or(std::string(kNothing)));
  }
  return printable(fmt::format("{}", fmt::join(*process.arguments, " ")));
}

std::string process_table(const ProcessAnswer& answer, const Screen& screen) {
  FittedTable table{{{"GPU", true},
                     {"PID", true},
                     {"USER"},
                     {"KIND", false, ProcessColumn::kinds},
                     {"SM", true, ProcessColumn::shares},
                     {"MEMORY", true},
                     {"SINCE (UTC)", false, ProcessColumn::times},
                     {"UNIT, CONTAINER OR JOB", false, ProcessColumn::places},
                     {"COMMAND"}}};
  for (const ListedProcess& process : answer.processes) {
    const auto cells = cells_of(process);
    table.add_texts(cells);
  }
  return table.text(screen) + notes(answer, screen);
}

}  // namespace gpuyard::cli
