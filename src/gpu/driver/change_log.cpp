#include "gpu/driver/change_log.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include <fmt/format.h>

#include "base/files.h"
#include "base/json_reader.h"
#include "base/json_writer.h"
#include "base/log.h"
#include "base/proc_stat.h"
#include "base/sha256.h"
#include "base/try.h"

namespace gpuyard::driver {
namespace {

constexpr std::string_view kHexDigits = "0123456789abcdef";
constexpr Duration kMinute = std::chrono::minutes(1);
constexpr Duration kSyncDelay = std::chrono::milliseconds(100);

std::string hash_of(const std::string& previous, std::string_view text) {
  return sha256_hex(previous + std::string(text));
}

struct HashedLine {
  std::string hash;
  std::string_view text;  // the JSON
};

// Splits "HASH JSON"; nothing for a line of another form.
std::optional<HashedLine> split_line(std::string_view line) {
  if (line.size() <= kSha256HexDigits || line[kSha256HexDigits] != ' ') return std::nullopt;
  const std::string_view hash = line.substr(0, kSha256HexDigits);
  if (hash.find_first_not_of(kHexDigits) != hash.npos) return std::nullopt;
  return HashedLine{std::string(hash), line.substr(kSha256HexDigits + 1)};
}

// Takes the first line off the text; nothing if no line in it has an end.
std::optional<std::string_view> take_line(std::string_view& text) {
  const std::size_t end = text.find('\n');
  if (end == text.npos) return std::nullopt;
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end + 1);
  return line;
}

class ChainReader {
 public:
  explicit ChainReader(LoggedChanges& result) : result_(result) {}

  void read(const std::string& file, std::string_view text) {
    std::size_t line_number = 0;
    // A line without an end is being written.
    while (const auto line = take_line(text)) read_line(file, ++line_number, *line);
  }
  void finish() {
    if (broken_line_) result_.faults.push_back(*std::exchange(broken_line_, std::nullopt));
  }

 private:
  void read_line(const std::string& file, std::size_t line_number, std::string_view line) {
    const auto parts = split_line(line);
    auto read = parts ? json::from_json<ChangeLine>(parts->text)
                      : Result<ChangeLine>(Error{Errc::invalid, ""});
    if (!read) {
      finish();
      broken_line_ = fmt::format("{}:{}: the line is not readable", file, line_number);
      return;
    }
    check(file, line_number, *parts, *read);
    hash_ = parts->hash;
    number_ = read->number;
    result_.lines.push_back(*std::move(read));
  }

  void check(const std::string& file, std::size_t line_number, const HashedLine& parts,
             const ChangeLine& line) {
    const bool starts = line.step == ChangeStep::start;
    // A power cut tears the last line of a boot.
    if (broken_line_ && starts && line.previous == hash_) broken_line_.reset();
    finish();
    // Lines before the oldest one were removed when the log became too long.
    if (!hash_ && starts) hash_ = line.previous;
    const auto fault = [&](std::string_view what) {
      result_.faults.push_back(fmt::format("{}:{}: {}", file, line_number, what));
    };
    if (hash_of(hash_.value_or(""), parts.text) != parts.hash) {
      fault("the line does not match its hash, or lines before it are missing");
    } else if (number_ && line.number != *number_ + 1) {
      fault(fmt::format("the number {} follows {}", line.number, *number_));
    }
  }

  LoggedChanges& result_;
  std::optional<std::string> hash_;
  std::optional<std::uint64_t> number_;
  std::optional<std::string> broken_line_;
};

}  // namespace

ChangeLog::ChangeLog(std::string path, std::size_t max_bytes)
    : path_(std::move(path)), max_bytes_(max_bytes), boot_(boot_id()) {
  if (const auto before = read_file(path_ + ".1", max_bytes_ + kMaxBytes)) {
    std::string_view rest = *before;
    while (const auto line = take_line(rest)) {
      const auto parts = split_line(*line);
      const auto read = parts ? json::from_json<ChangeLine>(parts->text)
                              : Result<ChangeLine>(Error{Errc::invalid, ""});
      // The next file goes on from here, also if the setter that began it was killed at once.
      if (parts) hash_ = parts->hash;
      if (read) apply_line(*read);
    }
  }
  if (auto opened = lock_and_refresh(); !opened) {
    log::warning("the log of changes cannot be written: {}", opened.error().text());
  } else {
    unlock();
  }
  sync_thread_ = std::jthread([this](const std::stop_token& stop) { run_sync_loop(stop); });
}

ChangeLog::~ChangeLog() {
  flush();
}

Result<void> ChangeLog::open() {
  UniqueFd file(::open(path_.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) return system_error("opening " + path_);
  struct stat info{};
  if (::fstat(file.get(), &info) != 0) return system_error("opening " + path_);
  if (!S_ISREG(info.st_mode) || info.st_uid != ::geteuid() || (info.st_mode & 077U) != 0) {
    return Error{Errc::denied, path_ + " is not a file of this user with mode 0600"};
  }
  file_ = std::move(file);
  read_bytes_ = 0;
  return {};
}

// Takes the lock of the file, also if another setter has just put a new file in its place, and
// reads the lines that others have written.
Result<void> ChangeLog::lock_and_refresh() {
  constexpr int kMaxAttempts = 200;
  constexpr timespec kPause{0, 10'000'000};
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
    if (!file_) {
      GPUYARD_TRY(open());
    }
    if (::flock(file_.get(), LOCK_EX | LOCK_NB) != 0) {
      ::nanosleep(&kPause, nullptr);
      continue;
    }
    struct stat ours{};
    struct stat named{};
    if (::fstat(file_.get(), &ours) == 0 && ::lstat(path_.c_str(), &named) == 0 &&
        ours.st_ino == named.st_ino && ours.st_dev == named.st_dev) {
      if (static_cast<std::size_t>(ours.st_size) != read_bytes_) read_new_lines();
      return {};
    }
    file_.reset();
  }
  return Error{Errc::busy, path_ + " is locked by another process"};
}

void ChangeLog::unlock() {
  ::flock(file_.get(), LOCK_UN);
}

void ChangeLog::read_new_lines() {
  std::string text;
  std::array<char, 65'536> chunk{};
  for (std::size_t at = read_bytes_;;) {
    const ssize_t got = ::pread(file_.get(), chunk.data(), chunk.size(), static_cast<off_t>(at));
    if (got <= 0) break;
    at += static_cast<std::size_t>(got);
    text.append(chunk.data(), static_cast<std::size_t>(got));
  }
  std::string_view rest = text;
  while (const auto line = take_line(rest)) {
    const auto parts = split_line(*line);
    if (!parts) continue;
    hash_ = parts->hash;
    if (const auto read = json::from_json<ChangeLine>(parts->text)) apply_line(*read);
  }
  torn_ = !rest.empty();
  read_bytes_ += text.size();
}

void ChangeLog::apply_line(const ChangeLine& line) {
  number_ = std::max(number_, line.number);
  if (line.step == ChangeStep::start) file_boot_ = line.boot;
  if (line.step != ChangeStep::change) return;
  // Times of an earlier boot are another clock's.
  if (file_boot_ == boot_) {
    record_change(line.gpu, TimePoint(std::chrono::milliseconds(line.since_boot_ms)));
  }
  if (!line.setting) return;
  ValueHistory& past = histories_[{line.gpu, *line.setting}];
  if (line.before && line.before != past.written &&
      std::ranges::find(past.earlier, *line.before) == past.earlier.end()) {
    past.earlier.push_back(*line.before);
    if (past.earlier.size() > kMaxEarlierValues) past.earlier.pop_front();
  }
  past.written = line.value;
}

void ChangeLog::record_change(const DeviceId& gpu, TimePoint at) {
  auto& times = recent_changes_[gpu];
  while (!times.empty() && times.front() + kMinute <= at) times.pop_front();
  times.push_back(at);
}

Result<void> ChangeLog::rotate() {
  if (::rename(path_.c_str(), (path_ + ".1").c_str()) != 0)
    return system_error("renaming " + path_);
  ::flock(file_.get(), LOCK_UN);
  file_.reset();
  started_ = false;
  return lock_and_refresh();
}

ChangeLine ChangeLog::start_line() const {
  ChangeLine line;
  line.boot = boot_;
  line.previous = hash_;
  return line;
}

// Appends all of these lines or none, in one write. The caller has the lock of the file.
Result<void> ChangeLog::append(std::vector<ChangeLine> lines) {
  if (read_bytes_ >= max_bytes_) {
    GPUYARD_TRY(rotate());
  }
  if (!started_) lines.insert(lines.begin(), start_line());
  const std::string at = to_rfc3339(wall_now());
  const std::int64_t since_boot_ms =
      BootClock::now().time_since_epoch() / std::chrono::milliseconds(1);
  std::uint64_t number = number_;
  std::string hash = hash_;
  std::string text = torn_ ? "\n" : "";
  for (ChangeLine& line : lines) {
    line.number = ++number;
    line.at = at;
    line.since_boot_ms = since_boot_ms;
    const std::string json = json::to_json(line);
    hash = hash_of(hash, json);
    text.append(hash).append(" ").append(json).append("\n");
  }
  GPUYARD_TRY(write(text));
  started_ = true;
  torn_ = false;
  hash_ = hash;
  for (const ChangeLine& line : lines) apply_line(line);
  schedule_sync();
  return {};
}

Result<void> ChangeLog::write(const std::string& lines) {
  const ssize_t written = ::write(file_.get(), lines.data(), lines.size());
  if (written == static_cast<ssize_t>(lines.size())) {
    read_bytes_ += lines.size();
    return {};
  }
  auto error = written < 0 ? system_error("writing " + path_)
                           : Error{Errc::unavailable, "writing " + path_ + ": the disk is full"};
  // If truncating fails, lock_and_refresh() detects the torn line before the next append.
  if (written > 0) {
    [[maybe_unused]] const int cut = ::ftruncate(file_.get(), static_cast<off_t>(read_bytes_));
  }
  return error;
}

Result<std::uint64_t> ChangeLog::begin(const ChangeLine& change, std::int64_t changes_per_minute) {
  const MutexLock lock(mutex_);
  GPUYARD_TRY(lock_and_refresh());
  // Counted here, with the changes of other setters.
  if (rate_limit_delay_locked(change.gpu, changes_per_minute)) {
    unlock();
    return Error{Errc::busy, "too many changes"};
  }
  std::vector<ChangeLine> lines = results_;
  if (missed_ > 0) {
    ChangeLine& missed = lines.emplace_back();
    missed.step = ChangeStep::missed;
    missed.of = missed_;
    missed.missed_since = to_rfc3339(missed_since_);
  }
  lines.push_back(change);
  auto done = append(std::move(lines));
  unlock();
  if (!done) return std::move(done).error();
  results_.clear();
  missed_ = 0;
  return number_;
}

void ChangeLog::finish(std::uint64_t number, const CommandReply& reply) {
  ChangeLine line;
  line.step = reply.failure ? ChangeStep::failed : ChangeStep::done;
  line.gpu = reply.device;
  line.of = number;
  if (!reply.failure && reply.after) line.value = reply.after->now;
  const MutexLock lock(mutex_);
  // A disk that stays full must not fill the memory.
  if (results_.size() >= kMaxResults) results_.erase(results_.begin());
  results_.push_back(std::move(line));
  if (reply.failure) return write_results();
  schedule_sync();
}

void ChangeLog::flush() {
  const MutexLock lock(mutex_);
  write_results();
}

void ChangeLog::write_results() {
  if (results_.empty() || !lock_and_refresh()) return;
  if (append(results_)) results_.clear();
  unlock();
}

void ChangeLog::record_missed(const ChangeLine& change) {
  const MutexLock lock(mutex_);
  if (missed_++ == 0) missed_since_ = wall_now();
  record_change(change.gpu, BootClock::now());
  if (change.setting) histories_[{change.gpu, *change.setting}].written = change.value;
}

std::optional<Duration> ChangeLog::rate_limit_delay(const DeviceId& gpu,
                                                    std::int64_t changes_per_minute) const {
  const MutexLock lock(mutex_);
  return rate_limit_delay_locked(gpu, changes_per_minute);
}

std::optional<Duration> ChangeLog::rate_limit_delay_locked(const DeviceId& gpu,
                                                           std::int64_t changes_per_minute) const {
  const auto found = recent_changes_.find(gpu);
  if (found == recent_changes_.end()) return std::nullopt;
  const auto& times = found->second;
  const auto max_changes = static_cast<std::size_t>(changes_per_minute);
  if (times.size() < max_changes) return std::nullopt;
  const Duration left = times[times.size() - max_changes] + kMinute - BootClock::now();
  return left > Duration(0) ? std::optional(left) : std::nullopt;
}

bool ChangeLog::was_earlier_value(const DeviceId& gpu, SettingKind kind,
                                  const std::optional<SettingValue>& value) const {
  const MutexLock lock(mutex_);
  const auto found = histories_.find({gpu, kind});
  return value && found != histories_.end() &&
         std::ranges::find(found->second.earlier, *value) != found->second.earlier.end();
}

void ChangeLog::schedule_sync() {
  if (!std::exchange(dirty_, true)) sync_wakeup_.notify_all();
}

// A power cut takes the last lines, as it takes the last lines of the audit: both are on the disk
// within a moment.
void ChangeLog::run_sync_loop(const std::stop_token& stop) {
  MutexLock lock(mutex_);
  for (;;) {
    sync_wakeup_.wait(mutex_, stop, [&]() REQUIRES(mutex_) { return dirty_; });
    if (!dirty_) return;
    sync_wakeup_.wait_for(mutex_, stop, kSyncDelay, [] { return false; });
    write_results();
    dirty_ = !results_.empty() && !stop.stop_requested();
    const UniqueFd file(::fcntl(file_.get(), F_DUPFD_CLOEXEC, 0));
    lock.unlock();
    if (file) ::fdatasync(file.get());
    lock.lock();
  }
}

Result<LoggedChanges> read_change_log(const std::string& path) {
  constexpr std::size_t kMaxFileBytes = 2 * ChangeLog::kMaxBytes;
  LoggedChanges changes;
  ChainReader reader(changes);
  bool any = false;
  for (const std::string& file : {path + ".1", path}) {
    const auto text = read_file(file, kMaxFileBytes);
    if (!text && text.error().code == Errc::not_found) continue;
    if (!text) return text.error();
    any = true;
    reader.read(file, *text);
  }
  if (!any) return Error{Errc::not_found, "log of changes not found: " + path};
  reader.finish();
  return changes;
}

}  // namespace gpuyard::driver
