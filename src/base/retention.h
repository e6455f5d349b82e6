// Keeps ended items by owner. Forgets items that are too old, and above a limit the oldest items of
// the owner with the most, so that no owner pushes out the items of others. Pure state.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace gpuyard {

template <class Time>
class Retention {
 public:
  void add(std::uint32_t whose, std::string name, Time ended) {
    Line& all = of_[whose];
    // At the end, unless the clock was set back.
    all.insert(std::ranges::upper_bound(all, ended, {}, &One::ended), {std::move(name), ended});
    ++size_;
  }

  void remove(const std::set<std::string>& names) {
    for (auto& [whose, all] : of_) {
      size_ -= std::erase_if(all, [&](const One& one) { return names.contains(one.name); });
    }
    drop_empty_lines();
  }

  // Forgets items that ended before `horizon` and items above `most`; returns their names.
  std::vector<std::string> take_old(Time horizon, std::size_t most) {
    std::vector<std::string> old;
    for (auto& [whose, all] : of_) {
      while (!all.empty() && all.front().ended < horizon) take_first(all, old);
    }
    while (size_ > most) take_first(of_most(), old);
    drop_empty_lines();
    return old;
  }

 private:
  struct One {
    std::string name;
    Time ended;
  };
  using Line = std::deque<One>;  // in the order of their ends

  Line& of_most() {
    return std::ranges::max_element(of_, {}, [](const auto& one) { return one.second.size(); })
        ->second;
  }
  void drop_empty_lines() {
    std::erase_if(of_, [](const auto& one) { return one.second.empty(); });
  }
  void take_first(Line& all, std::vector<std::string>& old) {
    old.push_back(std::move(all.front().name));
    all.pop_front();
    --size_;
  }

  std::map<std::uint32_t, Line> of_;
  std::size_t size_ = 0;
};

}  // namespace gpuyard
