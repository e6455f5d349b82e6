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

// Queues work of which little can be done at a time and serves the parties in turn: a party with
// much work waits behind itself.
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
    auto& line = state_->waiting[party];
    if (line.size() >= state_->most_of_one) return false;
    if (line.empty()) state_->turns.push_back(party);
    line.push_back(std::move(work));
    go(state_);
    return true;
  }

 private:
  struct State {
    std::size_t at_once = 0;
    std::size_t most_of_one = 0;
    std::size_t running = 0;
    bool going = false;  // work that ends in its own call starts no other work inside it
    std::map<Party, std::deque<Work>> waiting = {};
    std::deque<Party> turns = {};  // parties with waiting work
  };

  static void go(const std::shared_ptr<State>& state) {
    if (std::exchange(state->going, true)) return;
    while (state->running < state->at_once && !state->turns.empty()) {
      const Party party = std::move(state->turns.front());
      state->turns.pop_front();
      auto& line = state->waiting[party];
      const Work work = std::move(line.front());
      line.pop_front();
      if (line.empty()) {
        state->waiting.erase(party);
      } else {
        state->turns.push_back(party);
      }
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
