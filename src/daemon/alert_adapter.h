// Joins Andon to what it evaluates (telemetry, leases, the disk), to the sinks it notifies, and to
// state.db, which keeps the messages that are still to be sent.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/histogram.h"
#include "base/lifetime.h"
#include "base/loop.h"
#include "base/worker.h"
#include "core/andon/alert_service.h"
#include "core/andon/plugin_report.h"
#include "core/auth/token_store.h"
#include "core/lease/lease_manager.h"
#include "daemon/alert_caps.h"
#include "daemon/alert_config.h"
#include "daemon/listener_opener.h"
#include "daemon/sink_tester.h"
#include "faces/api/alert_view.h"
#include "faces/metrics/daemon_metrics.h"
#include "io/notify/sink_dispatcher.h"
#include "io/store/alert_db.h"

namespace gpuyard::daemon {

// Thread: io.
class AlertAdapter final : public api::AlertSinks, private andon::AlertNotifier {
 public:
  static constexpr Duration kDiskPollInterval = std::chrono::seconds(30);
  static constexpr Duration kSinkPollInterval = std::chrono::seconds(5);  // while a sink is closed

  // The references outlive it. `query_worker` may wait for a disk.
  AlertAdapter(Loop&, Worker& query_worker, store::StateStore&, control::SettingController&,
               const lease::LeaseManager&, std::string state_directory, AlertConfig);

  // State of tokens, TLS, listeners and the reports of Slurm and Kubernetes, for alerts. REQUIRES:
  // the objects outlive the last on_snapshot().
  struct Access {
    const auth::TokenStore* tokens = nullptr;
    const metrics::TlsMetrics* tls = nullptr;  // null: TLS is not configured
    const ListenerOpener::ClosedListeners* closed_listeners = nullptr;
    const std::string* slurm_error = nullptr;  // why a Slurm hook fails
    const andon::PluginReport* plugin_report = nullptr;
  };
  void watch_credentials(const Access& access) { access_ = access; }
  void start();
  void on_event(const DeviceEvent& event) { service_.on_event(event); }
  void on_duplicate_event(const DeviceEvent& event) { service_.on_echo(event); }
  void on_snapshot(const Snapshot&);
  // Replaces rules and sinks. Errc::invalid: nothing is changed. An open sink stays open if one of
  // its files has become invalid.
  Result<void> replace(AlertConfig);

  andon::AlertService& service() { return service_; }
  const andon::AlertService& service() const { return service_; }
  // The duration of each evaluation of all rules.
  const Histogram& evaluation_time() const { return evaluation_time_; }

  std::vector<protocol::Sink> sinks() const override;
  std::string file() const override { return config_.file; }
  void test(const std::string& sink, const std::string& by, OnTested) override;

 private:
  std::vector<std::string> sinks_for(const andon::Alert&, const andon::Rule&) override;
  std::string command_of(const andon::Rule&) override;
  andon::OutboxMessage make_message(const andon::Alert&, const std::string& sink) override;
  void send(const andon::OutboxMessage&) override;
  void on_delivery(const std::string& id, std::optional<std::string> why);
  notify::Notification notification_of(const andon::Alert&, std::string id) const;
  std::map<DeviceId, andon::LeaseFacts> lease_facts(const Snapshot&) const;
  void add_plugin_facts(const Snapshot&, std::map<DeviceId, andon::LeaseFacts>&) const;
  void read_node_signals(andon::Signals&);
  void poll_disk();
  // Rereads the files of the sinks while a sink is closed.
  void poll_closed_sinks();
  void on_sinks_read(const std::string& text, const Result<std::vector<notify::SinkConfig>>&);
  void read_access_signals(andon::Signals&) const;
  void publish_firing();
  // Returns the sinks that `next` drops but that still have to be notified of an end.
  std::vector<notify::SinkConfig> undelivered_sinks(const AlertConfig& next) const;

  Loop& loop_;
  Worker& query_worker_;
  store::StateStore& state_;
  const lease::LeaseManager& leases_;
  const std::string directory_;
  const std::string host_;
  AlertConfig config_;
  store::AlertDb db_;
  andon::AlertService service_;
  notify::SinkDispatcher dispatcher_;
  SinkTester sink_tester_;
  AlertCaps caps_;
  andon::FactCollector facts_;
  Histogram evaluation_time_;
  std::optional<double> disk_free_percent_;
  Access access_;
  std::map<std::string, TimePoint> failing_since_;  // failing sinks, and since when
  bool firing_published_ = false;
  Subscription disk_timer_;
  Subscription sinks_timer_;
  Lifetime lifetime_;
};

}  // namespace gpuyard::daemon
