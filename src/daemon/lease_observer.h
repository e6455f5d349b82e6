// What leases ask about processes, answered by the drivers' lists and /proc. Lives on the io thread
// and reads /proc on a worker; a worker that is stuck there delays an answer, and no more.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "base/loop.h"
#include "base/worker.h"
#include "lease/observer.h"
#include "processes/evidence.h"
#include "telemetry/telemetry.h"

namespace gpuyard::daemon {

class LeaseObserver final : public lease::Observer {
 public:
  // Then the answer is given without what the worker was asked for.
  static constexpr Duration kDeadline = std::chrono::seconds(2);
  // The worker is not asked for more at a time.
  static constexpr std::size_t kMostAsked = 1024;

  // Where processes are looked for.
  struct Places {
    std::string proc_root = std::string(processes::kProcRoot);      // with the driver's numbers
    std::string own_proc_root = std::string(processes::kProcRoot);  // with ours
    bool recorded = false;  // the drivers' lists are a recording's
  };

  // These outlive it, and run nothing for it afterwards.
  LeaseObserver(Loop&, Worker&, telemetry::Telemetry&, Places);
  LeaseObserver(const LeaseObserver&) = delete;
  LeaseObserver& operator=(const LeaseObserver&) = delete;
  ~LeaseObserver() override;

  void identify(std::uint32_t pid, std::function<void(Result<lease::Identity>)> found) override;
  void look(std::vector<lease::Suspect>, std::vector<DeviceId> gpus, bool fresh,
            std::function<void(lease::Sight)> seen) override;
  void signal(std::vector<lease::Process>, int number,
              std::optional<std::uint32_t> only_of) override;

 private:
  struct Look;
  struct Question;

  processes::Numbers numbers_in(const Snapshot&) const;
  void judge(std::uint64_t look, const telemetry::SnapshotPtr& lists);
  void answer(std::uint64_t look, lease::Sight);
  void answer_blindly(std::uint64_t look);
  // Asks the worker, unless it has too much to do; `heard` may come after the deadline.
  template <class Ask, class Hear>
  bool ask(Ask, Hear heard);
  bool stuck() const;

  Loop& loop_;
  Worker& worker_;
  telemetry::Telemetry& telemetry_;
  const Places places_;
  // Touched on the worker's thread alone.
  std::shared_ptr<processes::EvidenceReader> reader_;
  std::uint64_t next_ = 1;
  std::map<std::uint64_t, TimePoint> asked_;  // of the worker, since when
  std::map<std::uint64_t, Look> looks_;
  std::map<std::uint64_t, Question> questions_;
};

}  // namespace gpuyard::daemon
