#include "daemon/lease_observer.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "daemon/lease_sight.h"
#include "processes/identify.h"

namespace gpuyard::daemon {
namespace {

Result<lease::Identity> identity_of(std::uint32_t pid) {
  auto who = processes::identify(pid);
  if (!who) return who.error();
  return lease::Identity{{who->process.pid, who->process.started},
                         who->uid,
                         who->parent,
                         std::move(who->command),
                         std::make_shared<const UniqueFd>(std::move(who->handle))};
}

// Why it did not reach those that are there; to one that is gone there is nothing to say.
std::vector<std::string> send(const std::vector<lease::Process>& to, int number,
                              std::optional<std::uint32_t> only_of) {
  std::vector<std::string> failures;
  for (const auto& [pid, started] : to) {
    const auto sent = processes::send_signal({pid, started}, number, only_of);
    if (!sent && sent.error().code != Errc::not_found) failures.push_back(sent.error().message);
  }
  return failures;
}

void tell(const std::vector<std::string>& failures) {
  if (failures.empty()) return;
  log::warning("{} of a lease's processes could not be signalled; the first: {}", failures.size(),
               failures.front());
}

Error too_slow() {
  return {Errc::unavailable, "who the process is could not be found out in time; try again"};
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

LeaseObserver::LeaseObserver(Loop& loop, Worker& worker, telemetry::Telemetry& telemetry,
                             Places places)
    : loop_(loop),
      worker_(worker),
      telemetry_(telemetry),
      places_(std::move(places)),
      reader_(
          std::make_shared<processes::EvidenceReader>(places_.proc_root, places_.own_proc_root)) {}

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
  const bool asked = ask([pid] { return identity_of(pid); }, finish);
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

// What ends a lease's processes cannot wait for a worker that one of them may hold up.
void LeaseObserver::signal(std::vector<lease::Process> to, int number,
                           std::optional<std::uint32_t> only_of) {
  const auto now = [to = std::move(to), number, only_of] { return send(to, number, only_of); };
  if (!ask(now, tell)) tell(now());
}

}  // namespace gpuyard::daemon
