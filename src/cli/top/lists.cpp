// The lists: processes, the queue, alerts, usage.
#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "cli/screen/fitted_table.h"
#include "cli/screen/reading_text.h"
#include "cli/top/render.h"
#include "faces/client/local_daemon.h"

namespace gpuyard::cli::top {
namespace {

using protocol::Process;

// The ends of the columns; the command takes the rest.
constexpr std::size_t kPidColumn = 8;
constexpr std::size_t kUserColumn = 9;
constexpr std::size_t kGpuColumn = 22;
constexpr std::size_t kUseColumn = 27;
constexpr std::size_t kMemoryColumn = 33;
constexpr std::size_t kCpuColumn = 39;
constexpr std::size_t kHostColumn = 45;
constexpr std::size_t kTimeColumn = 52;
constexpr std::size_t kLeaseColumn = 53;
constexpr std::size_t kCommandColumn = 62;

void draw_process_heading(Grid& grid, std::size_t row) {
  const Style style{Tone::faint};
  grid.put_right(kPidColumn, row, "PID", style);
  grid.put(kUserColumn, row, "USER", style);
  grid.put_right(kGpuColumn, row, "GPU", style);
  grid.put_right(kUseColumn, row, "SM%", style);
  grid.put_right(kMemoryColumn, row, "VRAM", style);
  grid.put_right(kCpuColumn, row, "CPU", style);
  grid.put_right(kHostColumn, row, "HOST", style);
  grid.put_right(kTimeColumn, row, "TIME", style);
  grid.put(kLeaseColumn, row, "LEASE", style);
  grid.put(kCommandColumn, row, "COMMAND", style);
}

void draw_process(Grid& grid, std::size_t row, const ProcessRow& one, const Model& model) {
  const Process& process = *one.process;
  const auto percent = [](const auto& number) {
    return number ? fmt::format("{:.0f}", static_cast<double>(*number)) : std::string("-");
  };
  grid.put_right(kPidColumn, row, std::to_string(process.pid));
  const std::string uid = process.uid ? std::to_string(*process.uid) : "?";
  grid.put(kUserColumn, row, process.user.value_or(uid), {}, 9);
  grid.put_right(kGpuColumn, row, std::to_string(one.device->index));
  grid.put_right(kUseColumn, row, percent(process.sm_percent));
  grid.put_right(kMemoryColumn, row, short_bytes(process.memory_bytes));
  grid.put_right(kCpuColumn, row, process.cpu_percent ? percent(process.cpu_percent) + "%" : "-");
  grid.put_right(kHostColumn, row, short_bytes(process.host_memory_bytes));
  grid.put_right(kTimeColumn, row, age_of(process.started_at, shown_moment(model)));
  const protocol::Lease* const lease = lease_of(model, *one.device);
  grid.put(kLeaseColumn, row, lease != nullptr ? lease->id : "-", {Tone::faint}, 8);
  std::string command = process.command.value_or("?");
  if (process.pod) command += " (pod)";
  if (process.slurm_job) command += " (job " + *process.slurm_job + ")";
  grid.put(kCommandColumn, row, command);
}

// The first row to draw, so that the chosen one is on the screen.
std::size_t first_of(std::size_t chosen, std::size_t rows) {
  return chosen < rows ? 0 : chosen + 1 - rows;
}

constexpr const char* kLiveOnlyText = "Not recorded for the past. Press L to return to live.";

struct PaneText {
  const char* heading;
  std::vector<TextRow> rows;
  bool known;
};

PaneText text_of(const Model& model) {
  switch (model.pane) {
    case Pane::queue:
      return {"  # USER         GPUS     WAIT           REASON", queue_rows(model.data),
              model.data.queue.has_value()};
    case Pane::alerts:
      return {"   # LEVEL    GPU RULE               STATE   MESSAGE", alert_rows(model.data),
              model.data.alerts.has_value()};
    default:
      return {"last 7 days  GPU-HOURS     ENERGY   UTIL LEASES", usage_rows(model.data),
              model.data.usage.has_value()};
  }
}

}  // namespace

std::size_t draw_processes(Grid& grid, RowRange rows, const Model& model) {
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
  const std::size_t chosen = pointed ? list_of(model).position : 0;
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

std::size_t draw_list(Grid& grid, RowRange rows, const Model& model) {
  const PaneText text = text_of(model);
  if (!text.known) {
    const bool past = model.query.at || model.is_replay;
    if (past || !model.daemon.empty()) {
      grid.put(1, rows.first++, past ? kLiveOnlyText : "No data from the daemon yet.",
               {Tone::warning});
      return rows.first;
    }
    grid.put(1, rows.first++, needs_daemon_text("this pane"), {Tone::warning});
    if (rows.count() > 0) grid.put(1, rows.first++, client::start_command(), {Tone::warning});
    return rows.first;
  }
  if (rows.count() > 0) grid.put(1, rows.first++, text.heading, {Tone::faint});
  const auto chosen = std::ranges::find_if(text.rows, [&](const TextRow& row) {
    return !row.name.empty() && row.name == list_of(model).selected;
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
