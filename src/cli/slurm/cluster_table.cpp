#include "cli/slurm/cluster_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/local_time.h"
#include "base/text.h"
#include "cli/lease/lease_text.h"
#include "cli/screen/fitted_table.h"
#include "cli/screen/reading_text.h"

namespace gpuyard::cli::slurm {
namespace {

// The order in which columns are dropped where there is not room for all; the last goes first.
struct ClusterColumn {
  enum Drops : int { never, ids, comments, since, expected, indexes };
};

// "2 GPUs (h100)"; "GPUs" if their number is unknown.
std::string request_text(const ClusterJob& job) {
  const std::string count = job.wanted_gpus ? number_of_gpus(*job.wanted_gpus) : "GPUs";
  return job.types.empty() ? count : fmt::format("{} ({})", count, fmt::join(job.types, ", "));
}

std::string cluster_moment(const std::optional<std::string>& moment, WallTime now) {
  return moment ? local_moment(*moment, now) : std::string(kNothing);
}

std::string start_text(const ClusterJob& job, WallTime now) {
  if (!job.place || !job.place->expected_s) return std::string(kNothing);
  const std::chrono::duration<double> wait(*job.place->expected_s);
  return local_moment(now + std::chrono::duration_cast<std::chrono::milliseconds>(wait), now);
}

std::string reason_text(const ClusterJob& job) {
  if (!job.place) return std::string(kNothing);
  return job.place->text.empty() ? job.place->why
                                 : fmt::format("{}: {}", job.place->why, job.place->text);
}

// "0,1" of a job on one host, "n1: 0,1; n2: 3" on several. GPUs of a host whose indexes are unknown
// make all of it unknown.
std::string allocated_text(const ClusterJob& job) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < job.allocated.size(); ++i) {
    const ClusterGpus& gpus = job.allocated[i];
    if (gpus.indexes.empty()) return std::string(kNothing);
    const std::string indexes = fmt::format("{}", fmt::join(gpus.indexes, ","));
    if (i > 0 && job.allocated[i - 1].hosts == gpus.hosts) {
      parts.back() += "," + indexes;
    } else {
      parts.push_back(gpus.hosts == job.hosts ? indexes
                                              : fmt::format("{}: {}", gpus.hosts, indexes));
    }
  }
  return parts.empty() ? std::string(kNothing) : fmt::format("{}", fmt::join(parts, "; "));
}

Printable cluster_notes(const std::vector<std::string>& notes) {
  Printable text;
  for (const std::string& note : notes) text += formatted("{}\n", note);
  return text;
}

}  // namespace

Printable cluster_queue_text(const ClusterQueue& queue, WallTime now, const Screen& screen) {
  if (queue.waiting.empty()) return "No jobs are waiting for GPUs.\n" + cluster_notes(queue.notes);
  FittedTable table{{{"POSITION", true},
                     {"USER"},
                     {"REQUESTS"},
                     {heading_with_zone("SINCE", now), false, ClusterColumn::since},
                     {"EXPECTED START", false, ClusterColumn::expected},
                     {"REASON"},
                     {"NAME", false, ClusterColumn::comments},
                     {"ID", false, ClusterColumn::ids}}};
  for (const ClusterJob& job : queue.waiting) {
    table.add({{job.place ? std::to_string(job.place->position) : std::string(kNothing)},
               {job.user},
               {request_text(job)},
               {local_moment(job.asked, now)},
               {start_text(job, now)},
               {reason_text(job)},
               {job.note},
               {job.id}});
  }
  Printable text = table.text(screen);
  const auto more = queue.pending_claimers - std::ssize(queue.waiting);
  if (more > 0) text += formatted("{} more waiting.\n", more);
  return text + cluster_notes(queue.notes);
}

Printable cluster_leases_text(const ClusterLeases& leases, WallTime now, const Screen& screen) {
  if (leases.leases.empty()) return "No jobs have GPUs.\n" + cluster_notes(leases.notes);
  FittedTable table{{{"NODES"},
                     {"GPUS"},
                     {"INDEXES", false, ClusterColumn::indexes},
                     {"USER"},
                     {"STATE"},
                     {heading_with_zone("SINCE", now), false, ClusterColumn::since},
                     {heading_with_zone("UNTIL", now), false, ClusterColumn::expected},
                     {"NAME", false, ClusterColumn::comments},
                     {"ID", false, ClusterColumn::ids}}};
  for (const ClusterJob& job : leases.leases) {
    const bool runs = job.slurm_state == "RUNNING";
    table.add({{job.hosts.empty() ? std::string(kNothing) : job.hosts},
               {request_text(job)},
               {allocated_text(job)},
               {job.user},
               {to_lower(job.slurm_state), runs ? Tone::plain : Tone::warning},
               {cluster_moment(job.granted, now)},
               {cluster_moment(job.until, now)},
               {job.note},
               {job.id}});
  }
  return table.text(screen) + cluster_notes(leases.notes);
}

Printable cluster_free_text(const ClusterFree& answer, const Screen& screen) {
  if (answer.nodes.empty()) return "No node has GPUs.\n" + cluster_notes(answer.notes);
  FittedTable table{{{"NODE"},
                     {"TYPE"},
                     {"FREE", true},
                     {"TOTAL", true},
                     {"STATE"},
                     {"REASON", false, ClusterColumn::comments}}};
  for (const ClusterNode& node : answer.nodes) {
    for (const ClusterNodeGpus& gpus : node.gpus) {
      table.add({{node.host},
                 {gpus.type.empty() ? std::string(kNothing) : gpus.type},
                 {gpus.free ? std::to_string(*gpus.free) : std::string(kNothing)},
                 {std::to_string(gpus.total)},
                 {node.state, node.available ? Tone::plain : Tone::warning},
                 {node.reason}});
    }
  }
  return table.text(screen) + cluster_notes(answer.notes);
}

}  // namespace gpuyard::cli::slurm
