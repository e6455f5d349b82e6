// The only file that includes spdlog: header-only use costs seconds per translation unit, so the
// cost is paid once, here.
#include "base/log.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <mutex>
#include <string>

#define SPDLOG_FMT_EXTERNAL
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

#include "base/text.h"

// spdlog formats with a fmt template that it does not instantiate; third_party/fmt_impl.cpp does.
extern template void fmt::detail::vformat_to(buffer<char>&, fmt::string_view,
                                             fmt::basic_format_args<fmt::buffer_context<char>>,
                                             fmt::detail::locale_ref);

namespace gpuyard::log {
namespace {

std::atomic<Capture> g_capture = nullptr;
std::atomic<Level> g_level = Level::info;

spdlog::level::level_enum spdlog_level(Level level) {
  switch (level) {
    case Level::debug:
      return spdlog::level::debug;
    case Level::info:
      return spdlog::level::info;
    case Level::warning:
      return spdlog::level::warn;
    case Level::error:
      break;
  }
  return spdlog::level::err;
}

// stderr may be a pipe whose reader has stopped, and the io thread must not wait for it. A line
// that does not fit now is lost; the next one that fits says how many were lost.
class NonBlockingSink final : public spdlog::sinks::base_sink<std::mutex> {
 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    std::string_view text(line.data(), std::min(line.size(), kMaxLineBytes));
    std::string with_losses;
    if (lost_lines_ > 0) {
      with_losses = fmt::format("({} log lines were lost)\n", lost_lines_).append(text);
      text = with_losses;
    }
    lost_lines_ = put(text) ? 0 : lost_lines_ + 1;
  }
  void flush_() override {}

  // A pipe that polls writable takes PIPE_BUF bytes at once.
  static bool put(std::string_view text) {
    pollfd writable{STDERR_FILENO, POLLOUT, 0};
    if (::poll(&writable, 1, 0) != 1 || (writable.revents & POLLOUT) == 0) return false;
    text = text.substr(0, PIPE_BUF);
    return ::write(STDERR_FILENO, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  }

  static constexpr std::size_t kMaxLineBytes = PIPE_BUF - 64;
  std::uint64_t lost_lines_ = 0;
};

spdlog::logger& logger() {
  static spdlog::logger instance = [] {
    spdlog::logger made("gpuyard", std::make_shared<NonBlockingSink>());
    made.set_level(spdlog::level::trace);
    made.set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %^%l%$ %v");
    return made;
  }();
  return instance;
}

}  // namespace

void set_level(Level level) {
  g_level = level;
}
bool is_enabled(Level level) {
  return level >= g_level.load(std::memory_order_relaxed);
}
void capture(Capture capture) {
  g_capture = capture;
}

void write(Level level, std::string_view text) {
  if (!is_enabled(level)) return;
  const std::string shown = printable(text);
  if (const Capture capture = g_capture) return capture(level, shown);
  logger().log(spdlog_level(level), spdlog::string_view_t(shown.data(), shown.size()));
}

}  // namespace gpuyard::log
