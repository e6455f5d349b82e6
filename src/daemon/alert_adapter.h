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
#include "core/lease/lease_manager.h"
#include "daemon/alert_caps.h"
#include "daemon/alert_config.h"
#include "daemon/node_signals.h"
#include "daemon/sink_tester.h"
#include "faces/api/alert_view.h"
#include "io/notify/sink_dispatcher.h"
#include "io/store/alert_db.h"

namespace gpuyard::daemon {

// Thread: io.
class AlertAdapter final : public api::AlertSinks, private andon::AlertNotifier {
 public:
  static constexpr Duration kSinkPollInterval = std::chrono::seconds(5);  // while a sink is closed

  // The references outlive it. `query_worker` may wait for a disk.
  AlertAdapter(Loop&, Worker& query_worker, store::StateStore&, control::SettingController&,
               const lease::LeaseManager&, std::string state_directory, AlertConfig);

  // REQUIRES: the objects outlive the last on_snapshot().
  void watch_credentials(const NodeSignals::Access& access) { node_.watch(access); }
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
  // Rereads the files of the sinks while a sink is closed.
  void poll_closed_sinks();
  void on_sinks_read(const std::string& text, const Result<std::vector<notify::SinkConfig>>&);
  void publish_firing();
  // Returns the sinks that `next` drops but that still have to be notified of an end.
  std::vector<notify::SinkConfig> undelivered_sinks(const AlertConfig& next) const;

  Loop& loop_;
  Worker& query_worker_;
  store::StateStore& state_;
  const lease::LeaseManager& leases_;
  const std::string host_;
  AlertConfig config_;
  store::AlertDb db_;
  andon::AlertService service_;
  notify::SinkDispatcher dispatcher_;
  SinkTester sink_tester_;
  NodeSignals node_;
  AlertCaps caps_;
  andon::FactCollector facts_;
  Histogram evaluation_time_;
  bool firing_published_ = false;
  Subscription sinks_timer_;
  Lifetime lifetime_;
};

}  // namespace gpuyard::daemon
