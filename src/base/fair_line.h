// Work of which little can be done at a time, one party after the other: who asks for much waits
// behind himself. For one thread.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <utility>

namespace gpuyard {

template <class Party>
class FairLine {
 public:
  // Begins, and says once when it has ended, in the call or later.
  using Work = std::function<void(std::function<void()> ended)>;

  // `most_of_one`: so much of one party waits at most.
  FairLine(std::size_t at_once, std::size_t most_of_one)
      : state_(std::make_shared<State>(State{at_once, most_of_one})) {}
  ~FairLine() { *state_ = State{0, 0}; }  // what runs may end later
  FairLine(const FairLine&) = delete;
  FairLine& operator=(const FairLine&) = delete;

  // False, and nothing happens: too much of this party waits already.
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
    bool going = false;  // work that ends in its own call begins no other one inside it
    std::map<Party, std::deque<Work>> waiting = {};
    std::deque<Party> turns = {};  // of those who wait
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
