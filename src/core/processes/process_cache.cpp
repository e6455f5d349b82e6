#include "core/processes/process_cache.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "core/processes/identify.h"
#include "core/processes/user_names.h"

namespace gpuyard::processes {
namespace {

ProcessLookup look_up_process(const ProcessReader& reader, const ProcessQuery& query) {
  if (query.known) {
    const auto summary = reader.read_stat_summary(query.pid);
    if (!summary) return {query.pid, Result<ProcessMetadata>(summary.error())};
    if (summary->matches(*query.known)) return {query.pid, std::nullopt, summary->use};
  }
  return {query.pid, reader.read(query.pid)};
}

}  // namespace

void ProcessCache::update_lists(const ListTimes& newest) {
  const auto gone = [&](const auto& entry) { return !newest.contains(entry.first); };
  if (std::erase_if(entries_, gone) > 0) ++revision_;
  for (const auto& [pid, when] : newest) {
    const auto known = entries_.find(pid);
    if (known != entries_.end()) {
      known->second.listed_at = when;
    } else if (entries_.size() < kMaxProcesses) {
      entries_.try_emplace(pid, Entry{when, when});
    }
  }
}

std::vector<ProcessQuery> ProcessCache::queries() const {
  std::vector<ProcessQuery> queries;
  for (const auto& [pid, entry] : entries_) {
    ProcessQuery query{pid, {}};
    const bool trusted = entry.facts && entry.listed_at - entry.facts_listed_at < kMaxFactAge;
    const auto busy = [](const ProcessMetadata& facts) {
      return !facts.arguments && facts.arguments.error().code == Errc::busy;
    };
    if (trusted && !busy(*entry.facts)) {
      query.known = StatSummary{entry.facts->started, entry.facts->command};
    }
    queries.push_back(std::move(query));
  }
  return queries;
}

void ProcessCache::update_facts(std::vector<ProcessLookup> lookups) {
  for (ProcessLookup& lookup : lookups) {
    const auto entry = entries_.find(lookup.pid);
    if (entry == entries_.end()) continue;
    if (lookup.facts) {
      accept_facts(entry->second, *std::move(lookup.facts));
    } else if (lookup.use && entry->second.facts) {
      update_usage(*entry->second.facts, *lookup.use);
    } else {
      continue;
    }
    ++revision_;
  }
}

// A process that has ended is still the listed one, until a newer list comes. A process that
// started after the list was made never is.
void ProcessCache::accept_facts(Entry& entry, Result<ProcessMetadata> facts) {
  if (facts && facts->started > entry.listed_at) {
    facts = Error{Errc::conflict, "its process has exited, and its PID was reused"};
  }
  if (!facts && entry.facts) return;
  if (facts && entry.facts && facts->started == entry.facts->started) {
    facts->started_at = entry.facts->started_at;
    if (facts->uid == entry.facts->uid) facts->user = entry.facts->user;
    const HostUse now = std::exchange(facts->use, entry.facts->use);
    facts->cpu_percent = entry.facts->cpu_percent;
    update_usage(*facts, now);
  }
  entry.facts = std::move(facts);
  entry.facts_listed_at = entry.listed_at;
}

// Two readings within this time say too little: the kernel counts in ticks of 10 ms.
void ProcessCache::update_usage(ProcessMetadata& facts, const HostUse& now) {
  constexpr Duration kMinUsageInterval = std::chrono::milliseconds(500);
  const Duration passed = now.at - facts.use.at;
  if (passed < kMinUsageInterval) return;
  const auto used = std::chrono::duration<double>(now.cpu_time - facts.use.cpu_time).count();
  const double percent = used / std::chrono::duration<double>(passed).count() * 100;
  facts.cpu_percent = percent >= 0 ? std::optional(percent) : std::nullopt;
  facts.use = now;
}

std::vector<std::uint32_t> ProcessCache::unnamed_users() const {
  std::set<std::uint32_t> users;
  for (const auto& [pid, entry] : entries_) {
    if (entry.facts && !entry.facts->user) users.insert(entry.facts->uid);
  }
  return {users.begin(), users.end()};
}

void ProcessCache::set_user_name(std::uint32_t uid, const Result<std::string>& name) {
  for (auto& [pid, entry] : entries_) {
    if (!entry.facts || entry.facts->uid != uid) continue;
    entry.facts->user = name;
    ++revision_;
  }
}

Result<const ProcessMetadata*> ProcessCache::find(std::uint32_t pid) const {
  const auto entry = entries_.find(pid);
  if (entry != entries_.end()) {
    if (!entry->second.facts) return entry->second.facts.error();
    return &*entry->second.facts;
  }
  if (entries_.size() < kMaxProcesses) return Error{Errc::unavailable, "not looked up yet"};
  return Error{Errc::busy,
               fmt::format("not looked up: at most {} listed processes are looked up at a time",
                           kMaxProcesses)};
}

ProcessCache::ListTimes list_times_of(const Snapshot& snapshot) {
  ProcessCache::ListTimes listed;
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

PidOrigin pid_origin_of(const Snapshot& snapshot, bool recorded) {
  if (recorded) return PidOrigin::recording;
  return snapshot.driver.info.simulated ? PidOrigin::simulation : PidOrigin::driver;
}

Result<void> check_pid_origin(PidOrigin pid_origin, const std::string& proc_root) {
  if (pid_origin == PidOrigin::simulation) return {};
  if (pid_origin == PidOrigin::driver) return check_pid_namespace(proc_root);
  return Error{Errc::unsupported, "not part of the recording"};
}

std::vector<ProcessLookup> look_up_processes(const ProcessReader& reader,
                                             const std::vector<ProcessQuery>& queries,
                                             PidOrigin pid_origin) {
  const Result<void> same_numbers = check_pid_origin(pid_origin, reader.proc_root());
  std::vector<ProcessLookup> lookups;
  lookups.reserve(queries.size());
  for (const ProcessQuery& query : queries) {
    lookups.push_back(
        same_numbers ? look_up_process(reader, query)
                     : ProcessLookup{query.pid, Result<ProcessMetadata>(same_numbers.error())});
  }
  return lookups;
}

void look_up_all(ProcessCache& cache, const ProcessReader& reader,
                 const ProcessCache::ListTimes& listed, PidOrigin pid_origin) {
  cache.update_lists(listed);
  cache.update_facts(look_up_processes(reader, cache.queries(), pid_origin));
  for (const std::uint32_t uid : cache.unnamed_users()) cache.set_user_name(uid, look_up_user(uid));
}

}  // namespace gpuyard::processes
