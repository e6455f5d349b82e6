#include "cli/kube/pod_plan.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/read/check.h"
#include "faces/protocol/bounds.h"

namespace gpuyard::cli::kube {
namespace {

const SliceDevice* find_claimed(const kubelet::ClaimedDevice& claimed,
                                const std::vector<SliceDevice>& devices) {
  const auto found = std::ranges::find_if(devices, [&](const SliceDevice& device) {
    return device.driver == claimed.driver && device.pool == claimed.pool &&
           device.device == claimed.device;
  });
  return found != devices.end() ? &*found : nullptr;
}

ListedPod listed_pod(const kubelet::Pod& pod, const std::vector<SliceDevice>& devices) {
  ListedPod listed;
  std::vector<std::string> containers;
  const auto add = [&](const std::string& uuid, const std::string& container) {
    listed.uuids.insert(uuid);
    if (std::ranges::find(containers, container) == containers.end()) {
      containers.push_back(container);
    }
  };
  for (const kubelet::AssignedDevice& device : pod.devices) {
    if (!device.shared) add(device.id, device.container);
  }
  for (const kubelet::ClaimedDevice& claimed : pod.claims) {
    if (claimed.shared) continue;
    const SliceDevice* const device = find_claimed(claimed, devices);
    if (device == nullptr) {
      listed.is_complete = false;
    } else if (!device->uuid.empty() && !device->is_part) {
      add(device->uuid, claimed.container);
    }
  }
  listed.note = shortened(fmt::format("{}", fmt::join(containers, ", ")), protocol::kMaxNoteBytes);
  return listed;
}

const std::set<std::string>& leased_gpus(const LeasedPods& leased, std::string_view pod) {
  static const std::set<std::string> kNone;
  const auto found = leased.find(pod);
  return found != leased.end() ? found->second : kNone;
}

// A pod that was deleted may be listed beside the one that has its name now.
void add(ListedPod& sum, ListedPod&& pod) {
  sum.uuids.merge(pod.uuids);
  sum.is_complete = sum.is_complete && pod.is_complete;
  if (sum.note.empty()) sum.note = std::move(pod.note);
}

std::optional<Lack> lack_of(const ListedPods& listed, const std::string& pod,
                            const std::set<std::string>& leased) {
  const auto found = listed.find(pod);
  if (found == listed.end()) return Lack::pod;
  const ListedPod& now = found->second;
  if (!now.is_complete || now.uuids == leased) return std::nullopt;
  if (now.uuids.empty()) return Lack::all_gpus;
  if (std::ranges::includes(leased, now.uuids)) return Lack::some_gpus;
  return std::nullopt;
}

// One list may lack a pod, or a device of it, that the next one has again.
void update_absences(const ListedPods& listed, const LeasedPods& leased, Absences& absences,
                     TimePoint now) {
  std::erase_if(absences, [&](const auto& one) { return !leased.contains(one.first); });
  for (const auto& [pod, uuids] : leased) {
    const auto lack = lack_of(listed, pod, uuids);
    if (!lack) {
      absences.erase(pod);
    } else if (const auto before = absences.find(pod);
               before == absences.end() || before->second.lack != *lack) {
      absences.insert_or_assign(pod, Absence{*lack, now});
    }
  }
}

bool is_confirmed(const Absence& absence, TimePoint now) {
  const Duration hold = absence.lack == Lack::all_gpus ? kMinAbsenceOfGpus : kMinAbsence;
  return now - absence.since >= hold;
}

using GpuHolders = std::map<std::string, int>;  // the number of pods that have a GPU, by its UUID

// The GPUs that the pod's lease should have. If several pods have a GPU at once, as by a claim that
// they share, its lease stays with the pod that was reported first: the daemon would end the lease
// of one for that of the other, in turns.
std::set<std::string> leasable_gpus(const ListedPod& pod, const GpuHolders& holders,
                                    const std::set<std::string>& leased) {
  std::set<std::string> uuids;
  for (const std::string& uuid : pod.uuids) {
    if (holders.at(uuid) == 1 || leased.contains(uuid)) uuids.insert(uuid);
  }
  return uuids;
}

}  // namespace

ListedPods listed_pods(const std::vector<kubelet::Pod>& pods,
                       const std::vector<SliceDevice>& devices) {
  ListedPods listed;
  for (const kubelet::Pod& pod : pods) {
    add(listed[fmt::format("{}/{}", pod.namespace_name, pod.name)], listed_pod(pod, devices));
  }
  return listed;
}

bool is_trusted(const ListedPods& listed, std::string_view own_pod) {
  return own_pod.empty() ? !listed.empty() : listed.contains(own_pod);
}

const std::string& pod_of(const PodReport& report) {
  return std::visit([](const auto& one) -> const std::string& { return one.pod; }, report);
}

std::vector<PodReport> plan_pods(const ListedPods* listed, const LeasedPods& leased,
                                 std::string_view own_pod, Absences& absences, TimePoint now) {
  if (listed == nullptr || !is_trusted(*listed, own_pod)) {
    absences.clear();
    return {};
  }
  update_absences(*listed, leased, absences, now);
  std::vector<PodReport> reports;
  for (const auto& [pod, absence] : absences) {
    if (absence.lack != Lack::some_gpus && is_confirmed(absence, now))
      reports.emplace_back(EndPod{pod});
  }
  GpuHolders holders;
  for (const auto& [name, pod] : *listed) {
    for (const std::string& uuid : pod.uuids) ++holders[uuid];
  }
  for (const auto& [name, pod] : *listed) {
    const std::set<std::string>& has = leased_gpus(leased, name);
    std::set<std::string> uuids = leasable_gpus(pod, holders, has);
    if (uuids.empty() || uuids == has) continue;
    const auto absence = absences.find(name);
    if (absence != absences.end() && !is_confirmed(absence->second, now)) continue;
    // The GPUs that are missing may be those of a slice that has not been read.
    if (!pod.is_complete && std::ranges::includes(has, uuids)) continue;
    reports.emplace_back(BeginPod{name, std::move(uuids), pod.note});
  }
  return reports;
}

void apply_report(LeasedPods& leased, const PodReport& report) {
  leased.erase(pod_of(report));
  const auto* const begun = std::get_if<BeginPod>(&report);
  if (begun == nullptr) return;
  std::erase_if(leased, [&](const auto& other) {
    return std::ranges::any_of(
        other.second, [&](const std::string& uuid) { return begun->uuids.contains(uuid); });
  });
  leased.emplace(begun->pod, begun->uuids);
}

}  // namespace gpuyard::cli::kube
