// The certificate of the daemon: read at the start, and again when its files change, at SIGHUP and
// once an hour. New connections get the new one; where it is no good, they get the old one, and the
// log, /ready and the metrics say why. A certificate of our own making is renewed with the same
// key.
#pragma once

#include <memory>
#include <string>

#include "base/loop.h"
#include "base/unique_fd.h"
#include "base/worker.h"
#include "daemon/config/config.h"
#include "http/server.h"
#include "http/server_identity.h"
#include "metrics/figures.h"

namespace gpuyard::daemon {

// Lives on the io thread.
class TlsFeed {
 public:
  static constexpr Duration kSettled = std::chrono::milliseconds(100);  // after the last change
  static constexpr Duration kEvery = std::chrono::hours(1);

  // The references outlive it.
  TlsFeed(Loop& loop, Worker& worker, const config::Config& config);

  // Reads the files, before the loop turns. The error names the file and says what to do.
  Result<void> open();
  const std::shared_ptr<http::TlsDoor>& door() const { return door_; }
  void reload();
  void note(const http::Counters&);
  const metrics::TlsFigures& figures() const { return figures_; }

 private:
  using Identity = std::shared_ptr<const http::ServerIdentity>;

  void follow_files();
  void on_changes();
  void take(const Result<Identity>&);

  Loop& loop_;
  Worker& worker_;
  http::IdentityFiles files_;
  bool is_ours_;  // made by `gpuyard tls init`, and ours to renew
  std::shared_ptr<http::TlsDoor> door_;
  metrics::TlsFigures figures_;
  bool reading_ = false;
  bool again_ = false;  // something changed while it was read
  UniqueFd changes_;    // inotify's
  Subscription watch_;
  Subscription settled_;
  Subscription hourly_;
  Lifetime here_;
};

}  // namespace gpuyard::daemon
