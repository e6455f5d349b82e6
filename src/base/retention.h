// Keeps ended items by owner. Evicts items that are too old, and above a limit the oldest items of
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
  void add(std::uint32_t owner, std::string name, Time ended_at) {
    Items& all = by_owner_[owner];
    // At the end, unless the clock was set back.
    all.insert(std::ranges::upper_bound(all, ended_at, {}, &Item::ended_at),
               {std::move(name), ended_at});
    ++size_;
  }

  void remove(const std::set<std::string>& names) {
    for (auto& [owner, all] : by_owner_) {
      size_ -= std::erase_if(all, [&](const Item& one) { return names.contains(one.name); });
    }
    remove_empty_owners();
  }

  // Evicts items that ended before `horizon` and items above `max_items`; returns their names.
  std::vector<std::string> evict(Time horizon, std::size_t max_items) {
    std::vector<std::string> old;
    for (auto& [owner, all] : by_owner_) {
      while (!all.empty() && all.front().ended_at < horizon) evict_first(all, old);
    }
    while (size_ > max_items) evict_first(largest_owner(), old);
    remove_empty_owners();
    return old;
  }

 private:
  struct Item {
    std::string name;
    Time ended_at;
  };
  using Items = std::deque<Item>;  // in the order of their ends

  Items& largest_owner() {
    return std::ranges::max_element(by_owner_, {},
                                    [](const auto& one) { return one.second.size(); })
        ->second;
  }
  void remove_empty_owners() {
    std::erase_if(by_owner_, [](const auto& one) { return one.second.empty(); });
  }
  void evict_first(Items& all, std::vector<std::string>& old) {
    old.push_back(std::move(all.front().name));
    all.pop_front();
    --size_;
  }

  std::map<std::uint32_t, Items> by_owner_;
  std::size_t size_ = 0;
};

}  // namespace gpuyard
