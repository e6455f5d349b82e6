// Follows the kernel's log for Xids. Thread: io, which it never blocks: a read of /dev/kmsg copies
// one record from memory.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/loop.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace gpuyard::events {

// A record as /dev/kmsg gives it: "4,1234,567890123,-;the message".
struct KernelRecord {
  Duration stamp;  // since boot, by the kernel's own clock
  std::string_view message;
};
// Returns nothing for a record that the kernel did not write, and for a record's continuation
// lines, which begin with a space.
std::optional<KernelRecord> parse_record(std::string_view line);

struct KernelXid {
  std::string pci_address;  // "0000:3b:00", without the function
  std::uint32_t xid = 0;
  std::optional<std::uint32_t> pid;  // as the host sees it
  std::string text;                  // the driver's text without the process's pid and name

  friend bool operator==(const KernelXid&, const KernelXid&) = default;
};

// Parses "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the
// bus." in the forms that drivers have used: without "PCI:", with the instances of a MIG GPU after
// the address, with pid and name, with pid alone, or with neither.
std::optional<KernelXid> parse_xid(std::string_view message);

// Opens /dev/kmsg at its end, or a FIFO with the same records. The kernel checks CAP_SYSLOG here,
// and not at each read. Errc::denied: the kernel does not let this user read it.
Result<UniqueFd> open_kernel_log(const std::string& path);

// Returns when a record of this stamp was written. Records are read as they come, so a record that
// seems old, or not yet written, only shows that the log's clock has drifted: it is not corrected
// as CLOCK_MONOTONIC is, and like that clock it stands still in suspend.
TimePoint written_at(Duration stamp, Duration monotonic, TimePoint now);

class KernelLog {
 public:
  struct Listener {
    std::function<void(const KernelXid&, TimePoint written)> on_xid;
    std::function<void(const std::string& what)> on_lost;  // records that were not read in time
  };

  // `read` is the system call; a test may replace it.
  using Read = ssize_t (*)(int, void*, std::size_t);
  KernelLog(Loop&, UniqueFd, Listener, Read read = nullptr);

  bool is_open() const { return static_cast<bool>(fd_); }

  static constexpr std::size_t kMaxRecordBytes = 8192;  // the kernel's own limit
  static constexpr int kMaxReadsPerTurn = 64;           // reads in one turn of the loop
  static constexpr Duration kMaxRecordAge = std::chrono::seconds(5);

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
  std::string line_;       // the beginning of an incomplete line, from a FIFO
  bool skipping_ = false;  // true: the rest of a line that is too long is dropped
  Subscription readable_;
};

}  // namespace gpuyard::events
