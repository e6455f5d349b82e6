#include "faces/fleet/fan_out.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

#include <fmt/format.h>

#include "base/text.h"
#include "faces/protocol/routes.h"

namespace gpuyard::fleet {

Result<http::Endpoint> way_to(const Host& host, const Manner& manner) {
  if (!host.problem.empty()) return Error{Errc::unavailable, host.problem};
  client::Keys keys = manner.keys;
  keys.many = true;
  if (host.from_strangers) {
    keys.token.clear();
    keys.token_file.clear();
  }
  return client::daemon_called(host.url, keys);
}

Error with_audience(Error error, const http::Endpoint& daemon, const Manner& manner) {
  const bool asks =
      error.text().find("token") != std::string::npos;  // no code means a missing token
  const bool without = daemon.tls && daemon.tls->token.empty();
  const bool shared = !manner.keys.token.empty() || !manner.keys.token_file.empty();
  if (asks && without && shared) {
    error.cause = fmt::format(
        "{} is for one daemon and is not sent to several: set token_file for each host in "
        "hosts.toml, or set GPUYARD_TOKEN_FILE to a path with {{}} for the host name",
        manner.keys.token.empty() ? "the token of GPUYARD_TOKEN_FILE" : "GPUYARD_TOKEN");
  }
  return error;
}

Crew::Crew(std::size_t count, std::function<void(std::size_t)> work)
    : count_(count), work_(std::move(work)), bell_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  const std::size_t workers = std::min(count, kAtOnce);
  threads_.reserve(workers);
  for (std::size_t i = 0; i < workers; ++i) threads_.emplace_back([this] { work_off(); });
}

Crew::~Crew() {
  const std::scoped_lock lock(mutex_);
  next_ = count_;
}

void Crew::work_off() {
  while (true) {
    std::size_t mine = 0;
    {
      const std::scoped_lock lock(mutex_);
      if (next_ == count_) return;
      mine = next_++;
    }
    work_(mine);
    const std::scoped_lock lock(mutex_);
    ++done_;
    const std::uint64_t one = 1;
    static_cast<void>(::write(bell_.get(), &one, sizeof one));
  }
}

std::size_t Crew::done() {
  std::uint64_t rung = 0;
  static_cast<void>(::read(bell_.get(), &rung, sizeof rung));
  const std::scoped_lock lock(mutex_);
  return done_;
}

namespace {

// A daemon without the route answers as if there were nothing.
Error too_old(const http::Endpoint& daemon, const Manner& manner) {
  const auto health = client::call(daemon, protocol::kHealth, {}, {}, manner.answer, kMostAnswer);
  return {
      Errc::unsupported,
      fmt::format("{}: its gpuyard{} is too old for fleet commands; install a newer version there",
                  daemon.text(), health ? " " + printable(health->version) : "")};
}

}  // namespace

Result<protocol::Brief> ask_brief(const http::Endpoint& daemon, const Manner& manner) {
  auto brief = client::call(daemon, protocol::kBrief, {}, {}, manner.answer, kMostBrief);
  if (!brief && brief.error().code == Errc::not_found) return too_old(daemon, manner);
  return brief;
}

}  // namespace gpuyard::fleet
