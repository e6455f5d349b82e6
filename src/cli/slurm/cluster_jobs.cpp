#include "cli/slurm/cluster_jobs.h"

#include <algorithm>
#include <array>
#include <map>

#include <fmt/format.h>

#include "base/text.h"
#include "base/try.h"
#include "cli/slurm/fixed_columns.h"
#include "cli/slurm/gres.h"
#include "cli/slurm/job_reason.h"

namespace gpuyard::cli::slurm {
namespace {

using lease::LeaseState;

struct JobField {
  enum Index : std::size_t {
    array_id,
    number,
    user,
    uid,
    state,
    submitted,
    starts,
    ends,
    reason,
    nodes,
    tasks,
    hosts,
    for_job,
    for_node,
    for_task,
    for_socket,
    name,
  };
};
constexpr std::array kJobColumns = {
    FixedColumn{"JobArrayID", 24},    FixedColumn{"JobID", 12},
    FixedColumn{"UserName", 33},      FixedColumn{"UserID", 12},
    FixedColumn{"State", 16},         FixedColumn{"SubmitTime", 16},
    FixedColumn{"StartTime", 16},     FixedColumn{"EndTime", 16},
    FixedColumn{"Reason", 120},       FixedColumn{"NumNodes", 10},
    FixedColumn{"NumTasks", 10},      FixedColumn{"NodeList", 80},
    FixedColumn{"tres-per-job", 80},  FixedColumn{"tres-per-node", 80},
    FixedColumn{"tres-per-task", 80}, FixedColumn{"tres-per-socket", 80},
    FixedColumn{"Name", 64},
};

using GpuList = std::optional<std::vector<GresGpus>>;

GpuList gpus_in(const FixedField& field) {
  return field.cut ? std::nullopt : parse_gres_list(field.text);
}

// Slurm prints "N/A", "NONE" or "Unknown" for a time that it does not know.
std::optional<WallTime> time_in(const FixedField& field) {
  const auto since_1970 = parse_number<std::int64_t>(field.text);
  if (!since_1970 || field.cut || *since_1970 <= 0) return std::nullopt;
  constexpr std::int64_t kMaxTime = 253'402'300'799;  // the end of the year 9999
  if (*since_1970 > kMaxTime) return std::nullopt;
  return WallTime(std::chrono::seconds(*since_1970));
}

std::optional<std::string> rfc3339_of(const std::optional<WallTime>& time) {
  return time ? std::optional(to_rfc3339(*time)) : std::nullopt;
}

void add_types(ClusterJob& job, const std::vector<GresGpus>& gpus) {
  for (const GresGpus& one : gpus) {
    const bool known = std::ranges::find(job.types, one.type) != job.types.end();
    if (!one.type.empty() && one.count > 0 && !known) job.types.push_back(one.type);
  }
}

std::int64_t count_of(const std::vector<GresGpus>& gpus) {
  std::int64_t count = 0;
  for (const GresGpus& one : gpus) count += one.count;
  return count;
}

// Reads which GPUs the job asks for. Returns whether it asks for any.
bool read_request(const FixedRow& row, ClusterJob& job) {
  // --gpus counts for the whole job; the other options only distribute it.
  const std::array kinds = {
      std::pair{JobField::for_job, std::optional<std::int64_t>(1)},
      std::pair{JobField::for_node, parse_number<std::int64_t>(row[JobField::nodes].text)},
      std::pair{JobField::for_task, parse_number<std::int64_t>(row[JobField::tasks].text)},
      std::pair{JobField::for_socket, std::optional<std::int64_t>()},  // Slurm selects the sockets
  };
  for (const auto& [field, times] : kinds) {
    const GpuList gpus = gpus_in(row[field]);
    if (gpus && count_of(*gpus) == 0) continue;
    if (!gpus) {
      if (row[field].text.find("gpu") == std::string::npos) continue;
      return true;  // GPUs, but how many is unreadable
    }
    add_types(job, *gpus);
    if (times && *times > 0) job.wanted_gpus = count_of(*gpus) * *times;
    return true;
  }
  return false;
}

LeaseState lease_state_of(std::string_view slurm_state) {
  if (slurm_state == "PENDING") return LeaseState::waiting;
  return slurm_state == "COMPLETING" ? LeaseState::draining : LeaseState::held;
}

// The facts that are in each job's line; nothing if it is no line of a job.
std::optional<ClusterJob> job_of(const FixedRow& row) {
  const auto owner = parse_number<std::uint32_t>(row[JobField::uid].text);
  const auto at = time_in(row[JobField::submitted]);
  const bool has_number = parse_number<std::uint64_t>(row[JobField::number].text).has_value();
  if (!owner || !at || !has_number || row[JobField::number].cut ||
      row[JobField::state].text.empty()) {
    return std::nullopt;
  }
  ClusterJob job;
  job.number = row[JobField::number].text;
  job.id = row[JobField::array_id].marked();
  job.state = lease_state_of(row[JobField::state].text);
  job.slurm_state = row[JobField::state].text;
  job.uid = *owner;
  job.user = row[JobField::user].marked();
  job.note = row[JobField::name].marked();
  job.asked = to_rfc3339(*at);
  return job;
}

struct JobLines {
  std::vector<std::pair<FixedRow, ClusterJob>> jobs;
  std::vector<std::string> notes;
};

Result<JobLines> parse_jobs(std::string_view squeue) {
  FixedRows found = parse_fixed(kJobColumns, squeue);
  JobLines lines;
  for (FixedRow& row : found.rows) {
    auto job = job_of(row);
    if (!job) {
      ++found.malformed;
    } else {
      lines.jobs.emplace_back(std::move(row), *std::move(job));
    }
  }
  if (found.malformed == 0) return lines;
  const std::string note = fmt::format("{} line{} of squeue could not be read", found.malformed,
                                       found.malformed == 1 ? "" : "s");
  if (lines.jobs.empty()) {
    return Error{Errc::unavailable, note, "its format is not that of Slurm 22.05",
                 "squeue --version"};
  }
  lines.notes.push_back(note + ".");
  return lines;
}

// Reads "   Nodes=n1 CPU_IDs=0 Mem=0 GRES=gpu:h100:2(IDX:0-1)" as often as it follows.
std::vector<ClusterGpus> parse_hosts(std::string_view rest) {
  std::vector<ClusterGpus> allocated;
  const auto take = [&](std::string_view key) -> std::optional<std::string_view> {
    rest = rest.substr(std::min(rest.find_first_not_of(' '), rest.size()));
    if (!take_prefix(rest, key)) return std::nullopt;
    return take_until(' ', rest);
  };
  while (const auto names = take("Nodes=")) {
    if (!take("CPU_IDs=") || !take("Mem=")) return {};
    const auto list = take("GRES=");
    const GpuList gpus = list ? parse_gres_list(*list) : std::nullopt;
    if (!gpus) return {};
    for (const GresGpus& one : *gpus) {
      if (one.count > 0) allocated.push_back({printable(*names), one.type, one.count, one.indexes});
    }
  }
  return allocated;
}

struct Allocation {
  std::vector<GresGpus> total;
  std::vector<ClusterGpus> allocated;
};

// By the job's number. A user chooses the texts in a line of scontrol, such as the job's name and
// comment: a line or a job that could have two meanings has none.
std::map<std::string, std::optional<Allocation>, std::less<>> parse_allocations(
    std::string_view scontrol) {
  std::map<std::string, std::optional<Allocation>, std::less<>> found;
  while (!scontrol.empty()) {
    constexpr std::string_view kJob = "JobId=";
    constexpr std::string_view kGres = " JOB_GRES=";
    std::string_view line = take_until('\n', scontrol);
    if (!take_prefix(line, kJob)) continue;
    const std::string job(take_until(' ', line));
    const std::size_t begin = line.find(kGres);
    std::optional<Allocation> allocation;
    if (begin != line.npos && line.rfind(kGres) == begin) {
      std::string_view rest = line.substr(begin + kGres.size());
      if (auto total = parse_gres_list(take_until(' ', rest))) {
        allocation = Allocation{*std::move(total), parse_hosts(rest)};
      }
    }
    const auto [place, is_new] = found.emplace(job, std::move(allocation));
    if (!is_new) place->second.reset();
  }
  return found;
}

}  // namespace

std::vector<std::string> pending_jobs_query() {
  return {"squeue", "-h", "-t", "PD", "--sort=-p,i", "-O", fixed_format(kJobColumns)};
}

std::vector<std::string> running_jobs_query() {
  // All states with an allocation.
  return {
      "squeue", "-h", "-t", "R,CG,S,CF,RS,SI,SO,ST", "--sort=S,i", "-O", fixed_format(kJobColumns)};
}

std::vector<std::string> allocations_query() {
  return {"scontrol", "show", "job", "-d", "-o"};
}

Result<ClusterQueue> parse_queue(std::string_view squeue, WallTime now) {
  auto lines = GPUYARD_TRY(parse_jobs(squeue));
  ClusterQueue queue;
  queue.notes = std::move(lines.notes);
  for (auto& [row, job] : lines.jobs) {
    if (job.state != LeaseState::waiting || !read_request(row, job)) continue;
    ++queue.pending_claimers;
    if (queue.waiting.size() == kMaxListedJobs) continue;
    protocol::QueuePosition place;
    place.position = queue.pending_claimers;
    place.why = row[JobField::reason].marked();
    place.text = explain_reason(row[JobField::reason].text);
    const auto start = time_in(row[JobField::starts]);
    // An estimate that has passed is an old one.
    if (start && *start > now) place.expected_s = to_seconds(*start - now);
    job.place = std::move(place);
    queue.waiting.push_back(std::move(job));
  }
  return queue;
}

Result<ClusterLeases> parse_leases(std::string_view squeue, std::string_view scontrol) {
  auto lines = GPUYARD_TRY(parse_jobs(squeue));
  const auto allocations = parse_allocations(scontrol);
  ClusterLeases leases;
  leases.notes = std::move(lines.notes);
  for (auto& [row, job] : lines.jobs) {
    if (job.state == LeaseState::waiting) continue;
    const auto found = allocations.find(job.number);
    if (found != allocations.end() && found->second) {
      const Allocation& allocation = *found->second;
      job.wanted_gpus = count_of(allocation.total);
      if (*job.wanted_gpus == 0) continue;
      add_types(job, allocation.total);
      job.allocated = allocation.allocated;
    } else if (!read_request(row, job)) {
      continue;
    }
    job.hosts = row[JobField::hosts].marked();
    job.granted = rfc3339_of(time_in(row[JobField::starts]));
    job.until = rfc3339_of(time_in(row[JobField::ends]));
    leases.leases.push_back(std::move(job));
  }
  return leases;
}

}  // namespace gpuyard::cli::slurm
