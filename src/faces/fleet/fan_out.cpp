#include "faces/fleet/fan_out.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

#include <fmt/format.h>

#include "base/text.h"
#include "faces/protocol/routes.h"

namespace gpuyard::fleet {

Result<http::Endpoint> endpoint_of(const Host& host, const FanOutOptions& options) {
  if (!host.problem.empty()) return Error{Errc::unavailable, host.problem};
  client::Credentials credentials = options.credentials;
  credentials.many_hosts = true;
  if (host.from_untrusted_source) {
    credentials.token.clear();
    credentials.token_file.clear();
  }
  return client::parse_daemon_address(host.url, credentials);
}

Error add_token_hint(Error error, const http::Endpoint& daemon, const FanOutOptions& options) {
  // No error code stands for a missing token.
  const bool asks = error.text().find("token") != std::string::npos;
  const bool lacks_token = daemon.tls && daemon.tls->token.empty();
  const bool shared = !options.credentials.token.empty() || !options.credentials.token_file.empty();
  if (asks && lacks_token && shared) {
    error.cause = fmt::format(
        "{} is for one daemon and is not sent to several: set token_file for each host in "
        "hosts.toml, or set GPUYARD_TOKEN_FILE to a path with {{}} for the host name",
        options.credentials.token.empty() ? "the token of GPUYARD_TOKEN_FILE" : "GPUYARD_TOKEN");
  }
  return error;
}

WorkerPool::WorkerPool(std::size_t count, std::function<void(std::size_t)> work)
    : count_(count), work_(std::move(work)), wakeup_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  const std::size_t workers = std::min(count, kMaxWorkers);
  threads_.reserve(workers);
  for (std::size_t i = 0; i < workers; ++i) threads_.emplace_back([this] { run_worker(); });
}

WorkerPool::~WorkerPool() {
  const MutexLock lock(mutex_);
  next_ = count_;
}

void WorkerPool::run_worker() {
  while (true) {
    std::size_t index = 0;
    {
      const MutexLock lock(mutex_);
      if (next_ == count_) return;
      index = next_++;
    }
    work_(index);
    const MutexLock lock(mutex_);
    ++completed_;
    const std::uint64_t one = 1;
    static_cast<void>(::write(wakeup_.get(), &one, sizeof one));
  }
}

std::size_t WorkerPool::completed_count() {
  std::uint64_t count = 0;
  static_cast<void>(::read(wakeup_.get(), &count, sizeof count));
  const MutexLock lock(mutex_);
  return completed_;
}

namespace {

// A daemon without the route answers as if there were nothing.
Error too_old_error(const http::Endpoint& daemon, const FanOutOptions& options) {
  const auto health =
      client::call(daemon, protocol::kHealth, {}, {}, options.reply_timeout, kMaxReplyBytes);
  return {
      Errc::unsupported,
      fmt::format("{}: its gpuyard{} is too old for fleet commands; install a newer version there",
                  daemon.text(), health ? " " + printable(health->version) : "")};
}

}  // namespace

Result<protocol::Brief> fetch_brief(const http::Endpoint& daemon, const FanOutOptions& options) {
  auto brief =
      client::call(daemon, protocol::kBrief, {}, {}, options.reply_timeout, kMaxBriefBytes);
  if (!brief && brief.error().code == Errc::not_found) return too_old_error(daemon, options);
  return brief;
}

}  // namespace gpuyard::fleet
