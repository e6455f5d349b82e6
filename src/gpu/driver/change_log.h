// The setter's own log of the changes that it makes, in a file that only its user may write. The
// daemon's audit is compared with it. A line is written before the driver is called, and one with
// the result after it. Each line carries a SHA-256 hash over the hash before it and itself.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <boost/describe.hpp>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "gpu/device/command.h"
#include "gpu/device/device.h"
#include "gpu/device/setting.h"

namespace gpuyard::driver {

enum class ChangeStep : std::uint8_t {
  start,   // a file or a setter begins
  change,  // the driver is about to be called
  done,    // it did what `of` says
  failed,  // it did not
  missed,  // changes that the log had no room for
};
BOOST_DESCRIBE_ENUM(ChangeStep, start, change, done, failed, missed)

struct ChangeLine {
  std::uint64_t number = 0;  // counts up
  std::string at;            // RFC 3339
  std::int64_t since_boot_ms = 0;
  ChangeStep step = ChangeStep::start;
  DeviceId gpu;
  std::optional<SettingKind> setting;  // empty: the ECC counters are cleared
  std::optional<SettingValue> before;  // `change`: as the driver reported it
  std::optional<SettingValue> value;   // `change`: to be set; `done`: as it was read back
  bool puts_back = false;
  std::uint64_t of = 0;      // `done`, `failed`: the number of the change. `missed`: how many
  std::string boot;          // `start`: the id of this boot
  std::string previous;      // `start`: the hash of the line before; "": there is none
  std::string missed_since;  // `missed`: RFC 3339
};
BOOST_DESCRIBE_STRUCT(ChangeLine, (),
                      (number, at, since_boot_ms, step, gpu, setting, before, value, puts_back, of,
                       boot, previous, missed_since))

// Thread: any. Setters that run at the same time share the file: one that hangs in the driver has a
// successor.
class ChangeLog {
 public:
  // The size at which the file becomes PATH.1, in place of the one before.
  static constexpr std::size_t kMaxBytes = std::size_t{16} << 20U;

  // Reads what the file has. A file that cannot be opened is tried again at each change.
  explicit ChangeLog(std::string path, std::size_t max_bytes = kMaxBytes);
  ~ChangeLog();
  ChangeLog(const ChangeLog&) = delete;
  ChangeLog& operator=(const ChangeLog&) = delete;

  // Writes the line of a ChangeStep::change that is about to be made, and returns its number. On an
  // error there is no line. Errc::busy: it would be more than `changes_per_minute` changes of the
  // GPU in a minute.
  Result<std::uint64_t> begin(const ChangeLine& change, std::int64_t changes_per_minute);
  // Writes the line of the result: that of a failure at once, another with the next change or
  // within a moment. A setter that is killed first leaves a change without a result, which counts
  // as made.
  void finish(std::uint64_t number, const CommandReply&);
  // Writes the results that wait.
  void flush();
  // Counts a change that is made though begin() failed.
  void record_missed(const ChangeLine& change);

  // Returns the time until the GPU may be changed again, if `changes_per_minute` are allowed.
  std::optional<Duration> rate_limit_delay(const DeviceId&, std::int64_t changes_per_minute) const;
  // True if the GPU had this value before a setter changed it.
  bool was_earlier_value(const DeviceId&, SettingKind, const std::optional<SettingValue>&) const;

 private:
  using Key = std::pair<DeviceId, SettingKind>;
  struct ValueHistory {
    std::optional<SettingValue> written;
    std::deque<SettingValue> earlier;  // that no setter has written, newest last
  };
  static constexpr std::size_t kMaxEarlierValues = 4;
  static constexpr std::size_t kMaxResults = 256;

  Result<void> lock_and_refresh() REQUIRES(mutex_);
  void unlock() REQUIRES(mutex_);
  Result<void> open() REQUIRES(mutex_);
  void read_new_lines() REQUIRES(mutex_);
  void apply_line(const ChangeLine&) REQUIRES(mutex_);
  std::optional<Duration> rate_limit_delay_locked(const DeviceId&,
                                                  std::int64_t changes_per_minute) const
      REQUIRES(mutex_);
  void record_change(const DeviceId&, TimePoint) REQUIRES(mutex_);
  Result<void> append(std::vector<ChangeLine>) REQUIRES(mutex_);
  ChangeLine start_line() const REQUIRES(mutex_);
  void write_results() REQUIRES(mutex_);
  Result<void> write(const std::string& lines) REQUIRES(mutex_);
  Result<void> rotate() REQUIRES(mutex_);
  void schedule_sync() REQUIRES(mutex_);
  void run_sync_loop(const std::stop_token&);

  const std::string path_;
  const std::size_t max_bytes_;
  const std::string boot_;

  mutable Mutex mutex_;
  UniqueFd file_ GUARDED_BY(mutex_);
  std::size_t read_bytes_ GUARDED_BY(mutex_) = 0;  // bytes of the file that are known
  bool torn_ GUARDED_BY(mutex_) = false;           // the last line has no end
  std::string hash_ GUARDED_BY(mutex_);            // of the last line
  std::uint64_t number_ GUARDED_BY(mutex_) = 0;
  bool started_ GUARDED_BY(mutex_) = false;  // this setter has written its first line
  std::uint64_t missed_ GUARDED_BY(mutex_) = 0;
  WallTime missed_since_ GUARDED_BY(mutex_){};
  std::map<DeviceId, std::deque<TimePoint>> recent_changes_ GUARDED_BY(mutex_);
  std::map<Key, ValueHistory> histories_ GUARDED_BY(mutex_);
  std::string file_boot_ GUARDED_BY(mutex_);  // of the lines read last

  std::vector<ChangeLine> results_ GUARDED_BY(mutex_);  // to be written
  bool dirty_ GUARDED_BY(mutex_) = false;
  std::condition_variable_any sync_wakeup_;
  std::jthread sync_thread_;  // last: uses the members above
};

// The contents of a log, for a comparison with the audit.
struct LoggedChanges {
  std::vector<ChangeLine> lines;    // oldest first
  std::vector<std::string> faults;  // what does not fit together
};
// Reads PATH.1 and PATH. Errc::not_found: there is no log.
Result<LoggedChanges> read_change_log(const std::string& path);

}  // namespace gpuyard::driver
