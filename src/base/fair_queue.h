// Decides which quota group is served next where many wait for a few slots.
// Single-threaded.
#pragma once

#include <array>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/requester.h"

namespace gpuyard {

// Items by quota group. pop() goes round the groups, so that a group with many items waits behind
// itself; the items of one group keep their order. Every second turn is reserved for privileged
// groups, so that their delay does not grow with the number of other groups.
template <class Group, class Item>
class RoundRobinQueue {
 public:
  bool empty() const { return rounds_[0].turns.empty() && rounds_[1].turns.empty(); }
  std::size_t size_of(const Group& group, bool privileged) const {
    const Items& items = rounds_[privileged ? 1 : 0].items;
    const auto found = items.find(group);
    return found == items.end() ? 0 : found->second.size();
  }
  void push(const Group& group, bool privileged, Item item) {
    Round& round = rounds_[privileged ? 1 : 0];
    const auto [entry, first] = round.items.try_emplace(group);
    if (first) round.turns.push_back(entry);
    entry->second.push_back(std::move(item));
  }
  Item pop() {
    privileged_turn_ = rounds_[0].turns.empty() || (!privileged_turn_ && !rounds_[1].turns.empty());
    Round& round = rounds_[privileged_turn_ ? 1 : 0];
    const auto entry = round.turns.front();
    round.turns.pop_front();
    Item item = std::move(entry->second.front());
    entry->second.pop_front();
    if (entry->second.empty()) {
      round.items.erase(entry);
    } else {
      round.turns.push_back(entry);
    }
    return item;
  }

 private:
  using Items = std::map<Group, std::deque<Item>>;  // without empty ones
  struct Round {
    Items items;
    std::deque<typename Items::iterator> turns;
  };

  std::array<Round, 2> rounds_;   // [1]: privileged groups
  bool privileged_turn_ = false;  // the last turn went to a privileged group
};

// Queues work of which little can be done at a time and serves the quota groups in turn.
class FairQueue {
 public:
  // Begins the work. Calls `on_ended` once, during the call or later.
  using Work = std::function<void(std::function<void()> on_ended)>;

  // `max_running`: pieces of work that run at a time. `max_per_group`: pieces of one group that may
  // wait.
  FairQueue(std::size_t max_running, std::size_t max_per_group)
      : state_(std::make_shared<State>(State{max_running, max_per_group})) {}
  ~FairQueue() { *state_ = State{0, 0}; }  // running work may end later
  FairQueue(const FairQueue&) = delete;
  FairQueue& operator=(const FairQueue&) = delete;

  // Returns false, and drops the work, if too much work of this group is waiting.
  bool try_enqueue(const Requester& requester, Work work) {
    if (state_->waiting.size_of(requester.quota_group, requester.privileged) >=
        state_->max_per_group)
      return false;
    state_->waiting.push(requester.quota_group, requester.privileged, std::move(work));
    start_next(state_);
    return true;
  }

 private:
  struct State {
    std::size_t max_running = 0;
    std::size_t max_per_group = 0;
    std::size_t running = 0;
    bool starting = false;  // work that ends in its own call starts no other work inside it
    RoundRobinQueue<std::string, Work> waiting = {};
  };

  static void start_next(const std::shared_ptr<State>& state) {
    if (std::exchange(state->starting, true)) return;
    while (state->running < state->max_running && !state->waiting.empty()) {
      const Work work = state->waiting.pop();
      ++state->running;
      work([state, ended = false]() mutable {
        if (std::exchange(ended, true) || state->running == 0) return;
        --state->running;
        start_next(state);
      });
    }
    state->starting = false;
  }

  std::shared_ptr<State> state_;
};

}  // namespace gpuyard
