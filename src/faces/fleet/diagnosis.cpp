// Finds the faults of a set of machines: differences, duplicates, wrong clocks, and machines that
// do not answer.
#include <algorithm>
#include <chrono>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "faces/fleet/view.h"

namespace gpuyard::fleet {
namespace {

using Examination = HostReply<ReplyWithBrief<DoctorReply>>;
using Machines = std::vector<const Examination*>;

// "535.104.05 on 97 machines, 525.60.13 on n3, n4": the machines that have what most have are
// counted, the others named.
void find_differences(std::string_view what, std::string_view called,
                      const std::map<std::string, std::vector<std::string>>& by_value,
                      FleetDiagnosis& view) {
  if (by_value.size() < 2) return;
  const auto most =
      std::ranges::max_element(by_value, {}, [](const auto& one) { return one.second.size(); });
  FleetFinding finding{
      std::string(what),
      {},
      fmt::format("{}: {} on {}", called, most->first,
                  most->second.size() == 1 ? most->second.front()
                                           : fmt::format("{} machines", most->second.size()))};
  for (auto one = by_value.begin(); one != by_value.end(); ++one) {
    if (one == most) continue;
    finding.text += fmt::format(", {} on {}", one->first, fmt::join(one->second, ", "));
    finding.hosts.insert(finding.hosts.end(), one->second.begin(), one->second.end());
  }
  view.findings.push_back(std::move(finding));
}

template <class ValueOf>
void compare(std::string_view what, std::string_view called, const Machines& machines,
             ValueOf value_of, FleetDiagnosis& view) {
  std::map<std::string, std::vector<std::string>> by_value;
  for (const Examination* one : machines) {
    by_value[value_of(one->answer.brief)].push_back(one->host.name);
  }
  find_differences(what, called, by_value, view);
}

// A digest says only whether two sections are the same: the machines that differ are named.
void compare_section(const std::string& section, const Machines& machines, FleetDiagnosis& view) {
  std::map<std::string, std::vector<std::string>> by_digest;
  for (const Examination* one : machines) {
    const auto& digests = one->answer.brief.configuration;
    const auto found = digests.find(section);
    by_digest[found == digests.end() ? "" : found->second].push_back(one->host.name);
  }
  if (by_digest.size() < 2) return;
  std::vector<std::vector<std::string>> groups;
  for (auto& [digest, hosts] : by_digest) groups.push_back(std::move(hosts));
  // The machines that are like most come first, as a number.
  std::ranges::sort(groups, [](const auto& a, const auto& b) {
    return a.size() != b.size() ? a.size() > b.size() : a.front() < b.front();
  });
  FleetFinding finding{"configuration", {}, ""};
  std::vector<std::string> names;
  for (const auto& hosts : groups) {
    const bool most = names.empty();
    if (!most) finding.hosts.insert(finding.hosts.end(), hosts.begin(), hosts.end());
    names.push_back(most && hosts.size() > 1 ? fmt::format("{} machines", hosts.size())
                                             : fmt::format("{}", fmt::join(hosts, ", ")));
  }
  const bool rules = section == "rules";
  finding.text = fmt::format(
      "{} between {}; compare `{}` on each machine",
      rules ? "the alert rules differ" : fmt::format("[{}] differs", section),
      fmt::join(names, " and "), rules ? "gpuyard alerts rules" : "gpuyard config show");
  view.findings.push_back(std::move(finding));
}

void compare_configurations(const Machines& machines, FleetDiagnosis& view) {
  std::map<std::string, bool> sections;
  for (const Examination* one : machines) {
    for (const auto& [section, digest] : one->answer.brief.configuration) sections[section] = true;
  }
  for (const auto& [section, known] : sections) compare_section(section, machines, view);
}

// Returns how far the machine's clock is ahead of ours, as far as the time of the answer shows;
// nothing if the difference is no more than the answer took.
std::optional<std::chrono::seconds> clock_offset(const DoctorReply& reply) {
  const auto now = from_rfc3339(reply.readiness.now.value_or(""));
  if (!now) return std::nullopt;
  // The text has whole seconds at least; the machine read its clock between our two readings.
  constexpr auto kClockPrecision = std::chrono::seconds(1);
  using std::chrono::floor, std::chrono::seconds;
  if (*now + kClockPrecision < reply.requested_at) return floor<seconds>(*now - reply.requested_at);
  if (*now > reply.replied_at) return floor<seconds>(*now - reply.replied_at);
  return std::nullopt;
}

void find_clock_offsets(const Machines& machines, FleetDiagnosis& view) {
  for (const Examination* one : machines) {
    const auto off = clock_offset(one->answer.answer);
    if (!off || std::chrono::abs(*off) <= kMaxClockOffset) continue;
    view.findings.push_back(
        {"clock",
         {one->host.name},
         fmt::format(
             "{}: its clock is {} s {} this machine's, so times it reports are off. Check its NTP",
             one->host.name, std::chrono::abs(*off).count(),
             off->count() > 0 ? "ahead of" : "behind")});
  }
}

void find_unready(const Machines& machines, FleetDiagnosis& view) {
  for (const Examination* one : machines) {
    const protocol::Readiness& ready = one->answer.answer.readiness;
    const std::string& host = one->host.name;
    if (!ready.ready) {
      view.findings.push_back({"not_ready", {host}, fmt::format("{}: {}", host, ready.reason)});
    }
    for (const std::string& note : ready.notes) {
      view.findings.push_back({"note", {host}, fmt::format("{}: {}", host, note)});
    }
  }
}

void find_duplicate_gpus(const FleetGpus& gpus, FleetDiagnosis& view) {
  for (const FleetGpu& gpu : gpus.gpus) {
    if (gpu.also_on.empty()) continue;
    FleetFinding finding{
        "gpu_twice", gpu.also_on,
        fmt::format(
            "{} is listed by {} and by {}: two daemons lease the same GPU; stop one of them",
            gpu.uuid, gpu.host, fmt::join(gpu.also_on, ", "))};
    finding.hosts.insert(finding.hosts.begin(), gpu.host);
    view.findings.push_back(std::move(finding));
  }
}

}  // namespace

FleetDiagnosis diagnosis_of(const HostReplies<ReplyWithBrief<DoctorReply>>& all) {
  HostReplies<Brief> briefs;
  for (const Examination& one : all) {
    briefs.push_back({one.host, one.problem, one.took, one.answer.brief});
  }
  const FleetGpus gpus = gpus_of(briefs);
  FleetDiagnosis view{static_cast<const FleetAnswer&>(gpus), false, {}};
  Machines machines;  // each once
  for (std::size_t i = 0; i < all.size(); ++i) {
    const FleetHost& host = view.hosts[i];
    if (host.problem) {
      view.findings.push_back({"unreachable", {host.host}, host.host + ": " + *host.problem});
    } else if (host.same_as) {
      view.findings.push_back(
          {"same_machine",
           {host.host},
           fmt::format("{} is the same daemon as {}; counted once", host.host, *host.same_as)});
    } else {
      machines.push_back(&all[i]);
    }
  }
  find_unready(machines, view);
  compare("version", "gpuyard", machines, [](const Brief& brief) { return brief.version; }, view);
  compare(
      "driver", "the driver", machines,
      [](const Brief& brief) { return brief.driver_version.value_or("none"); }, view);
  compare_configurations(machines, view);
  find_clock_offsets(machines, view);
  find_duplicate_gpus(gpus, view);
  view.healthy = view.findings.empty();
  return view;
}

}  // namespace gpuyard::fleet
