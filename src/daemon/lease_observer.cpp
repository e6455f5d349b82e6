#include "daemon/lease_observer.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "core/processes/identify.h"
#include "core/processes/mark_client.h"
#include "daemon/lease_adapter.h"

namespace gpuyard::daemon {
namespace {

Result<lease::Identity> identity_of(std::uint32_t pid,
                                    const std::shared_ptr<processes::MarkClient>& marks) {
  processes::ViewHidden view_hidden;
  if (marks) {
    view_hidden = [&](std::uint32_t one) { return marks->view(processes::PidSpace::ours, one); };
  }
  auto who = processes::identify(pid, view_hidden);
  if (!who) return who.error();
  return lease::Identity{{who->process.pid, who->process.started},
                         who->uid,
                         who->parent,
                         std::move(who->command),
                         std::make_shared<const UniqueFd>(std::move(who->handle))};
}

// Sends the signal. Returns the processes that did not get it; a process that is gone is none.
std::vector<lease::Unsignalled> send(const std::vector<lease::Process>& to, int number,
                                     const std::function<bool(std::uint32_t uid)>& may_be_of) {
  std::vector<lease::Unsignalled> left;
  for (const lease::Process& one : to) {
    const auto sent = processes::send_signal({one.pid, one.started}, number, may_be_of);
    if (!sent && sent.error().code != Errc::not_found) left.push_back({one, sent.error()});
  }
  return left;
}

// A daemon without CAP_KILL leaves signals to its clients, so this is no warning.
void note(const std::vector<lease::Unsignalled>& left) {
  if (left.empty()) return;
  log::info("{} of a lease's processes were not signalled by the daemon; the first: {}",
            left.size(), left.front().why.text());
}

Error too_slow() {
  return {Errc::unavailable, "the process could not be identified in time; try again"};
}

}  // namespace

struct LeaseObserver::Look {
  std::vector<lease::Suspect> suspects;
  std::vector<DeviceId> gpus;
  TimePoint asked;
  std::function<void(lease::Sight)> seen;
  Subscription deadline = {};
};

struct LeaseObserver::Question {
  std::function<void(Result<lease::Identity>)> found;
  Subscription deadline = {};
};

struct LeaseObserver::Sending {
  std::function<void(std::vector<lease::Unsignalled>)> done;
  Subscription deadline = {};
};

LeaseObserver::LeaseObserver(Loop& loop, Worker& worker, telemetry::Telemetry& telemetry,
                             Places places)
    : loop_(loop),
      worker_(worker),
      telemetry_(telemetry),
      places_(std::move(places)),
      reader_(std::make_shared<processes::EvidenceReader>(
          places_.proc_root, places_.own_proc_root, places_.person,
          processes::GroupMakers::of_this_machine(), places_.marks)) {}

LeaseObserver::~LeaseObserver() = default;

bool LeaseObserver::stuck() const {
  return std::ranges::any_of(
      asked_, [&](const auto& one) { return loop_.now() - one.second >= kDeadline; });
}

template <class Ask, class Hear>
bool LeaseObserver::ask(Ask question, Hear heard) {
  if (asked_.size() >= kMostAsked || stuck()) return false;
  const std::uint64_t id = next_++;
  const bool posted =
      ask_worker(worker_, std::move(question), [this, id, heard = std::move(heard)](auto&& answer) {
        asked_.erase(id);
        heard(std::forward<decltype(answer)>(answer));
      });
  if (posted) asked_.emplace(id, loop_.now());
  return posted;
}

void LeaseObserver::identify(std::uint32_t pid,
                             std::function<void(Result<lease::Identity>)> found) {
  const std::uint64_t id = next_++;
  const auto finish = [this, id](Result<lease::Identity> who) {
    auto question = questions_.extract(id);
    if (!question.empty()) question.mapped().found(std::move(who));
  };
  const bool asked = ask([pid, marks = places_.marks] { return identity_of(pid, marks); }, finish);
  questions_.emplace(
      id, Question{std::move(found), loop_.call_after(asked ? kDeadline : Duration::zero(),
                                                      [finish] { finish(too_slow()); })});
}

processes::Numbers LeaseObserver::numbers_in(const Snapshot& snapshot) const {
  using enum processes::Numbers;
  if (places_.recorded) return of_a_recording;
  return snapshot.driver.info.simulated ? of_simulation : of_a_driver;
}

void LeaseObserver::look(std::vector<lease::Suspect> suspects, std::vector<DeviceId> gpus,
                         bool fresh, std::function<void(lease::Sight)> seen) {
  const std::uint64_t id = next_++;
  Look& look =
      looks_.emplace(id, Look{std::move(suspects), std::move(gpus), loop_.now(), std::move(seen)})
          .first->second;
  look.deadline = loop_.call_after(kDeadline, [this, id] { answer_blindly(id); });
  if (!fresh || look.gpus.empty()) return judge(id, telemetry_.latest());
  telemetry_.fresh({Probe::processes, Probe::memory},
                   [this, id](const telemetry::SnapshotPtr& lists) { judge(id, lists); });
}

void LeaseObserver::judge(std::uint64_t id, const telemetry::SnapshotPtr& snapshot) {
  const auto found = looks_.find(id);
  if (found == looks_.end()) return;
  Look& look = found->second;
  const bool asked = ask(
      [reader = reader_, suspects = look.suspects,
       lists = lists_in(*snapshot, look.gpus, look.asked), numbers = numbers_in(*snapshot)] {
        const auto lessees = lessees_of(suspects);
        const auto evidence = reader->read(lessees, lists.listed, numbers, BootClock::now());
        return sight_of(lists, suspects, lessees, evidence);
      },
      [this, id](lease::Sight sight) { answer(id, std::move(sight)); });
  if (!asked) {
    look.deadline = loop_.call_after(Duration::zero(), [this, id] { answer_blindly(id); });
  }
}

void LeaseObserver::answer_blindly(std::uint64_t id) {
  const auto look = looks_.find(id);
  if (look == looks_.end()) return;
  answer(id, blind_sight(look->second.suspects, look->second.gpus, look->second.asked));
}

void LeaseObserver::answer(std::uint64_t id, lease::Sight sight) {
  const auto look = looks_.extract(id);
  if (!look.empty()) look.mapped().seen(std::move(sight));
}

// A signal cannot wait for a worker that one of the lease's processes may hold up.
void LeaseObserver::signal(std::vector<lease::Process> to, int number,
                           std::optional<std::uint32_t> only_of,
                           std::function<void(std::vector<lease::Unsignalled>)> done) {
  std::function<bool(std::uint32_t uid)> may_be_of;
  if (only_of) {
    may_be_of = [whose = *only_of, person = places_.person](std::uint32_t uid) {
      return uid == whose || (person && person(uid) == person(whose));
    };
  }
  const std::uint64_t id = next_++;
  const auto finish = [this, id](std::vector<lease::Unsignalled> left) {
    const auto sending = sendings_.extract(id);
    if (sending.empty()) return;
    note(left);
    sending.mapped().done(std::move(left));
  };
  const auto now = [to, number, may_be_of] { return send(to, number, may_be_of); };
  const bool asked = ask(now, finish);
  std::vector<lease::Unsignalled> left;
  if (!asked) {
    left = now();
  } else {
    for (const lease::Process& one : to) left.push_back({one, too_slow()});
  }
  sendings_.emplace(id,
                    Sending{std::move(done), loop_.call_after(asked ? kDeadline : Duration::zero(),
                                                              [finish, left] { finish(left); })});
}

namespace {

using lease::Seen;
using processes::Membership;

// Only computing needs a lease: a display server draws on whatever GPU there is.
std::optional<std::vector<GpuProcess>> computing_on(const DeviceState& device) {
  const auto& list = device.sample.processes();
  const auto* processes = list ? list->processes() : nullptr;
  if (device.condition != DeviceCondition::responsive || processes == nullptr) return std::nullopt;
  std::vector<GpuProcess> computing;
  std::ranges::copy_if(*processes, std::back_inserter(computing), [](const GpuProcess& process) {
    return process.kind != ProcessKind::graphics;
  });
  return computing;
}

class Judge {
 public:
  Judge(const std::vector<lease::Suspect>& suspects, const std::vector<processes::Lessee>& lessees,
        const processes::Evidence& evidence)
      : suspects_(suspects), evidence_(evidence), membership_(lessees, evidence) {}

  Seen seen(const GpuProcess& process, const DeviceId& gpu) const {
    Seen seen{.pid = process.pid, .memory_bytes = process.memory_bytes};
    const auto user = evidence_.gpu_users.find(process.pid);
    if (user == evidence_.gpu_users.end() || !user->second) return seen;
    seen.started = user->second->process.started;
    seen.uid = user->second->traces.uid;
    seen.command = user->second->command;
    judge(user->second, gpu, seen);
    return seen;
  }

  std::vector<lease::Process> alive(std::size_t suspect) const {
    return plain(membership_.alive(suspect));
  }
  std::vector<lease::Process> alive_by_container(std::size_t suspect) const {
    return plain(membership_.alive_by_container(suspect));
  }

 private:
  static std::vector<lease::Process> plain(const std::vector<processes::ProcessKey>& processes) {
    std::vector<lease::Process> all;
    for (const auto& [pid, started] : processes) all.push_back({pid, started});
    return all;
  }
  void judge(const Result<processes::GpuUser>& user, const DeviceId& gpu, Seen& seen) const {
    seen.verdict = Seen::Verdict::outsider;
    for (std::size_t i = 0; i < suspects_.size(); ++i) {
      if (std::ranges::find(suspects_[i].gpus, gpu) == suspects_[i].gpus.end()) continue;
      const auto has = membership_.has(i, user);
      if (!has) seen.verdict = Seen::Verdict::unknown;
      if (!has || !*has) continue;
      seen.verdict = Seen::Verdict::member;
      seen.lease = suspects_[i].lease;
      return;
    }
  }

  const std::vector<lease::Suspect>& suspects_;
  const processes::Evidence& evidence_;
  const Membership membership_;
};

}  // namespace

GpuLists lists_in(const Snapshot& snapshot, const std::vector<DeviceId>& gpus, TimePoint asked) {
  GpuLists lists{.taken = asked};
  for (const DeviceId& gpu : gpus) {
    auto& computing = lists.computing[gpu];
    auto& used = lists.used_bytes[gpu];
    const auto device = std::ranges::find_if(
        snapshot.devices, [&](const DeviceState& one) { return one.info.id == gpu; });
    // While no driver is loaded, the newest lists are outdated.
    if (device == snapshot.devices.end() || !snapshot.driver.initialised) continue;
    const bool answers = device->condition == DeviceCondition::responsive;
    const std::int64_t* const bytes = device->sample.number(Metric::memory_used);
    if (answers && bytes != nullptr) {
      used = std::max<std::int64_t>(*bytes - drawing_bytes(*device), 0);
    }
    computing = computing_on(*device);
    if (!computing) continue;
    const TimePoint taken = device->sample.processes()->taken;
    lists.taken = std::min(lists.taken, taken);
    for (const GpuProcess& process : *computing) {
      TimePoint& newest = lists.listed.try_emplace(process.pid, taken).first->second;
      newest = std::max(newest, taken);
    }
  }
  return lists;
}

std::vector<processes::Lessee> lessees_of(const std::vector<lease::Suspect>& suspects) {
  std::vector<processes::Lessee> lessees;
  for (const lease::Suspect& suspect : suspects) {
    processes::Lessee& lessee = lessees.emplace_back();
    lessee.lease = suspect.lease;
    lessee.uid = suspect.uid;
    lessee.whole_user = suspect.whole_user;
    for (const auto& [pid, started] : suspect.processes) lessee.known.push_back({pid, started});
  }
  return lessees;
}

lease::Sight sight_of(const GpuLists& lists, const std::vector<lease::Suspect>& suspects,
                      const std::vector<processes::Lessee>& lessees,
                      const processes::Evidence& evidence) {
  const Judge judge(suspects, lessees, evidence);
  lease::Sight sight{.taken = lists.taken, .used_bytes = lists.used_bytes};
  for (const auto& [gpu, computing] : lists.computing) {
    auto& seen = sight.on_gpus[gpu];
    if (!computing) continue;
    seen.emplace();
    for (const GpuProcess& process : *computing) seen->push_back(judge.seen(process, gpu));
  }
  for (std::size_t i = 0; i < suspects.size(); ++i) {
    sight.alive[suspects[i].lease] = judge.alive(i);
    sight.by_container[suspects[i].lease] = judge.alive_by_container(i);
  }
  return sight;
}

lease::Sight blind_sight(const std::vector<lease::Suspect>& suspects,
                         const std::vector<DeviceId>& gpus, TimePoint asked) {
  lease::Sight sight{.taken = asked};
  for (const DeviceId& gpu : gpus) {
    sight.on_gpus[gpu] = std::nullopt;
    sight.used_bytes[gpu] = std::nullopt;
  }
  for (const lease::Suspect& suspect : suspects) sight.alive[suspect.lease] = suspect.processes;
  return sight;
}

}  // namespace gpuyard::daemon
