// Answers what leases ask about processes, from the drivers' lists and /proc. Lives on the io
// thread and reads /proc on a worker. A worker that is stuck there only delays an answer.
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

class LeaseObserver final : public lease::Observer {
 public:
  // How long an answer waits for the worker. After that it is given without the worker's part.
  static constexpr Duration kDeadline = std::chrono::seconds(2);
  // How many requests to the worker may be open at a time.
  static constexpr std::size_t kMostAsked = 1024;

  // Where processes are looked for.
  struct Places {
    std::string proc_root = std::string(processes::kProcRoot);      // with the driver's numbers
    std::string own_proc_root = std::string(processes::kProcRoot);  // with ours
    bool recorded = false;  // the drivers' lists come from a recording
    // Maps a uid to its user; called on any thread. If empty, each uid is its own user.
    std::function<std::uint32_t(std::uint32_t uid)> person = {};
    std::shared_ptr<processes::MarkClient> marks = {};  // used on the worker's thread alone
  };

  // The references outlive it, and run nothing for it afterwards.
  LeaseObserver(Loop&, Worker&, telemetry::Telemetry&, Places);
  LeaseObserver(const LeaseObserver&) = delete;
  LeaseObserver& operator=(const LeaseObserver&) = delete;
  ~LeaseObserver() override;

  void identify(std::uint32_t pid, std::function<void(Result<lease::Identity>)> found) override;
  void look(std::vector<lease::Suspect>, std::vector<DeviceId> gpus, bool fresh,
            std::function<void(lease::Sight)> seen) override;
  void signal(std::vector<lease::Process>, int number, std::optional<std::uint32_t> only_of,
              std::function<void(std::vector<lease::Unsignalled>)> done) override;

 private:
  struct Look;
  struct Question;
  struct Sending;

  processes::Numbers numbers_in(const Snapshot&) const;
  void judge(std::uint64_t look, const telemetry::SnapshotPtr& lists);
  void answer(std::uint64_t look, lease::Sight);
  void answer_blindly(std::uint64_t look);
  // Asks the worker, unless it has too much to do; `heard` may be called after the deadline.
  template <class Ask, class Hear>
  bool ask(Ask, Hear heard);
  bool stuck() const;

  Loop& loop_;
  Worker& worker_;
  telemetry::Telemetry& telemetry_;
  const Places places_;
  // Used on the worker's thread alone.
  std::shared_ptr<processes::EvidenceReader> reader_;
  std::uint64_t next_ = 1;
  std::map<std::uint64_t, TimePoint> asked_;  // requests to the worker, since when
  std::map<std::uint64_t, Look> looks_;
  std::map<std::uint64_t, Question> questions_;
  std::map<std::uint64_t, Sending> sendings_;
};

// Builds what leases see of processes from the drivers' lists and from what /proc says of the
// processes in them. Plain values; asks nobody.

// The lists of the GPUs that leases ask about.
struct GpuLists {
  TimePoint taken;  // before the first of it was asked
  // The computing processes; empty: they cannot be told now.
  std::map<DeviceId, std::optional<std::vector<GpuProcess>>> computing = {};
  std::map<DeviceId, std::optional<std::int64_t>> used_bytes = {};  // drawing excluded
  processes::Owners::Listed listed = {};                            // all computing processes
};

// `asked` is when the lists were asked for. A GPU that does not answer now has no list.
GpuLists lists_in(const Snapshot&, const std::vector<DeviceId>& gpus, TimePoint asked);

std::vector<processes::Lessee> lessees_of(const std::vector<lease::Suspect>&);

// `lessees` and the evidence are those of the suspects.
lease::Sight sight_of(const GpuLists&, const std::vector<lease::Suspect>&,
                      const std::vector<processes::Lessee>& lessees, const processes::Evidence&);

// Returns the sight of a failed look: no list is known, and no process counts as gone.
lease::Sight blind_sight(const std::vector<lease::Suspect>&, const std::vector<DeviceId>& gpus,
                         TimePoint asked);

}  // namespace gpuyard::daemon
