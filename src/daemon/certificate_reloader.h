// The certificate of the daemon: read at the start, and again when its files change, at SIGHUP and
// once an hour. New connections use the new one; if it is unusable, they use the old one, and the
// log, /ready and the metrics have the reason. Until there is a usable one, tls.listen is closed. A
// certificate that gpuyard created is renewed with the same key.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/lifetime.h"
#include "base/loop.h"
#include "base/unique_fd.h"
#include "base/worker.h"
#include "daemon/config/config.h"
#include "faces/metrics/daemon_metrics.h"
#include "io/http/server.h"
#include "io/http/server_identity.h"

namespace gpuyard::daemon {

// Thread: io.
class CertificateReloader {
 public:
  static constexpr Duration kSettleDelay = std::chrono::milliseconds(100);  // after the last change
  static constexpr Duration kReloadInterval = std::chrono::hours(1);
  static constexpr Duration kRetryDelay = std::chrono::seconds(10);  // while the files are unusable

  // A wall clock that is off by more than this dates no certificate, because the certificate would
  // be invalid once the clock is right. A clock should never go back, except for small corrections
  // of a time service.
  static constexpr std::chrono::days kMaxClockOffset{365};
  static constexpr std::chrono::hours kMaxClockSetback{1};

  // The references outlive it.
  CertificateReloader(Loop& loop, Worker& worker, const config::Config& config);

  // Reads the files before the loop runs. Calls `on_usable` once there is a usable certificate:
  // inside this call, or when the files have been fixed.
  void open(std::function<void()> on_usable);
  const std::shared_ptr<http::IdentitySource>& identity_source() const { return identity_source_; }
  void reload();
  void update_counters(const http::ServerCounters&);
  const metrics::TlsMetrics& tls_metrics() const { return tls_metrics_; }

  // The wall clock at one read of the files, and the certificates that may be dated by it.
  struct RenewalPolicy {
    WallTime now;
    bool renewals = true;     // of a certificate that expires soon
    bool corrections = true;  // of one that is valid only in the future
  };

 private:
  using Identity = std::shared_ptr<const http::ServerIdentity>;

  RenewalPolicy renewal_policy();
  void watch_files();
  void on_files_changed();
  void on_loaded(const Result<Identity>&);
  void record_failure(const Error&);

  Loop& loop_;
  Worker& worker_;
  http::IdentityFiles files_;
  std::shared_ptr<http::IdentitySource> identity_source_ = std::make_shared<http::IdentitySource>();
  std::function<void()> on_usable_;
  metrics::TlsMetrics tls_metrics_;
  // The last wall time considered right: that of the newest write to the state, then that of each
  // read at which the clock was plausible.
  struct TrustedTime {
    WallTime wall;
    TimePoint at;
  };
  std::optional<TrustedTime> trusted_time_;
  bool reading_ = false;
  bool reload_pending_ = false;  // something changed while it was read
  // The inotify descriptor. The worker shares it while it reads the files.
  std::shared_ptr<const UniqueFd> inotify_;
  Subscription watch_;
  Subscription settle_timer_;
  Subscription reload_timer_;
  Lifetime lifetime_;
};

}  // namespace gpuyard::daemon
