#include "core/processes/process_tracker.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "core/processes/process_reader.h"
#include "core/processes/user_names.h"

namespace gpuyard::processes {

struct ProcessTracker::WorkerState {
  ProcessReader reader;
  UserNames names;  // used only on the worker's thread
};

ProcessTracker::ProcessTracker(Worker& worker, std::string proc_root, bool recorded)
    : worker_(worker),
      recorded_(recorded),
      worker_state_(new WorkerState{ProcessReader(std::move(proc_root)), UserNames()}) {}

ProcessTracker::~ProcessTracker() = default;

void ProcessTracker::on_snapshot(const Snapshot& snapshot) {
  auto listed = list_times_of(snapshot);
  pid_origin_ = pid_origin_of(snapshot, recorded_);
  if (listed != list_times_) {  // lists are made every few seconds, snapshots every second
    list_times_ = std::move(listed);
    cache_.update_lists(list_times_);
    needs_refresh_ = true;
  }
  if (needs_refresh_ && !facts_requested_) request_facts();
}

void ProcessTracker::request_facts() {
  facts_requested_ = run_on_worker(
      worker_,
      [state = worker_state_, queries = cache_.queries(), pid_origin = pid_origin_] {
        return look_up_processes(state->reader, queries, pid_origin);
      },
      [this](std::vector<ProcessLookup> lookups) {
        facts_requested_ = false;
        cache_.update_facts(std::move(lookups));
        request_names();
      });
  if (facts_requested_) needs_refresh_ = false;
}

void ProcessTracker::request_names() {
  auto users = cache_.unnamed_users();
  if (users.empty() || names_requested_) return;
  using Names = std::vector<std::pair<std::uint32_t, Result<std::string>>>;
  names_requested_ = run_on_worker(
      worker_,
      [state = worker_state_, users = std::move(users)] {
        Names names;
        for (const std::uint32_t uid : users) {
          names.emplace_back(uid, state->names.name_of(uid, BootClock::now()));
        }
        return names;
      },
      [this](const Names& names) {
        names_requested_ = false;
        for (const auto& [uid, name] : names) cache_.set_user_name(uid, name);
      });
}

}  // namespace gpuyard::processes
