// The lists: processes, the queue, alerts, usage.
#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "cli/screen/fitted_table.h"
#include "cli/screen/reading_text.h"
#include "cli/top/render.h"
#include "faces/client/local.h"

namespace gpuyard::cli::top {
namespace {

using protocol::Process;

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

void draw_process(Grid& grid, std::size_t row, const ProcessRow& one, const Model& model) {
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
  grid.put_right(kTime, row, age_of(process.started_at, moment_of(model)));
  const protocol::Lease* const lease = lease_of(model, *one.device);
  grid.put(kLease, row, lease != nullptr ? lease->id : "-", {Tone::faint}, 8);
  std::string command = process.command.value_or("?");
  if (process.pod) command += " (pod)";
  if (process.slurm_job) command += " (job " + *process.slurm_job + ")";
  grid.put(kCommand, row, command);
}

// The first row to draw, so that the chosen one is on the screen.
std::size_t first_of(std::size_t chosen, std::size_t rows) {
  return chosen < rows ? 0 : chosen + 1 - rows;
}

constexpr const char* kOnlyOfNow = "Not recorded for the past. Press L to return to live.";

struct Text {
  const char* heading;
  std::vector<TextRow> rows;
  bool told;
};

Text text_of(const Model& model) {
  switch (model.pane) {
    case Pane::queue:
      return {"  # USER         GPUS     WAIT           REASON", queue_rows(model.news),
              model.news.queue.has_value()};
    case Pane::alerts:
      return {"   # LEVEL    GPU RULE               STATE   MESSAGE", alert_rows(model.news),
              model.news.alerts.has_value()};
    default:
      return {"last 7 days  GPU-HOURS     ENERGY   UTIL LEASES", usage_rows(model.news),
              model.news.usage.has_value()};
  }
}

}  // namespace

std::size_t draw_processes(Grid& grid, Rows rows, const Model& model) {
  if (rows.count() < 2) return rows.first;
  auto all = processes_of(model);
  const bool of_one = model.pane == Pane::gpu;
  if (of_one) std::erase_if(all, [&](const auto& row) { return row.device != device_of(model); });
  draw_process_heading(grid, rows.first++);
  if (all.empty()) {
    grid.put(
        1, rows.first,
        model.filter.empty() || of_one ? "No GPU processes." : "No process matches the filter.",
        {Tone::faint});
    return rows.first + 1;
  }
  const bool pointed = model.pane == Pane::processes;
  const std::size_t chosen = pointed ? list_of(model).place : 0;
  std::size_t next = pointed ? first_of(chosen, rows.count() - 1)
                             : std::min(of_one ? 0 : model.scrolled, all.size() - 1);
  while (next < all.size() && rows.count() > 0) {
    if (rows.count() == 1 && next + 1 < all.size()) {
      grid.put(4, rows.first++, fmt::format("{} more (PgDn)", all.size() - next), {Tone::faint});
      break;
    }
    if (pointed) {
      grid.put(0, rows.first, next == chosen ? ">" : " ", {Tone::strong});
      grid.mark(rows.first, 0, grid.size().columns, all[next].name);
    }
    draw_process(grid, rows.first++, all[next++], model);
  }
  return rows.first;
}

std::size_t draw_list(Grid& grid, Rows rows, const Model& model) {
  const Text text = text_of(model);
  if (!text.told) {
    const bool past = model.wish.at || model.replays;
    if (past || !model.daemon.empty()) {
      grid.put(1, rows.first++, past ? kOnlyOfNow : "No data from the daemon yet.",
               {Tone::warning});
      return rows.first;
    }
    grid.put(1, rows.first++, needs_daemon("this pane"), {Tone::warning});
    if (rows.count() > 0) grid.put(1, rows.first++, client::start_command(), {Tone::warning});
    return rows.first;
  }
  if (rows.count() > 0) grid.put(1, rows.first++, text.heading, {Tone::faint});
  const auto chosen = std::ranges::find_if(text.rows, [&](const TextRow& row) {
    return !row.name.empty() && row.name == list_of(model).chosen;
  });
  const auto place = static_cast<std::size_t>(chosen - text.rows.begin());
  const bool pointed = chosen != text.rows.end();
  for (std::size_t i = pointed ? first_of(place, rows.count()) : 0;
       i < text.rows.size() && rows.count() > 0; ++i) {
    const TextRow& row = text.rows[i];
    if (pointed && i == place) grid.put(0, rows.first, ">", {Tone::strong});
    if (!row.name.empty()) grid.mark(rows.first, 0, grid.size().columns, row.name);
    const std::size_t end = grid.put(1, rows.first, row.text, {row.tone}) + 2;
    const std::size_t width = grid.size().columns;
    if (end + width_of(printable(row.command)) <= width) {
      grid.put(end, rows.first, row.command, {row.tone});
    }
    ++rows.first;
  }
  return rows.first;
}

}  // namespace gpuyard::cli::top
