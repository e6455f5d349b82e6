// Whose turn it is, where little work can be done at a time and many parties ask for it.
// Single-threaded.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <utility>

namespace gpuyard {

// Items by party. pop() goes round the parties, so that a party with many items waits behind
// itself; the items of one party keep their order.
template <class Party, class Item>
class Rotation {
 public:
  bool empty() const { return turns_.empty(); }
  std::size_t size_of(const Party& party) const {
    const auto found = items_.find(party);
    return found == items_.end() ? 0 : found->second.size();
  }
  void push(const Party& party, Item item) {
    const auto [line, first] = items_.try_emplace(party);
    if (first) turns_.push_back(line);
    line->second.push_back(std::move(item));
  }
  Item pop() {
    const auto line = turns_.front();
    turns_.pop_front();
    Item item = std::move(line->second.front());
    line->second.pop_front();
    if (line->second.empty()) {
      items_.erase(line);
    } else {
      turns_.push_back(line);
    }
    return item;
  }

 private:
  using Items = std::map<Party, std::deque<Item>>;  // without empty ones
  Items items_;
  std::deque<typename Items::iterator> turns_;
};

// Queues work of which little can be done at a time and serves the parties in turn.
template <class Party>
class FairLine {
 public:
  // Begins the work. Calls `ended` once, during the call or later.
  using Work = std::function<void(std::function<void()> ended)>;

  // `at_once`: pieces of work that run at a time. `most_of_one`: pieces of one party that may wait.
  FairLine(std::size_t at_once, std::size_t most_of_one)
      : state_(std::make_shared<State>(State{at_once, most_of_one})) {}
  ~FairLine() { *state_ = State{0, 0}; }  // running work may end later
  FairLine(const FairLine&) = delete;
  FairLine& operator=(const FairLine&) = delete;

  // Returns false, and drops the work, if too much work of this party is waiting.
  bool enter(const Party& party, Work work) {
    if (state_->waiting.size_of(party) >= state_->most_of_one) return false;
    state_->waiting.push(party, std::move(work));
    go(state_);
    return true;
  }

 private:
  struct State {
    std::size_t at_once = 0;
    std::size_t most_of_one = 0;
    std::size_t running = 0;
    bool going = false;  // work that ends in its own call starts no other work inside it
    Rotation<Party, Work> waiting = {};
  };

  static void go(const std::shared_ptr<State>& state) {
    if (std::exchange(state->going, true)) return;
    while (state->running < state->at_once && !state->waiting.empty()) {
      const Work work = state->waiting.pop();
      ++state->running;
      work([state, ended = false]() mutable {
        if (std::exchange(ended, true) || state->running == 0) return;
        --state->running;
        go(state);
      });
    }
    state->going = false;
  }

  std::shared_ptr<State> state_;
};

}  // namespace gpuyard
