// Finds the faults of a set of machines: differences, duplicates, wrong clocks, and machines that
// do not answer.
#include <algorithm>
#include <chrono>
#include <iterator>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.h"
#include "faces/client/daemon_address.h"
#include "faces/fleet/view.h"

namespace gpuyard::fleet {
namespace {

using Examination = HostReply<ReplyWithBrief<DoctorReply>>;
using Machines = std::vector<const Examination*>;

using ByValue = std::map<std::string, std::vector<std::string>>;  // names of machines

// "535.104.05 on 97 machines, 525.60.13 on n3, n4": the machines that have what most have are
// counted, the others named. `advice_for` gets the names of the others and the value of most.
template <class AdviceFor>
void find_differences(std::string_view what, std::string_view called, const ByValue& by_value,
                      FleetDiagnosis& view, AdviceFor advice_for) {
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
  finding.text += advice_for(fmt::format("{}", fmt::join(finding.hosts, ", ")), most->first);
  view.findings.push_back(std::move(finding));
}

void compare_versions(const Machines& machines, FleetDiagnosis& view) {
  ByValue by_version;
  for (const Examination* one : machines) {
    by_version[one->answer.brief.version].push_back(one->host.name);
  }
  find_differences("version", "gpuyard", by_version, view,
                   [](const auto&, const auto&) { return ""; });
}

// Machines whose fact is unknown, by the reason.
class UnknownFacts {
 public:
  UnknownFacts(std::string_view what, std::string_view called) : what_(what), called_(called) {}

  void add(const Examination& machine, std::string_view reason) {
    hosts_by_reason_[std::string(reason)].push_back(machine.host.name);
  }

  void write(const Machines& machines, FleetDiagnosis& view) && {
    for (auto& [reason, hosts] : hosts_by_reason_) {
      const bool all = hosts.size() == machines.size() && hosts.size() > 1;
      std::string where = all ? fmt::format("all {} machines", hosts.size())
                              : fmt::format("{}", fmt::join(hosts, ", "));
      view.unknown.push_back({what_, std::move(hosts),
                              fmt::format("{} on {}: {}", called_, std::move(where), reason)});
    }
  }

 private:
  std::string what_;
  std::string called_;
  ByValue hosts_by_reason_;
};

// The command installs Debian's package. Quoted, because the version comes from a daemon.
std::string install_advice(const std::string& hosts, const std::string& package,
                           const std::string& version) {
  return fmt::format("on {}: `sudo apt-get install {}`", hosts,
                     quote_shell_word(fmt::format("{}={}*", package, printable(version))));
}

void compare_drivers(const Machines& machines, FleetDiagnosis& view) {
  ByValue by_version;
  UnknownFacts unknown("driver", "the driver's version");
  for (const Examination* one : machines) {
    const Brief& brief = one->answer.brief;
    if (brief.driver_version) {
      by_version[*brief.driver_version].push_back(one->host.name);
    } else {
      unknown.add(*one, brief.driver_error.value_or("the driver does not report it"));
    }
  }
  find_differences("driver", "the driver", by_version, view,
                   [](const std::string& hosts, const std::string& version) {
                     return "; a program built for a newer CUDA may fail on the older driver; " +
                            install_advice(hosts, "nvidia-driver", version) + ", then reboot";
                   });
  std::move(unknown).write(machines, view);
}

void compare_slurm_versions(const Machines& machines, FleetDiagnosis& view) {
  ByValue by_version;
  for (const Examination* one : machines) {
    const auto& version = one->answer.answer.slurm_version;
    if (version && *version) by_version[**version].push_back(one->host.name);
  }
  UnknownFacts unknown("slurm", "Slurm's version");
  for (const Examination* one : machines) {
    const auto& version = one->answer.answer.slurm_version;
    if (!version) unknown.add(*one, version.error().text());
    if (version && !*version && !by_version.empty()) {
      unknown.add(*one, "no slurmd was found in a usual directory, or its version is unreadable");
    }
  }
  find_differences(
      "slurm", "Slurm", by_version, view, [](const std::string& hosts, const std::string& version) {
        return "; slurmctld refuses a slurmd that is newer or several releases older; " +
               install_advice(hosts, "slurmd", version);
      });
  std::move(unknown).write(machines, view);
}

// UIDs of one user: a machine where ssh logs in as another user says nothing about them.
void compare_uids(const Machines& machines, FleetDiagnosis& view) {
  if (machines.size() < 2) return;
  std::map<std::string, std::vector<const Examination*>> by_user;
  UnknownFacts unknown("uid", "your UID");
  for (const Examination* one : machines) {
    const auto& login = one->answer.answer.login.login;
    if (login) {
      by_user[login->user].push_back(one);
    } else {
      unknown.add(*one, login.error().text());
    }
  }
  for (const auto& [user, with_user] : by_user) {
    if (with_user.size() == 1) {
      unknown.add(*with_user.front(),
                  fmt::format("no other machine has a login as {} to compare it with", user));
      continue;
    }
    ByValue by_uid;
    for (const Examination* one : with_user) {
      by_uid[std::to_string(one->answer.answer.login.login->uid)].push_back(one->host.name);
    }
    find_differences(
        "uid", fmt::format("the UID of {}", user), by_uid, view,
        [&](const std::string& hosts, const std::string& uid) {
          return fmt::format(
              "; Slurm and shared disks know a user by the UID; on {}, once no process of {} runs: "
              "`sudo usermod -u {} {}`",
              hosts, user, uid, quote_shell_word(user));
        });
  }
  std::move(unknown).write(machines, view);
}

bool uses_munge(const DoctorReply& reply) {
  const bool has_slurm = reply.slurm_version && *reply.slurm_version;
  return has_slurm || reply.login.has_munge;
}

// The command that copies the key of one machine to another keeps the owner and mode of the file.
std::string key_advice(const Examination& machine, bool from_there) {
  auto target = client::parse_ssh_url(machine.host.url);
  if (target) target->user = "root";
  const std::string words = target ? target->ssh_arguments() : "root@" + machine.host.name;
  return from_there ? fmt::format(
                          "on this machine: `ssh {} cat /etc/munge/munge.key | sudo tee "
                          "/etc/munge/munge.key >/dev/null && sudo systemctl restart munge`",
                          words)
                    : fmt::format(
                          "`sudo cat /etc/munge/munge.key | ssh {} 'cat >/etc/munge/munge.key && "
                          "systemctl restart munge'`",
                          words);
}

void compare_munge_keys(const Machines& machines, FleetDiagnosis& view) {
  const bool needs_key = std::ranges::any_of(
      machines, [](const Examination* one) { return uses_munge(one->answer.answer); });
  if (!needs_key) return;
  constexpr std::string_view kEffect = "Slurm refuses all messages between them";
  Machines different;
  bool any_same = false;
  UnknownFacts unknown("munge_key", "the munge key");
  for (const Examination* one : machines) {
    const auto& key = one->answer.answer.login.munge_key;
    if (!key) {
      unknown.add(*one, key.error().text());
    } else if (*key == MungeKey::different) {
      different.push_back(one);
    } else {
      any_same = true;
    }
  }
  std::vector<FleetFinding> findings;
  for (const Examination* one : different) {
    findings.push_back({"munge_key",
                        {one->host.name},
                        fmt::format("{}: its munge key differs from this machine's; {}; {}",
                                    one->host.name, kEffect, key_advice(*one, false)),
                        AlertLevel::error});
  }
  if (!any_same && different.size() > 1) {  // probably this machine is the odd one
    FleetFinding finding{"munge_key", {}, "", AlertLevel::error};
    for (const Examination* one : different) finding.hosts.push_back(one->host.name);
    finding.text =
        fmt::format("this machine's munge key differs from those of {}; {}; {}",
                    fmt::join(finding.hosts, ", "), kEffect, key_advice(*different.front(), true));
    findings = {std::move(finding)};
  }
  std::ranges::move(findings, std::back_inserter(view.findings));
  std::move(unknown).write(machines, view);
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

// Returns how far the machine's clock is ahead of ours, as far as the time of the answer shows; 0
// if the difference is no more than the answer took.
std::chrono::seconds clock_offset(WallTime now, const DoctorReply& reply) {
  // The text has whole seconds at least; the machine read its clock between our two readings.
  constexpr auto kClockPrecision = std::chrono::seconds(1);
  using std::chrono::floor, std::chrono::seconds;
  if (now + kClockPrecision < reply.requested_at) return floor<seconds>(now - reply.requested_at);
  if (now > reply.replied_at) return floor<seconds>(now - reply.replied_at);
  return seconds::zero();
}

void find_clock_offsets(const Machines& machines, FleetDiagnosis& view) {
  UnknownFacts unknown("clock", "the clock");
  for (const Examination* one : machines) {
    const DoctorReply& reply = one->answer.answer;
    const auto now = from_rfc3339(reply.readiness.now.value_or(""));
    if (!now) {
      unknown.add(*one, "its daemon does not report the time");
      continue;
    }
    const auto off = clock_offset(*now, reply);
    const auto size = std::chrono::abs(off);
    if (size <= kMaxClockOffset) continue;
    const bool stops_munge = size >= kMungeLifetime && uses_munge(reply);
    view.findings.push_back(
        {"clock",
         {one->host.name},
         fmt::format("{}: its clock is {} s {} this machine's, so {}; on {}: `sudo timedatectl "
                     "set-ntp true`",
                     one->host.name, size.count(), off.count() > 0 ? "ahead of" : "behind",
                     stops_munge ? "munge, and with it Slurm, refuses its messages"
                                 : "times it reports are off",
                     one->host.name),
         stops_munge                  ? AlertLevel::error
         : size < kClockOffsetWarning ? AlertLevel::info
                                      : AlertLevel::warning});
  }
  std::move(unknown).write(machines, view);
}

void find_unready(const Machines& machines, FleetDiagnosis& view) {
  for (const Examination* one : machines) {
    const protocol::Readiness& ready = one->answer.answer.readiness;
    const std::string& host = one->host.name;
    if (!ready.ready) {
      view.findings.push_back(
          {"not_ready", {host}, fmt::format("{}: {}", host, ready.reason), AlertLevel::error});
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
            gpu.uuid, gpu.host, fmt::join(gpu.also_on, ", ")),
        AlertLevel::error};
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
  FleetDiagnosis view{static_cast<const FleetAnswer&>(gpus), false, {}, {}};
  Machines machines;  // each once
  for (std::size_t i = 0; i < all.size(); ++i) {
    const FleetHost& host = view.hosts[i];
    if (host.problem) {
      view.findings.push_back(
          {"unreachable", {host.host}, host.host + ": " + *host.problem, AlertLevel::error});
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
  compare_versions(machines, view);
  compare_drivers(machines, view);
  compare_slurm_versions(machines, view);
  compare_uids(machines, view);
  compare_configurations(machines, view);
  find_clock_offsets(machines, view);
  compare_munge_keys(machines, view);
  find_duplicate_gpus(gpus, view);
  view.healthy = view.findings.empty();
  return view;
}

}  // namespace gpuyard::fleet
