// The node's energy as the daemon keeps it: feeds the ledger, reads afresh at the edges of windows,
// and keeps the books. Lives on the io thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/loop.h"
#include "base/result.h"
#include "energy/ledger.h"

namespace gpuyard::energy {

// Who reads the GPUs at this moment. The answer comes in any case, and never inside the call.
class FreshReads {
 public:
  virtual ~FreshReads() = default;
  virtual void fresh(ProbeSet, std::function<void(const Snapshot&)> done) = 0;
};

class Meter {
 public:
  // So much is lost at most of what only this process knew, if it is killed: peaks, and the energy
  // of GPUs without a counter. What a counter counted is found again.
  static constexpr Duration kSaveEvery = std::chrono::seconds(10);
  // Whoever began a window hears of it once it is on the disk, but waits no longer for the disk.
  static constexpr Duration kDiskPatience = std::chrono::seconds(1);

  using Answer = std::function<void(Result<WindowResult>)>;

  // These outlive the meter.
  Meter(Loop&, FreshReads&, EnergyArchive&, std::string boot_id);

  void start();
  void on_snapshot(const Snapshot& published) { ledger_.observe(published); }
  // Saves once more.
  void stop();

  // With fresh readings at this edge; the answer comes later.
  void begin(WindowWish, Answer);
  void look(std::string id, Answer);
  void end(std::string id, Answer);

  const Ledger& ledger() const { return ledger_; }
  // What is not as it should be, for people.
  std::vector<std::string> notes() const;

 private:
  void load();
  void tick();
  void save(const std::function<void()>& saved);
  void answer_when_kept(WindowResult, Answer);

  Loop& loop_;
  FreshReads& reads_;
  EnergyArchive& archive_;
  Ledger ledger_;
  bool adopted_ = false;
  bool loading_ = false;
  Subscription timer_;
  // Callbacks that come after the meter has gone find this empty.
  Lifetime here_;
};

}  // namespace gpuyard::energy
