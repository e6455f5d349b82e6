#include "processes/owner_watch.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "processes/look_up.h"
#include "processes/user_names.h"

namespace gpuyard::processes {

Owners::Listed listed_in(const Snapshot& snapshot) {
  Owners::Listed listed;
  for (const DeviceState& device : snapshot.devices) {
    const auto& list = device.sample.processes();
    if (!list || list->processes() == nullptr) continue;
    for (const GpuProcess& process : *list->processes()) {
      TimePoint& when = listed.try_emplace(process.pid, list->taken).first->second;
      when = std::max(when, list->taken);
    }
  }
  return listed;
}

struct OwnerWatch::Desk {
  ProcessReader reader;
  UserNames names;  // touched on the worker's thread alone
};

OwnerWatch::OwnerWatch(Worker& worker, std::string proc_root, Listed when)
    : worker_(worker),
      when_(when),
      desk_(new Desk{ProcessReader(std::move(proc_root)), UserNames()}) {}

OwnerWatch::~OwnerWatch() = default;

void OwnerWatch::on_snapshot(const Snapshot& snapshot) {
  auto listed = listed_in(snapshot);
  simulated_ = snapshot.driver.info.simulated;
  if (listed != listed_) {  // lists are made every few seconds, snapshots every second
    listed_ = std::move(listed);
    owners_.listed(listed_);
    wanted_ = true;
  }
  if (wanted_ && !facts_asked_) ask_facts();
}

void OwnerWatch::ask_facts() {
  const Numbers numbers = when_ == Listed::in_a_recording ? Numbers::of_a_recording
                          : simulated_                    ? Numbers::of_simulation
                                                          : Numbers::of_a_driver;
  facts_asked_ = ask_worker(
      worker_,
      [desk = desk_, questions = owners_.questions(), numbers] {
        return look_up(desk->reader, questions, numbers);
      },
      [this](std::vector<Finding> findings) {
        facts_asked_ = false;
        owners_.found(std::move(findings));
        ask_names();
      });
  if (facts_asked_) wanted_ = false;
}

void OwnerWatch::ask_names() {
  auto users = owners_.nameless_users();
  if (users.empty() || names_asked_) return;
  using Names = std::vector<std::pair<std::uint32_t, Result<std::string>>>;
  names_asked_ = ask_worker(
      worker_,
      [desk = desk_, users = std::move(users)] {
        Names names;
        for (const std::uint32_t uid : users) {
          names.emplace_back(uid, desk->names.of(uid, BootClock::now()));
        }
        return names;
      },
      [this](const Names& names) {
        names_asked_ = false;
        for (const auto& [uid, name] : names) owners_.named(uid, name);
      });
}

}  // namespace gpuyard::processes
