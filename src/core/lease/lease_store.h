// Writes decisions to the disk: nobody is told of anything that is not there. One entry is under
// way at a time. What is decided meanwhile becomes the next entry, so that the disk always holds
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

#include "base/limits.h"
#include "base/loop.h"
#include "base/retention.h"
#include "core/lease/lease_storage.h"

namespace gpuyard::lease {

class Journal {
 public:
  using Done = std::function<void(const Result<void>&)>;
  struct Listener {
    std::function<void(const Lease& now, State before)> changed;  // on the disk, in order
    // Called when it is not known what the disk holds. Decisions since the last answer are void,
    // and load() tells what holds.
    std::function<void(const Error&)> lost;
  };

  // `loop` and `archive` outlive it. `person` returns the user behind a uid.
  Journal(Loop& loop, LeaseStorage& archive, std::function<std::uint32_t(std::uint32_t)> person,
          Listener listener)
      : loop_(loop),
        archive_(archive),
        person_(std::move(person)),
        listener_(std::move(listener)) {}
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  // Forgets everything, and tells what the disk holds.
  void load(std::function<void(Result<Kept>)> loaded);
  // Takes the leases that load() told.
  void take(std::vector<Lease>);

  void put(const Lease&, std::string what, std::string by = {});
  void put_silently(const Lease&);  // without a line in the journal
  void counters(Ticket last_ticket, Fence last_fence);
  void cordon(const Cordon&);
  void cordon_silently(const Cordon&);
  // Notes what was decided about a GPU.
  void note(const DeviceId& gpu, std::string what, const std::string& by);
  void uncordon(const DeviceId&, const std::string& by);
  // Calls back when all entries so far are on the disk, or are lost; never inside the call.
  void after(Done);

  // Leases as they are on the disk.
  const std::map<std::string, Lease, std::less<>>& kept() const { return kept_; }
  // Returns the lease as it is decided, perhaps not kept yet.
  const Lease* find(std::string_view id) const;
  // Returns the leases on the disk that have GPUs, held or draining.
  std::vector<const Lease*> with_gpus() const;
  // Returns messages about faults of the archive.
  std::vector<std::string> notes() const { return archive_.notes(); }

  // Forgets ended leases that are so old that asking again is a new claim.
  void forget_old();
  // Forgets the ended leases of jobs.
  void forget_jobs();
  // How many ended leases are known at most.
  static constexpr std::size_t kMostEnded = shares::kOver;

 private:
  struct Batch {
    LeaseTransaction entry;
    std::map<std::string, std::size_t> place = {};  // of each lease in the entry
    std::vector<Done> after = {};
    bool empty() const;
  };

  void touch();
  void index(const Lease&, State before);
  void forget(std::string id);
  void tell_what_changed(const std::map<std::string, Lease, std::less<>>& before);
  void save();
  void on_saved(const std::shared_ptr<Batch>&, const Result<void>&);
  void lose(const Error&);

  Loop& loop_;
  LeaseStorage& archive_;
  const std::function<std::uint32_t(std::uint32_t)> person_;
  Listener listener_;
  std::map<std::string, Lease, std::less<>> decided_;
  std::map<std::string, Lease, std::less<>> kept_;
  std::set<std::string, std::less<>> with_gpus_;  // ids in kept_
  Retention<WallTime> over_;                      // ended leases in kept_
  Batch next_;
  std::shared_ptr<Batch> under_way_;
  bool due_ = false;
  std::uint64_t life_ = 0;  // an answer to an earlier life is ignored
  Lifetime here_;
};

}  // namespace gpuyard::lease
