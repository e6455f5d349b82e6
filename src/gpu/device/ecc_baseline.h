// Finds which of a GPU's uncorrectable memory errors are new: the growth of the driver's counter
// since the last acknowledgement, reset or reboot.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "gpu/device/metric.h"

namespace gpuyard {

// The facts about a GPU's uncorrectable memory errors. A plain value: it outlives the daemon, so
// that a restart neither ends a verdict nor makes errors new.
struct EccState {
  std::optional<Metric> source;                 // the counter; empty: none was read yet
  std::int64_t base = 0;                        // errors that are known
  std::int64_t total = 0;                       // the counter's last value
  std::optional<std::int64_t> since_load = {};  // last value of the counter that a reset sets to 0
  std::int64_t contained = 0;                   // errors after `base` that cost one process each
  // In rising order: processes that a contained error has hit, and those of which one was hit, too.
  std::vector<std::uint32_t> contained_pids = {};
  std::vector<std::uint32_t> suspects = {};

  friend bool operator==(const EccState&, const EccState&) = default;
};

class EccBaseline {
 public:
  // Goes on from an earlier daemon's state. After a reboot its errors are known: only those that
  // came since then are new.
  void restore(const EccState&, bool rebooted);
  const EccState& state() const { return state_; }

  // Takes the counter's present value. The first value is the baseline: earlier errors are not new.
  // A counter that fell was cleared, and starts over. `since_load` is the value of the counter that
  // starts at 0 with each load of the driver and each reset: if it fell, that was seen, and errors
  // from before are known. While another `source` is read, new errors stay new.
  void update(Metric source, std::int64_t total, std::optional<std::int64_t> since_load = {});

  // Marks all errors so far as known.
  void acknowledge();

  // The hardware contained one of the errors (Xid 94): it costs this process and nothing else.
  void add_contained(std::uint32_t pid);
  // The same, but the process is not known: all of these have to end.
  void add_contained_suspects(const std::set<std::uint32_t>& pids);
  // Names the process afterwards.
  void identify_contained(std::uint32_t pid);
  // The process has ended, and with it the errors contained in it.
  void remove_process(std::uint32_t pid);
  std::set<std::uint32_t> contained_pids() const;

  // Returns the errors that are neither acknowledged nor contained.
  std::int64_t new_errors() const;

 private:
  void restart(std::int64_t base);
  void on_reset(Metric source, std::int64_t since_load);

  EccState state_;
  bool rebooted_ = false;  // since the restored state, and not counted yet
};

}  // namespace gpuyard
