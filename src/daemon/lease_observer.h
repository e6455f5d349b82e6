// Answers what leases ask about processes, from the drivers' lists and /proc.
// Thread: io; it reads /proc on a worker. A worker that is stuck there only delays an answer.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/loop.h"
#include "base/worker.h"
#include "core/lease/process_observer.h"
#include "core/processes/evidence.h"
#include "gpu/device/snapshot.h"
#include "gpu/telemetry/telemetry.h"

namespace gpuyard::daemon {

class LeaseObserver final : public lease::ProcessObserver {
 public:
  // The longest wait of an answer for the worker. It is then given without the worker's part.
  static constexpr Duration kReplyTimeout = std::chrono::seconds(2);
  // The number of requests to the worker that may be open at a time.
  static constexpr std::size_t kMaxPendingRequests = 1024;

  // The /proc directories in which processes are read.
  struct ProcRoots {
    std::string proc_root = std::string(processes::kProcRoot);      // with the driver's numbers
    std::string own_proc_root = std::string(processes::kProcRoot);  // with ours
    bool recorded = false;  // the drivers' lists come from a recording
    // Maps a uid to its user; called on any thread. If empty, each uid is its own user.
    std::function<std::uint32_t(std::uint32_t uid)> quota_owner = {};
    std::shared_ptr<processes::MarkClient> marks = {};  // used on the worker's thread alone
  };

  // The references outlive it, and run nothing for it afterwards.
  LeaseObserver(Loop&, Worker&, telemetry::Telemetry&, ProcRoots);
  LeaseObserver(const LeaseObserver&) = delete;
  LeaseObserver& operator=(const LeaseObserver&) = delete;
  ~LeaseObserver() override;

  void identify(std::uint32_t pid,
                std::function<void(Result<lease::ProcessIdentity>)> on_found) override;
  void observe(std::vector<lease::ObservedLease>, std::vector<DeviceId> gpus, bool fresh,
               std::function<void(lease::Observation)> on_observed) override;
  void signal(std::vector<lease::ProcessKey>, int number, std::optional<std::uint32_t> only_of,
              std::function<void(std::vector<lease::SignalFailure>)> on_done) override;

 private:
  struct PendingObservation;
  template <class Reply>
  struct PendingReply {
    std::function<void(Reply)> on_reply;
    Subscription timeout_timer;
  };

  void on_lists(std::uint64_t id, const telemetry::SnapshotPtr& snapshot);
  void finish_observation(std::uint64_t id, lease::Observation);
  void fail_observation(std::uint64_t id);
  // Asks the worker, unless it has too much to do; `on_reply` may be called after kReplyTimeout.
  template <class Work, class OnReply>
  bool submit(Work, OnReply on_reply);
  bool is_worker_stuck() const;

  Loop& loop_;
  Worker& worker_;
  telemetry::Telemetry& telemetry_;
  const ProcRoots proc_roots_;
  // Used on the worker's thread alone.
  std::shared_ptr<processes::EvidenceReader> reader_;
  std::uint64_t next_id_ = 1;
  std::map<std::uint64_t, TimePoint> submitted_at_;  // requests to the worker, since when
  std::map<std::uint64_t, PendingObservation> observations_;
  std::map<std::uint64_t, PendingReply<Result<lease::ProcessIdentity>>> lookups_;
  std::map<std::uint64_t, PendingReply<std::vector<lease::SignalFailure>>> signals_;
};

}  // namespace gpuyard::daemon
