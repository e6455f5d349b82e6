// Follows the kernel's log for Xids. Lives on the io thread and never blocks: a read of /dev/kmsg
// copies one record from memory.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

#include "base/loop.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "events/kernel_xid.h"

namespace gpuyard::events {

// /dev/kmsg from here on, or a FIFO that gives the same records. Errc::denied: the kernel lets this
// user not read it.
Result<UniqueFd> open_kernel_log(const std::string& path);

// When a record of this stamp was written. Records are read as they come, so that one which seems
// to be old, or not written yet, only shows that the log's clock has drifted: it is not corrected
// as CLOCK_MONOTONIC is, and stands still in suspend like that.
TimePoint written_at(Duration stamp, Duration monotonic, TimePoint now);

class KernelLog {
 public:
  struct Listener {
    std::function<void(const KernelXid&, TimePoint written)> on_xid;
    std::function<void(const std::string& what)> on_lost;  // records that nobody read in time
  };

  // `read`: the system call, which a test may replace.
  using Read = ssize_t (*)(int, void*, std::size_t);
  KernelLog(Loop&, UniqueFd, Listener, Read read = nullptr);

  static constexpr std::size_t kMostRecord = 8192;  // the kernel's own limit
  static constexpr int kBatch = 64;                 // reads before others have their turn
  static constexpr Duration kOldest = std::chrono::seconds(5);

 private:
  void on_readable();
  bool read_once();
  void take_lines(std::string_view bytes);
  void take_line(std::string_view line);
  void end(const std::string& why);

  Loop& loop_;
  UniqueFd fd_;
  Listener listener_;
  const Read read_;
  std::string line_;       // the beginning of one, of a FIFO
  bool skipping_ = false;  // the rest of a line that is too long
  Subscription readable_;
};

}  // namespace gpuyard::events
