#include "gpu/events/kernel_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "base/files.h"
#include "base/log.h"
#include "base/text.h"
#include "gpu/device/device.h"

namespace gpuyard::events {
namespace {

constexpr const char* kTooLong = "a record of the kernel's log was too long to read";

Duration monotonic_now() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

// Takes all text up to `end`, and `end`; returns nothing if `end` is missing.
std::optional<std::string_view> take_until(std::string_view& text, std::string_view end) {
  const std::size_t at = text.find(end);
  if (at == text.npos) return std::nullopt;
  const std::string_view taken = text.substr(0, at);
  text.remove_prefix(at + end.size());
  return taken;
}

// Takes "pid=123, " or "pid='<unknown>', ", with or without text after it.
std::optional<std::uint32_t> take_pid(std::string_view& text) {
  if (!take_prefix(text, "pid=")) return std::nullopt;
  take_prefix(text, "'");
  const auto pid = take_number<std::uint32_t>(text);
  if (!take_until(text, ", ")) text = {};
  return pid && *pid != 0 ? pid : std::nullopt;
}

}  // namespace

Result<UniqueFd> open_kernel_log(const std::string& path) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) return system_error("opening " + path);
  if (!S_ISCHR(info.st_mode) && !S_ISFIFO(info.st_mode)) {
    return Error{Errc::invalid, path + " is neither a device nor a FIFO"};
  }
  // Opens a FIFO for writing too: without a writer, every read would find its end.
  const int access = S_ISFIFO(info.st_mode) ? O_RDWR : O_RDONLY;
  auto fd = open_to_read(path, access | O_NONBLOCK);
  if (!fd) return fd;
  // Records from before the start are skipped. A FIFO has no end to seek to.
  static_cast<void>(::lseek(fd->get(), 0, SEEK_END));
  return fd;
}

TimePoint written_at(Duration stamp, Duration monotonic, TimePoint now) {
  const Duration age = monotonic - stamp;
  return age >= Duration::zero() && age <= KernelLog::kMaxRecordAge ? now - age : now;
}

KernelLog::KernelLog(Loop& loop, UniqueFd fd, Listener listener, Read read)
    : loop_(loop),
      fd_(std::move(fd)),
      listener_(std::move(listener)),
      read_(read != nullptr ? read : ::read) {
  readable_ = loop_.watch(fd_.get(), [this] { on_readable(); });
}

void KernelLog::on_readable() {
  for (int i = 0; i < kMaxReadsPerTurn && fd_; ++i) {
    if (!read_once()) return;
  }
}

// Returns false if there is nothing more for now.
bool KernelLog::read_once() {
  std::array<char, kMaxRecordBytes> bytes{};
  const ssize_t got = read_(fd_.get(), bytes.data(), bytes.size());
  if (got > 0) {
    take_lines({bytes.data(), static_cast<std::size_t>(got)});
    return true;
  }
  if (got == 0) return end("end of file"), false;
  switch (errno) {
    case EINTR:
      return true;
    case EAGAIN:
      return false;
    case EPIPE:  // overwritten before it was read; the next read starts with the oldest
      listener_.on_lost("some of the kernel's log was overwritten before it was read");
      return true;
    case EINVAL:  // longer than any record may be; the next read continues after it
      listener_.on_lost(kTooLong);
      return true;
    default:
      return end(system_error("reading").text()), false;
  }
}

void KernelLog::end(const std::string& why) {
  log::warning("no longer reading the kernel log: {}", why);
  readable_.reset();
  fd_.reset();
}

void KernelLog::take_lines(std::string_view bytes) {
  while (!bytes.empty()) {
    const std::size_t newline = bytes.find('\n');
    if (!skipping_) line_ += bytes.substr(0, newline);
    if (line_.size() > kMaxRecordBytes) {
      skipping_ = true;
      line_.clear();
      listener_.on_lost(kTooLong);
    }
    if (newline == bytes.npos) return;
    if (!std::exchange(skipping_, false)) take_line(line_);
    line_.clear();
    bytes.remove_prefix(newline + 1);
  }
}

void KernelLog::take_line(std::string_view line) {
  const auto record = parse_record(line);
  if (!record) return;
  const auto xid = parse_xid(record->message);
  if (xid) listener_.on_xid(*xid, written_at(record->stamp, monotonic_now(), loop_.now()));
}

std::optional<KernelRecord> parse_record(std::string_view line) {
  // Facility 1, level 0: records that the kernel did not write start here.
  constexpr std::uint32_t kFirstOfOthers = 8;
  const auto priority = take_number<std::uint32_t>(line);
  if (!priority || *priority >= kFirstOfOthers || !take_prefix(line, ",")) return std::nullopt;
  const auto sequence = take_number<std::uint64_t>(line);
  if (!sequence || !take_prefix(line, ",")) return std::nullopt;
  const auto microseconds = take_number<std::int64_t>(line);
  if (!microseconds || *microseconds < 0 || !take_prefix(line, ",")) return std::nullopt;
  if (*microseconds > Duration::max() / std::chrono::microseconds(1)) return std::nullopt;
  if (!take_until(line, ";")) return std::nullopt;
  return KernelRecord{std::chrono::microseconds(*microseconds), line};
}

std::optional<KernelXid> parse_xid(std::string_view message) {
  if (!take_prefix(message, "NVRM: Xid (")) return std::nullopt;
  take_prefix(message, "PCI:");
  auto place = take_until(message, ")");
  if (!place || !take_prefix(message, ": ")) return std::nullopt;
  KernelXid found;
  found.pci_address = place->substr(0, place->find(' '));
  if (!is_pci_slot(found.pci_address)) return std::nullopt;
  const auto number = take_number<std::uint32_t>(message);
  if (!number) return std::nullopt;
  found.xid = *number;
  take_prefix(message, ",");
  take_prefix(message, " ");
  found.pid = take_pid(message);
  if (take_prefix(message, "name=") && !take_until(message, ", ")) message = {};
  found.text = message;
  return found;
}

}  // namespace gpuyard::events
