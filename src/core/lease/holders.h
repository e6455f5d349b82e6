// The processes that leases are bound to: who they are, and when they are gone. Lives on the io
// thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/loop.h"
#include "lease/observer.h"

namespace gpuyard::lease {

class Holders {
 public:
  using Gone = std::function<void(const std::string& lease, const Process&)>;
  using Found = std::function<void(Result<Identity>)>;

  // These outlive it. Each that is known takes two descriptors: where more than `most_known` are,
  // those without a lease are forgotten.
  Holders(Loop& loop, Observer& observer, std::size_t most_known, Gone gone)
      : loop_(loop), observer_(observer), most_known_(most_known), gone_(std::move(gone)) {}

  // Who has this number now. One who has had a lease is told at once, inside the call; who only
  // asks is not kept.
  void identify(std::uint32_t pid, const Found&);
  // gone() is told once when it is gone, never inside the call. Of one that is gone already it is
  // told, too: its descriptor says so.
  void bind(const std::string& lease, const Identity&);
  void release(const std::string& lease, const std::vector<Process>& of);
  void clear();

 private:
  struct Known {
    Identity identity;
    std::set<std::string> leases = {};
    Subscription gone = {};
  };

  Known& keep(const Identity&);
  void on_gone(std::uint32_t pid);
  void make_room();

  Loop& loop_;
  Observer& observer_;
  const std::size_t most_known_;
  Gone gone_;
  std::map<std::uint32_t, Known> known_;  // by pid, which is nobody else's before it is gone
  std::shared_ptr<Holders*> self_ = std::make_shared<Holders*>(this);
};

}  // namespace gpuyard::lease
