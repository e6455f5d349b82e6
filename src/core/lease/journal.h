// What was decided, on its way to the disk: nobody is told of anything that is not there. One entry
// is under way at a time; what is decided meanwhile is the next one, so that the disk always holds
// the beginning of what happened. Lives on the io thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/loop.h"
#include "base/retention.h"
#include "base/shares.h"
#include "lease/archive.h"

namespace gpuyard::lease {

class Journal {
 public:
  using Done = std::function<void(const Result<void>&)>;
  struct Listener {
    std::function<void(const Lease& now, State before)> changed;  // on the disk, in order
    // It is not known what the disk holds: everything is as load() will say, and nothing that was
    // decided since holds.
    std::function<void(const Error&)> lost;
  };

  // These outlive it.
  // `person`: who is behind a uid.
  Journal(Loop& loop, LeaseArchive& archive, std::function<std::uint32_t(std::uint32_t)> person,
          Listener listener)
      : loop_(loop),
        archive_(archive),
        person_(std::move(person)),
        listener_(std::move(listener)) {}
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  // Forgets everything, and tells what the disk holds.
  void load(std::function<void(Result<Kept>)> loaded);
  // As load() told it.
  void take(std::vector<Lease>);

  void put(const Lease&, std::string what, std::string by = {});
  void put_silently(const Lease&);  // without a line in the journal
  void counters(Ticket last_ticket, Fence last_fence);
  void cordon(const Cordon&);
  void uncordon(const DeviceId&, const std::string& by);
  // When all that was put until now is on the disk, or is lost; never inside the call.
  void after(Done);

  // What is on the disk.
  const std::map<std::string, Lease, std::less<>>& kept() const { return kept_; }
  // What is decided.
  const Lease* find(std::string_view id) const;
  // Of what is on the disk, those that have GPUs, held or draining.
  std::vector<const Lease*> with_gpus() const;
  // Whether the id of another lease begins with this one, or this one with that.
  bool knows_like(std::string_view id) const;

  // Forgets leases that are over so long that asking again is a new claim.
  void forget_old();
  // So many that are over are known at most.
  static constexpr std::size_t kMostEnded = shares::kOver;

 private:
  struct Batch {
    LeaseEntry entry;
    std::map<std::string, std::size_t> place = {};  // of each lease in the entry
    std::vector<Done> after = {};
    bool empty() const;
  };

  void touch();
  void index(const Lease&, State before);
  void tell_what_changed(const std::map<std::string, Lease, std::less<>>& before);
  void save();
  void on_saved(const std::shared_ptr<Batch>&, const Result<void>&);
  void lose(const Error&);

  Loop& loop_;
  LeaseArchive& archive_;
  const std::function<std::uint32_t(std::uint32_t)> person_;
  Listener listener_;
  std::map<std::string, Lease, std::less<>> decided_;
  std::map<std::string, Lease, std::less<>> kept_;
  std::set<std::string, std::less<>> with_gpus_;  // of kept_
  Retention<WallTime> over_;                      // the same
  Batch next_;
  std::shared_ptr<Batch> under_way_;
  bool due_ = false;
  std::uint64_t life_ = 0;  // answers of an earlier one mean nothing
  Lifetime here_;
};

}  // namespace gpuyard::lease
