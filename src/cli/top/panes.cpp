// The lists: processes, the queue, alerts.
#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include <fmt/format.h>

#include "base/clock.h"
#include "cli/lease/lease_text.h"
#include "cli/screen/reading_text.h"
#include "cli/top/render.h"

namespace gpuyard::cli::top {
namespace {

using protocol::Device;
using protocol::Process;

struct Row {
  const Process* process = nullptr;
  const Device* device = nullptr;
};

// Those that use most of a GPU first, then those with most memory. Ties always have the same order.
std::vector<Row> processes_of(const Model& model) {
  std::vector<Row> rows;
  for (const Device& device : model.news.snapshot.devices) {
    if (!device.processes) continue;
    for (const Process& process : *device.processes) rows.push_back({&process, &device});
  }
  std::ranges::sort(rows, [](const Row& a, const Row& b) {
    const auto key = [](const Row& row) {
      return std::tuple(-row.process->sm_percent.value_or(0),
                        -row.process->memory_bytes.value_or(0), row.device->index,
                        row.process->pid);
    };
    return key(a) < key(b);
  });
  return rows;
}

std::string short_bytes(const std::optional<std::int64_t>& bytes) {
  if (!bytes) return "-";
  constexpr double kMebi = 1024.0 * 1024;
  constexpr double kGibi = kMebi * 1024;
  const auto number = static_cast<double>(*bytes);
  if (number >= 10 * kGibi) return fmt::format("{:.0f}G", number / kGibi);
  return number >= kGibi / 10 ? fmt::format("{:.1f}G", number / kGibi)
                              : fmt::format("{:.0f}M", number / kMebi);
}

std::string running_for(const Process& process, const Model& model) {
  if (!process.started_at) return "-";
  const auto started = from_rfc3339(*process.started_at);
  if (!started) return "-";
  const auto age = std::chrono::duration_cast<std::chrono::seconds>(model.now - *started);
  return short_length(age.count());
}

// Which columns end where; the command takes the rest.
constexpr std::size_t kPid = 8;
constexpr std::size_t kUser = 9;
constexpr std::size_t kGpu = 22;
constexpr std::size_t kUse = 27;
constexpr std::size_t kMemory = 33;
constexpr std::size_t kCpu = 39;
constexpr std::size_t kHost = 45;
constexpr std::size_t kTime = 52;
constexpr std::size_t kLease = 53;
constexpr std::size_t kCommand = 62;

void draw_process_heading(Grid& grid, std::size_t row) {
  const Style style{Tone::faint};
  grid.put_right(kPid, row, "PID", style);
  grid.put(kUser, row, "USER", style);
  grid.put_right(kGpu, row, "GPU", style);
  grid.put_right(kUse, row, "SM%", style);
  grid.put_right(kMemory, row, "VRAM", style);
  grid.put_right(kCpu, row, "CPU", style);
  grid.put_right(kHost, row, "HOST", style);
  grid.put_right(kTime, row, "TIME", style);
  grid.put(kLease, row, "LEASE", style);
  grid.put(kCommand, row, "COMMAND", style);
}

void draw_process(Grid& grid, std::size_t row, const Row& one, const Model& model) {
  const Process& process = *one.process;
  const auto percent = [](const auto& number) {
    return number ? fmt::format("{:.0f}", static_cast<double>(*number)) : std::string("-");
  };
  grid.put_right(kPid, row, std::to_string(process.pid));
  const std::string uid = process.uid ? std::to_string(*process.uid) : "?";
  grid.put(kUser, row, process.user.value_or(uid), {}, 9);
  grid.put_right(kGpu, row, std::to_string(one.device->index));
  grid.put_right(kUse, row, percent(process.sm_percent));
  grid.put_right(kMemory, row, short_bytes(process.memory_bytes));
  grid.put_right(kCpu, row, process.cpu_percent ? percent(process.cpu_percent) + "%" : "-");
  grid.put_right(kHost, row, short_bytes(process.host_memory_bytes));
  grid.put_right(kTime, row, running_for(process, model));
  const protocol::Lease* const lease = lease_of(model, *one.device);
  grid.put(kLease, row, lease != nullptr ? lease->id : "-", {Tone::faint}, 8);
  std::string command = process.command.value_or("?");
  if (process.pod) command += " (pod)";
  if (process.slurm_job) command += " (job " + *process.slurm_job + ")";
  grid.put(kCommand, row, command);
}

// Draws lines below a heading, from the first that is not scrolled away.
std::size_t draw_list(Grid& grid, Rows rows, const std::string& heading,
                      const std::vector<std::pair<std::string, Tone>>& lines,
                      std::size_t scrolled) {
  if (rows.count() > 0) grid.put(1, rows.first++, heading, {Tone::faint});
  for (std::size_t i = std::min(scrolled, lines.size()); i < lines.size(); ++i) {
    if (rows.count() == 0) break;
    grid.put(1, rows.first++, lines[i].first, {lines[i].second});
  }
  return rows.first;
}

constexpr const char* kNeedsDaemon =
    "This needs the daemon: `gpuyard serve` starts one, and `gpuyard doctor` says why none "
    "answers.";

}  // namespace

std::size_t rows_of_processes(const Model& model) {
  std::size_t rows = 1;
  for (const Device& device : model.news.snapshot.devices) {
    if (device.processes) rows += device.processes->size();
  }
  return rows;
}

std::size_t draw_processes(Grid& grid, Rows rows, const Model& model, std::size_t scrolled) {
  const std::vector<Row> all = processes_of(model);
  if (rows.count() < 2) return rows.first;
  draw_process_heading(grid, rows.first++);
  if (all.empty()) {
    grid.put(1, rows.first++, "No process uses a GPU.", {Tone::faint});
    return rows.first;
  }
  std::size_t next = std::min(scrolled, all.size() - 1);
  while (next < all.size() && rows.first < rows.until) {
    const bool last = rows.first + 1 == rows.until && next + 1 < all.size();
    if (last) {
      grid.put(4, rows.first++, fmt::format("{} more (PgDn)", all.size() - next), {Tone::faint});
      break;
    }
    draw_process(grid, rows.first++, all[next++], model);
  }
  return rows.first;
}

std::size_t draw_queue(Grid& grid, Rows rows, const Model& model) {
  if (!model.news.queue) {
    grid.put(1, rows.first, kNeedsDaemon, {Tone::warning});
    return rows.first + 1;
  }
  const protocol::Queue& queue = *model.news.queue;
  std::vector<std::pair<std::string, Tone>> lines;
  for (const protocol::Lease& lease : queue.waiting) {
    const std::string expected =
        lease.place && lease.place->expected_s ? length_text(*lease.place->expected_s) : "?";
    lines.emplace_back(
        fmt::format("{:>3} {:9} {:>3} GPUs  about {:10}  {}",
                    lease.place ? std::to_string(lease.place->position) : "?",
                    lease.user.value_or(std::to_string(lease.uid)), lease.wanted_gpus, expected,
                    lease.place ? lease.place->text : ""),
        Tone::plain);
  }
  if (lines.empty()) lines.emplace_back("Nobody waits.", Tone::faint);
  for (const protocol::Withheld& one : queue.withheld) {
    lines.emplace_back(fmt::format("held back  GPU {}: {}", one.index, one.text), Tone::warning);
  }
  for (const protocol::Squatter& one : queue.squatters) {
    lines.emplace_back(
        fmt::format("no lease   GPU {}: {} pid {} {}  {}", one.index,
                    one.user.value_or(std::to_string(one.uid)), one.pid, one.command, one.resolve),
        Tone::warning);
  }
  for (const std::string& note : queue.notes) lines.emplace_back(note, Tone::bad);
  return draw_list(grid, rows, "  # USER         WANTS  ABOUT             WHY", lines,
                   model.scrolled);
}

std::size_t draw_alerts(Grid& grid, Rows rows, const Model& model) {
  if (!model.news.alerts) {
    grid.put(1, rows.first, kNeedsDaemon, {Tone::warning});
    return rows.first + 1;
  }
  const protocol::Alerts& alerts = *model.news.alerts;
  std::vector<std::pair<std::string, Tone>> lines;
  for (const protocol::Alert& alert : alerts.alerts) {
    const bool severe = alert.level >= AlertLevel::error;
    const std::string state = alert.acknowledged ? "acked" : alert.silenced ? "silent" : "firing";
    lines.emplace_back(
        fmt::format("{:>4} {:8} {:>3} {:18} {:7} {}", alert.number, enum_name(alert.level),
                    alert.gpu && alert.gpu->index ? std::to_string(*alert.gpu->index) : "-",
                    alert.rule, state, alert.message),
        severe ? Tone::bad : Tone::warning);
    if (!alert.advice.empty()) lines.emplace_back("     " + alert.advice, Tone::faint);
  }
  for (const protocol::PendingAlert& one : alerts.pending) {
    lines.emplace_back(
        fmt::format("     pending  {:>3} {:18} for {} of {}",
                    one.gpu && one.gpu->index ? std::to_string(*one.gpu->index) : "-", one.rule,
                    length_text(one.for_s), length_text(one.hold_s)),
        Tone::plain);
  }
  if (lines.empty()) lines.emplace_back("Nothing fires.", Tone::good);
  return draw_list(grid, rows, "   N LEVEL    GPU RULE               STATE   SAYS", lines,
                   model.scrolled);
}

}  // namespace gpuyard::cli::top
