#include "gpu/driver/change_log.h"

#include <fcntl.h>
#include <openssl/sha.h>
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

namespace gpuyard::driver {
namespace {

constexpr std::size_t kHashDigits = std::size_t{2} * SHA256_DIGEST_LENGTH;
constexpr Duration kMinute = std::chrono::minutes(1);
constexpr Duration kSyncDelay = std::chrono::milliseconds(100);

std::string hash_of(const std::string& previous, std::string_view text) {
  const std::string chained = previous + std::string(text);
  std::array<unsigned char, SHA256_DIGEST_LENGTH> bytes{};
  ::SHA256(reinterpret_cast<const unsigned char*>(chained.data()), chained.size(), bytes.data());
  return fmt::format("{:02x}", fmt::join(bytes, ""));
}

struct Split {
  std::string hash;
  std::string_view text;  // the JSON
};

// Splits "HASH JSON"; nothing for a line of another form.
std::optional<Split> split(std::string_view line) {
  if (line.size() <= kHashDigits || line[kHashDigits] != ' ') return std::nullopt;
  const std::string_view hash = line.substr(0, kHashDigits);
  if (hash.find_first_not_of("0123456789abcdef") != hash.npos) return std::nullopt;
  return Split{std::string(hash), line.substr(kHashDigits + 1)};
}

// Calls told(line) for each line with an end, and returns the length of these lines.
template <class Told>
std::size_t each_line(std::string_view text, Told&& told) {
  std::size_t from = 0;
  for (std::size_t end = text.find('\n'); end != text.npos; end = text.find('\n', from)) {
    told(text.substr(from, end - from));
    from = end + 1;
  }
  return from;
}

}  // namespace

ChangeLog::ChangeLog(std::string path, std::size_t most_bytes)
    : path_(std::move(path)), most_bytes_(most_bytes), boot_(boot_id()) {
  if (const auto before = read_file(path_ + ".1", most_bytes_ + kMostBytes)) {
    each_line(*before, [&](std::string_view line) {
      const auto parts = split(line);
      const auto read = parts ? json::from_json<ChangeLine>(parts->text)
                              : Result<ChangeLine>(Error{Errc::invalid, ""});
      // The next file goes on from here, also if the setter that began it was killed at once.
      if (parts) hash_ = parts->hash;
      if (read) learn(*read);
    });
  }
  if (auto opened = lock_and_catch_up(); !opened) {
    log::warning("the log of changes cannot be written: {}", opened.error().text());
  } else {
    unlock();
  }
  syncs_ = std::jthread([this](const std::stop_token& stop) { sync(stop); });
}

ChangeLog::~ChangeLog() = default;

Result<void> ChangeLog::open() {
  UniqueFd file(::open(path_.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) return system_error("opening " + path_);
  struct stat info{};
  if (::fstat(file.get(), &info) != 0) return system_error("opening " + path_);
  if (!S_ISREG(info.st_mode) || info.st_uid != ::geteuid() || (info.st_mode & 077U) != 0) {
    return Error{Errc::denied, path_ + " is not a file of this user with mode 0600"};
  }
  file_ = std::move(file);
  read_ = 0;
  return {};
}

// Takes the lock of the file, also if another setter has just put a new file in its place, and
// reads the lines that others have written.
Result<void> ChangeLog::lock_and_catch_up() {
  constexpr int kTries = 200;
  constexpr timespec kPause{0, 10'000'000};
  for (int tries = 0; tries < kTries; ++tries) {
    if (!file_) {
      if (auto opened = open(); !opened) return opened;
    }
    if (::flock(file_.get(), LOCK_EX | LOCK_NB) != 0) {
      ::nanosleep(&kPause, nullptr);
      continue;
    }
    struct stat ours{};
    struct stat named{};
    if (::fstat(file_.get(), &ours) == 0 && ::lstat(path_.c_str(), &named) == 0 &&
        ours.st_ino == named.st_ino && ours.st_dev == named.st_dev) {
      if (static_cast<std::size_t>(ours.st_size) != read_) read_on();
      return {};
    }
    file_.reset();
  }
  return Error{Errc::busy, path_ + " is locked by another process"};
}

void ChangeLog::unlock() {
  ::flock(file_.get(), LOCK_UN);
}

void ChangeLog::read_on() {
  std::string text;
  std::array<char, 65'536> chunk{};
  for (std::size_t at = read_;;) {
    const ssize_t got = ::pread(file_.get(), chunk.data(), chunk.size(), static_cast<off_t>(at));
    if (got <= 0) break;
    at += static_cast<std::size_t>(got);
    text.append(chunk.data(), static_cast<std::size_t>(got));
  }
  const std::size_t whole = each_line(text, [&](std::string_view line) {
    const auto parts = split(line);
    if (!parts) return;
    hash_ = parts->hash;
    if (const auto read = json::from_json<ChangeLine>(parts->text)) learn(*read);
  });
  torn_ = whole != text.size();
  read_ += text.size();
}

void ChangeLog::learn(const ChangeLine& line) {
  number_ = std::max(number_, line.number);
  if (line.step == ChangeStep::start) file_boot_ = line.boot;
  if (line.step != ChangeStep::change) return;
  // Times of an earlier boot are another clock's.
  if (file_boot_ == boot_) {
    count(line.gpu, TimePoint(std::chrono::milliseconds(line.since_boot_ms)));
  }
  if (!line.setting) return;
  Past& past = past_[{line.gpu, *line.setting}];
  if (line.before && line.before != past.written &&
      std::ranges::find(past.before, *line.before) == past.before.end()) {
    past.before.push_back(*line.before);
    if (past.before.size() > kKeptBefore) past.before.pop_front();
  }
  past.written = line.value;
}

void ChangeLog::count(const DeviceId& gpu, TimePoint at) {
  auto& times = recent_[gpu];
  while (!times.empty() && times.front() + kMinute <= at) times.pop_front();
  times.push_back(at);
}

Result<void> ChangeLog::rotate() {
  if (::rename(path_.c_str(), (path_ + ".1").c_str()) != 0)
    return system_error("renaming " + path_);
  ::flock(file_.get(), LOCK_UN);
  file_.reset();
  started_ = false;
  return lock_and_catch_up();
}

// The caller has the lock of the file.
Result<void> ChangeLog::append(ChangeLine line) {
  if (read_ >= most_bytes_) {
    if (auto rotated = rotate(); !rotated) return rotated;
  }
  if (!started_ && line.step != ChangeStep::start) {
    ChangeLine first;
    first.boot = boot_;
    first.previous = hash_;
    if (auto begun = append(std::move(first)); !begun) return begun;
  }
  line.number = number_ + 1;
  line.at = to_rfc3339(wall_now());
  line.since_boot_ms = BootClock::now().time_since_epoch() / std::chrono::milliseconds(1);
  const std::string text = json::to_json(line);
  const std::string hash = hash_of(hash_, text);
  if (auto written = write(fmt::format("{}{} {}\n", torn_ ? "\n" : "", hash, text)); !written) {
    return written;
  }
  started_ = true;
  torn_ = false;
  hash_ = hash;
  learn(line);
  sync_soon();
  return {};
}

Result<void> ChangeLog::write(const std::string& line) {
  const ssize_t put = ::write(file_.get(), line.data(), line.size());
  if (put == static_cast<ssize_t>(line.size())) {
    read_ += line.size();
    return {};
  }
  auto error = put < 0 ? system_error("writing " + path_)
                       : Error{Errc::unavailable, "writing " + path_ + ": the disk is full"};
  if (put > 0 && ::ftruncate(file_.get(), static_cast<off_t>(read_)) != 0) {
    read_ += static_cast<std::size_t>(put);
    torn_ = true;
  }
  return error;
}

Result<std::uint64_t> ChangeLog::begin(const Change& change, std::int64_t a_minute) {
  const std::lock_guard lock(mutex_);
  if (auto locked = lock_and_catch_up(); !locked) return std::move(locked).error();
  // Counted here, with the changes of other setters.
  if (wait_for_room(change.gpu, a_minute)) {
    unlock();
    return Error{Errc::busy, "too many changes"};
  }
  Result<void> done;
  if (missed_ > 0) {
    ChangeLine missed;
    missed.step = ChangeStep::missed;
    missed.of = missed_;
    missed.missed_since = to_rfc3339(missed_since_);
    done = append(std::move(missed));
    if (done) missed_ = 0;
  }
  ChangeLine line;
  line.step = ChangeStep::change;
  line.gpu = change.gpu;
  line.setting = change.setting;
  line.before = change.before;
  line.value = change.value;
  line.puts_back = change.puts_back;
  if (done) done = append(std::move(line));
  const std::uint64_t number = number_;
  unlock();
  if (!done) return std::move(done).error();
  return number;
}

void ChangeLog::end(std::uint64_t number, const CommandReply& reply) {
  ChangeLine line;
  line.step = reply.failure ? ChangeStep::failed : ChangeStep::done;
  line.gpu = reply.device;
  line.of = number;
  if (!reply.failure && reply.after) line.value = reply.after->now;
  const std::lock_guard lock(mutex_);
  if (auto locked = lock_and_catch_up(); !locked) return;
  // Without its result a change counts as made.
  static_cast<void>(append(std::move(line)).ok());
  unlock();
}

void ChangeLog::miss(const Change& change) {
  const std::lock_guard lock(mutex_);
  if (missed_++ == 0) missed_since_ = wall_now();
  count(change.gpu, BootClock::now());
  if (change.setting) past_[{change.gpu, *change.setting}].written = change.value;
}

std::optional<Duration> ChangeLog::until_room(const DeviceId& gpu, std::int64_t a_minute) const {
  const std::lock_guard lock(mutex_);
  return wait_for_room(gpu, a_minute);
}

std::optional<Duration> ChangeLog::wait_for_room(const DeviceId& gpu, std::int64_t a_minute) const {
  const auto found = recent_.find(gpu);
  if (found == recent_.end()) return std::nullopt;
  const auto& times = found->second;
  const auto most = static_cast<std::size_t>(a_minute);
  if (times.size() < most) return std::nullopt;
  const Duration left = times[times.size() - most] + kMinute - BootClock::now();
  return left > Duration(0) ? std::optional(left) : std::nullopt;
}

bool ChangeLog::had_before(const DeviceId& gpu, SettingKind kind,
                           const std::optional<SettingValue>& value) const {
  const std::lock_guard lock(mutex_);
  const auto found = past_.find({gpu, kind});
  return value && found != past_.end() &&
         std::ranges::find(found->second.before, *value) != found->second.before.end();
}

void ChangeLog::sync_soon() {
  if (!std::exchange(dirty_, true)) written_.notify_all();
}

// A power cut takes the last lines, as it takes the last lines of the audit: both are on the disk
// within a moment.
void ChangeLog::sync(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  for (;;) {
    written_.wait(lock, stop, [&] { return dirty_; });
    if (!dirty_) return;
    written_.wait_for(lock, stop, kSyncDelay, [] { return false; });
    dirty_ = false;
    const UniqueFd file(::fcntl(file_.get(), F_DUPFD_CLOEXEC, 0));
    lock.unlock();
    if (file) ::fdatasync(file.get());
    lock.lock();
  }
}

namespace {

class ChainReader {
 public:
  explicit ChainReader(LoggedChanges& into) : into_(into) {}

  void read(const std::string& file, std::string_view text) {
    std::size_t place = 0;
    // A line without an end is being written.
    each_line(text, [&](std::string_view line) { take(file, ++place, line); });
  }
  void finish() {
    if (broken_) into_.faults.push_back(*std::exchange(broken_, std::nullopt));
  }

 private:
  void take(const std::string& file, std::size_t place, std::string_view line) {
    const auto parts = split(line);
    auto read = parts ? json::from_json<ChangeLine>(parts->text)
                      : Result<ChangeLine>(Error{Errc::invalid, ""});
    if (!read) {
      finish();
      broken_ = fmt::format("{}:{}: the line is not readable", file, place);
      return;
    }
    check(file, place, *parts, *read);
    hash_ = parts->hash;
    number_ = read->number;
    into_.lines.push_back(*std::move(read));
  }

  void check(const std::string& file, std::size_t place, const Split& parts,
             const ChangeLine& line) {
    const bool starts = line.step == ChangeStep::start;
    // A power cut tears the last line of a boot.
    if (broken_ && starts && line.previous == hash_) broken_.reset();
    finish();
    // Lines before the oldest one were removed when the log became too long.
    if (!hash_ && starts) hash_ = line.previous;
    const auto fault = [&](std::string_view what) {
      into_.faults.push_back(fmt::format("{}:{}: {}", file, place, what));
    };
    if (hash_of(hash_.value_or(""), parts.text) != parts.hash) {
      fault("the line does not match its hash, or lines before it are missing");
    } else if (number_ && line.number != *number_ + 1) {
      fault(fmt::format("the number {} follows {}", line.number, *number_));
    }
  }

  LoggedChanges& into_;
  std::optional<std::string> hash_;
  std::optional<std::uint64_t> number_;
  std::optional<std::string> broken_;
};

}  // namespace

Result<LoggedChanges> read_change_log(const std::string& path) {
  constexpr std::size_t kMost = 2 * ChangeLog::kMostBytes;
  LoggedChanges changes;
  ChainReader reader(changes);
  bool any = false;
  for (const std::string& file : {path + ".1", path}) {
    const auto text = read_file(file, kMost);
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
