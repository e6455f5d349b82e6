#include "cli/lease/queue_table.h"

#include <fmt/format.h>

#include "base/printable.h"
#include "cli/lease/lease_text.h"
#include "cli/screen/fitted_table.h"
#include "cli/screen/moment.h"
#include "cli/screen/reading_text.h"

namespace gpuyard::cli {
namespace {

// Which columns go first where there is not room for all.
struct QueueColumn {
  enum Drops : int { never, ids, comments, since, expected };
};

std::string waiting_table(const std::vector<protocol::Lease>& waiting, WallTime now,
                          const Screen& screen) {
  FittedTable table{{{"PLACE", true},
                     {"USER"},
                     {"WANTS"},
                     {"SINCE", false, QueueColumn::since},
                     {"EXPECTED", true, QueueColumn::expected},
                     {"WHY"},
                     {"NOTE", false, QueueColumn::comments},
                     {"ID", false, QueueColumn::ids}}};
  for (const protocol::Lease& lease : waiting) {
    const auto& place = lease.place;
    const std::string unknown(kNothing);
    const std::vector<std::string> cells = {
        place ? std::to_string(place->position) : unknown,
        lease.user ? printable(*lease.user) : std::to_string(lease.uid),
        fmt::format("{} GPU{}", lease.wanted_gpus, lease.wanted_gpus == 1 ? "" : "s"),
        local_moment(lease.asked, now),
        place && place->expected_s ? length_text(*place->expected_s) : unknown,
        place ? printable(place->text) : unknown,
        printable(lease.note),
        printable(lease.id)};
    table.add_texts(cells);
  }
  return table.text(screen);
}

std::string squatter_text(const protocol::Squatter& one) {
  std::string text = fmt::format("GPU {} is used outside any lease by process {} ({}) of {}",
                                 one.index, one.pid, printable(one.command),
                                 one.user ? printable(*one.user) : fmt::format("uid {}", one.uid));
  if (one.memory_bytes) text += ", " + bytes_text(*one.memory_bytes);
  if (one.age_s) text += ", for " + length_text(*one.age_s);
  return text + ":\n    " + printable(one.resolve) + "\n";
}

}  // namespace

std::string withheld_text(const std::vector<protocol::Withheld>& withheld, WallTime now) {
  std::string text;
  for (const protocol::Withheld& one : withheld) {
    text += fmt::format("GPU {} is not handed out: {}{}\n", one.index,
                        printable(one.text.empty() ? one.why : one.text),
                        one.since ? " (since " + local_moment(*one.since, now) + ")" : "");
  }
  return text;
}

std::string queue_text(const protocol::Queue& queue, WallTime now, const Screen& screen) {
  std::string text =
      queue.waiting.empty() ? "Nobody waits.\n" : waiting_table(queue.waiting, now, screen);
  const auto shown = static_cast<std::int64_t>(queue.waiting.size());
  if (queue.pending_claimers > shown && shown > 0) {
    text += fmt::format("{} more wait.\n", queue.pending_claimers - shown);
  }
  for (const protocol::Squatter& one : queue.squatters) text += squatter_text(one);
  text += withheld_text(queue.withheld, now);
  for (const std::string& note : queue.notes) text += printable(note) + "\n";
  return text + (queue.simulated ? "These GPUs are simulated.\n" : "");
}

}  // namespace gpuyard::cli
