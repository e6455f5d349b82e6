// The certificate of the daemon: read at the start, and again when its files change, at SIGHUP and
// once an hour. New connections get the new one; where it is no good, they get the old one, and the
// log, /ready and the metrics say why. Until there is a good one, nobody listens for TLS. A
// certificate of our own making is renewed with the same key.
#pragma once

#include <functional>
#include <memory>
#include <optional>
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
  static constexpr Duration kAgain = std::chrono::seconds(10);  // while the files are no good

  // A wall clock that is this far from what it should say dates no certificate: the certificate
  // would be of no use once the clock is right. It should not say less than before, but for the
  // few corrections of a time service.
  static constexpr std::chrono::days kFarOff{365};
  static constexpr std::chrono::hours kSetBack{1};

  // The references outlive it.
  TlsFeed(Loop& loop, Worker& worker, const config::Config& config);

  // Reads the files, before the loop turns. Calls `usable` once there is a certificate to show:
  // inside this call, or when the files are mended.
  void open(std::function<void()> usable);
  const std::shared_ptr<http::TlsDoor>& door() const { return door_; }
  void reload();
  void note(const http::Counters&);
  const metrics::TlsFigures& figures() const { return figures_; }

  // The wall clock at one reading of the files, and what may be dated by it.
  struct Dating {
    WallTime now;
    bool renewals = true;     // of a certificate that ends
    bool corrections = true;  // of one that begins in the future
  };

 private:
  using Identity = std::shared_ptr<const http::ServerIdentity>;

  Dating dating();
  void follow_files();
  void watch_directories();
  void on_changes();
  void take(const Result<Identity>&);
  void refuse(const Error&);

  Loop& loop_;
  Worker& worker_;
  http::IdentityFiles files_;
  std::shared_ptr<http::TlsDoor> door_ = std::make_shared<http::TlsDoor>();
  std::function<void()> usable_;
  metrics::TlsFigures figures_;
  // What the wall clock said when it was last right, as far as is known: of the newest write to the
  // state, and then of each reading at which it fitted.
  struct Known {
    WallTime wall;
    TimePoint at;
  };
  std::optional<Known> known_;
  bool reading_ = false;
  bool again_ = false;  // something changed while it was read
  UniqueFd changes_;    // inotify's
  Subscription watch_;
  Subscription settled_;
  Subscription next_;
  Lifetime here_;
};

}  // namespace gpuyard::daemon
