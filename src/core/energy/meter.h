// Keeps the node's energy for the daemon: records snapshots in the ledger, takes fresh readings at
// the edges of windows, and saves the state.
//
// Thread: io.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/lifetime.h"
#include "base/loop.h"
#include "base/repeated_line.h"
#include "base/result.h"
#include "core/energy/ledger.h"

namespace gpuyard::energy {

// Reads the GPUs at this moment. The callback always comes, and never inside the call.
class FreshReader {
 public:
  virtual ~FreshReader() = default;
  virtual void read_fresh(ProbeSet, std::function<void(const Snapshot&)> on_done) = 0;
};

class Meter {
 public:
  // The state is saved at this interval. A daemon that is killed loses at most this much of the
  // peaks and of the energy of GPUs without a counter. The growth of a counter is found again.
  static constexpr Duration kSaveInterval = std::chrono::seconds(10);
  // The reply to the begin or the end of a window waits this long for the disk.
  static constexpr Duration kDiskTimeout = std::chrono::seconds(1);

  // The number of replies that may wait for the next save.
  static constexpr std::size_t kMaxWaitingReplies = 1024;

  using OnWindow = std::function<void(Result<WindowResult>)>;

  // The loop, the reader and the storage outlive the meter.
  Meter(Loop&, FreshReader&, EnergyStorage&, std::string boot_id);

  void start();
  void on_snapshot(const Snapshot& published) { ledger_.record(published); }
  // Saves once more.
  void stop();

  // Each takes fresh readings first; the callback comes later.
  void begin(WindowRequest, OnWindow);
  void measure(std::string id, OnWindow);
  void end(std::string id, OnWindow);

  const Ledger& ledger() const { return ledger_; }
  // Returns an open window. Errc::not_found; unavailable until earlier windows have been read.
  Result<const Window*> find(std::string_view id) const;
  // Describes present problems, for people.
  std::vector<std::string> notes() const;
  // True until the stored state has been read or a read has failed.
  bool is_loading() const { return !restored_ && !load_failed_; }

 private:
  void load();
  void tick();
  void save(std::function<void()> on_saved);
  void save_next();
  void reply_when_committed(WindowResult, OnWindow);

  Loop& loop_;
  FreshReader& reader_;
  EnergyStorage& storage_;
  Ledger ledger_;
  bool restored_ = false;
  bool load_failed_ = false;  // the last attempt to read the stored state
  bool loading_ = false;
  bool saving_ = false;
  std::vector<std::function<void()>> save_waiters_;  // for the next save
  RepeatedLine ended_log_;
  Subscription timer_;
  // Keeps callbacks from running after the meter has gone.
  Lifetime lifetime_;
};

}  // namespace gpuyard::energy
