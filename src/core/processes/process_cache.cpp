#include "core/processes/process_cache.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/processes/identify.h"
#include "core/processes/users.h"

namespace gpuyard::processes {

void Owners::listed(const Listed& newest) {
  const auto gone = [&](const auto& entry) { return !newest.contains(entry.first); };
  if (std::erase_if(entries_, gone) > 0) ++revision_;
  for (const auto& [pid, when] : newest) {
    const auto known = entries_.find(pid);
    if (known != entries_.end()) {
      known->second.listed = when;
    } else if (entries_.size() < kMost) {
      entries_.try_emplace(pid, Entry{when, when});
    }
  }
}

std::vector<Question> Owners::questions() const {
  std::vector<Question> questions;
  for (const auto& [pid, entry] : entries_) {
    Question question{pid, {}};
    const bool trusted = entry.facts && entry.listed - entry.looked_at < kTrustedFor;
    const auto busy = [](const ProcessMetadata& facts) {
      return !facts.arguments && facts.arguments.error().code == Errc::busy;
    };
    if (trusted && !busy(*entry.facts)) {
      question.known = Glance{entry.facts->started, entry.facts->command};
    }
    questions.push_back(std::move(question));
  }
  return questions;
}

void Owners::found(std::vector<Finding> findings) {
  for (Finding& finding : findings) {
    const auto entry = entries_.find(finding.pid);
    if (entry == entries_.end()) continue;
    if (finding.facts) {
      take(entry->second, *std::move(finding.facts));
    } else if (finding.use && entry->second.facts) {
      note_use(*entry->second.facts, *finding.use);
    } else {
      continue;
    }
    ++revision_;
  }
}

// A process that has ended is still the listed one, until a newer list comes. A process that
// started after the list was made never is.
void Owners::take(Entry& entry, Result<ProcessMetadata> facts) {
  if (facts && facts->started > entry.listed) {
    facts = Error{Errc::conflict, "its process has exited, and its PID was reused"};
  }
  if (!facts && entry.facts) return;
  if (facts && entry.facts && facts->started == entry.facts->started) {
    facts->started_at = entry.facts->started_at;
    if (facts->uid == entry.facts->uid) facts->user = entry.facts->user;
    const HostUse now = std::exchange(facts->use, entry.facts->use);
    facts->cpu_percent = entry.facts->cpu_percent;
    note_use(*facts, now);
  }
  entry.facts = std::move(facts);
  entry.looked_at = entry.listed;
}

// Two looks within this time tell too little: the kernel counts in ticks of 10 ms.
void Owners::note_use(ProcessMetadata& facts, const HostUse& now) {
  constexpr Duration kShortest = std::chrono::milliseconds(500);
  const Duration passed = now.at - facts.use.at;
  if (passed < kShortest) return;
  const auto used = std::chrono::duration<double>(now.cpu_time - facts.use.cpu_time).count();
  const double percent = used / std::chrono::duration<double>(passed).count() * 100;
  facts.cpu_percent = percent >= 0 ? std::optional(percent) : std::nullopt;
  facts.use = now;
}

std::vector<std::uint32_t> Owners::nameless_users() const {
  std::set<std::uint32_t> users;
  for (const auto& [pid, entry] : entries_) {
    if (entry.facts && !entry.facts->user) users.insert(entry.facts->uid);
  }
  return {users.begin(), users.end()};
}

void Owners::named(std::uint32_t uid, const Result<std::string>& name) {
  for (auto& [pid, entry] : entries_) {
    if (!entry.facts || entry.facts->uid != uid) continue;
    entry.facts->user = name;
    ++revision_;
  }
}

Result<const ProcessMetadata*> Owners::find(std::uint32_t pid) const {
  const auto entry = entries_.find(pid);
  if (entry != entries_.end()) {
    if (!entry->second.facts) return entry->second.facts.error();
    return &*entry->second.facts;
  }
  if (entries_.size() < kMost) return Error{Errc::unavailable, "not looked up yet"};
  return Error{
      Errc::busy,
      fmt::format("not looked up: at most {} listed processes are looked up at a time", kMost)};
}

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
  UserNames names;  // used only on the worker's thread
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

namespace {

Finding answer(const ProcessReader& reader, const Question& question) {
  if (question.known) {
    const auto seen = reader.glance(question.pid);
    if (!seen) return {question.pid, Result<ProcessMetadata>(seen.error())};
    if (seen->same_as(*question.known)) return {question.pid, std::nullopt, seen->use};
  }
  return {question.pid, reader.read(question.pid)};
}

}  // namespace

Result<void> check_numbers(Numbers numbers, const std::string& proc_root) {
  if (numbers == Numbers::of_simulation) return {};
  if (numbers == Numbers::of_a_driver) return check_pid_namespace(proc_root);
  return Error{Errc::unsupported, "not part of the recording"};
}

std::vector<Finding> look_up(const ProcessReader& reader, const std::vector<Question>& questions,
                             Numbers numbers) {
  const Result<void> same_numbers = check_numbers(numbers, reader.proc_root());
  std::vector<Finding> findings;
  findings.reserve(questions.size());
  for (const Question& question : questions) {
    findings.push_back(same_numbers
                           ? answer(reader, question)
                           : Finding{question.pid, Result<ProcessMetadata>(same_numbers.error())});
  }
  return findings;
}

std::unique_ptr<ProcessDirectory> look_up_all(const Owners::Listed& listed, Numbers numbers) {
  auto owners = std::make_unique<Owners>();
  owners->listed(listed);
  owners->found(look_up(ProcessReader(), owners->questions(), numbers));
  for (const std::uint32_t uid : owners->nameless_users()) owners->named(uid, look_up_user(uid));
  return owners;
}

}  // namespace gpuyard::processes
