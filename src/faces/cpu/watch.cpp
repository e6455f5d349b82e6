#include "cpu/watch.h"

#include <utility>

namespace gpuyard::cpu {

Watch::Watch(Loop& loop, Worker& worker, std::string root)
    : loop_(loop), worker_(worker), rapl_(std::make_shared<Rapl>(std::move(root))) {
  latest_.why_none = "CPU energy was not read yet";
}

void Watch::start() {
  look();
}

void Watch::look() {
  look_timer_ = loop_.call_after(kLookEvery, [this] { look(); });
  fresh([](const Result<Energies>&) {});
}

void Watch::fresh(Answer answer) {
  if (flight_.size() + next_.size() >= kMostCallers) {
    return loop_.post([answer = std::move(answer)] {
      answer(Error{Errc::busy, "too many wait for the CPUs' energy; ask again later"});
    });
  }
  next_.push_back(std::move(answer));
  if (!patience_) patience_ = loop_.call_after(kPatience, [this] { give_up(); });
  if (!asked_) ask();
}

void Watch::ask() {
  for (Answer& answer : std::exchange(next_, {})) flight_.push_back(std::move(answer));
  asked_ = ask_worker(
      worker_, [rapl = rapl_] { return rapl->read(); },
      [this, alive = std::weak_ptr(self_)](Energies energies) {
        if (!alive.expired()) hear(std::move(energies));
      });
}

void Watch::hear(Energies energies) {
  asked_ = false;
  latest_ = std::move(energies);
  patience_.reset();
  const auto callers = std::exchange(flight_, {});
  if (!next_.empty()) {
    patience_ = loop_.call_after(kPatience, [this] { give_up(); });
    ask();
  }
  tell(callers, latest_);
}

// The worker did not take the question, or is still busy with something else. What it answers later
// is known then, and told to nobody.
void Watch::give_up() {
  patience_.reset();
  auto callers = std::exchange(flight_, {});
  for (Answer& answer : std::exchange(next_, {})) callers.push_back(std::move(answer));
  tell(callers, Error{Errc::timed_out, "reading the CPUs' energy took too long"});
}

void Watch::tell(const std::vector<Answer>& callers, const Result<Energies>& result) {
  for (const Answer& answer : callers) answer(result);
}

Subscription Watch::listen(Heard heard) {
  const std::uint64_t number = next_listener_++;
  listeners_[number] = std::move(heard);
  if (!poll_timer_) poll_timer_ = loop_.call_after(Duration::zero(), [this] { poll(); });
  return Subscription([this, alive = std::weak_ptr(self_), number] {
    if (alive.expired()) return;
    listeners_.erase(number);
    if (listeners_.empty()) poll_timer_.reset();
  });
}

void Watch::poll() {
  poll_timer_ = loop_.call_after(kPeriod, [this] { poll(); });
  if (asked_) return;  // the worker is behind: what it answers comes to the next
  fresh([this, alive = std::weak_ptr(self_)](const Result<Energies>& read) {
    if (alive.expired() || !read) return;
    std::vector<std::uint64_t> due;
    for (const auto& [number, _] : listeners_) due.push_back(number);
    for (const std::uint64_t number : due) {
      // Whoever heard before may have left, or made others leave.
      const auto listener = listeners_.find(number);
      if (listener == listeners_.end()) continue;
      const Heard heard = listener->second;
      heard(*read);
    }
  });
}

}  // namespace gpuyard::cpu
