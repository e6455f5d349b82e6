// Joins Andon to what it looks at (telemetry, leases, the disk), to the sinks that it tells, and to
// state.db, which keeps the messages that are still to be sent.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/loop.h"
#include "base/worker.h"
#include "core/andon/alert_service.h"
#include "core/auth/token_store.h"
#include "core/lease/lease_manager.h"
#include "daemon/alert_caps.h"
#include "daemon/config_reloader.h"
#include "daemon/doors.h"
#include "faces/api/alert_view.h"
#include "faces/metrics/daemon_metrics.h"
#include "io/notify/sink_dispatcher.h"
#include "io/store/alert_db.h"

namespace gpuyard::daemon {

// Tests of sinks that a client waits for.

class SinkTests {
 public:
  static constexpr std::size_t kMost = 16;  // at a time

  // The references outlive it.
  SinkTests(Loop& loop, notify::Outlets& outlets) : loop_(loop), outlets_(outlets) {}
  SinkTests(const SinkTests&) = delete;
  SinkTests& operator=(const SinkTests&) = delete;

  // Sends what notice() makes to each of the sinks, and answers when all have taken it or
  // protocol::kSinkTestPatience has passed.
  void begin(const std::vector<std::string>& sinks,
             const std::function<notify::Notice(std::string id)>& notice, api::AlertSinks::Tested);
  // Records the end of a delivery. Returns whether it was a test's.
  bool heard(const std::string& id, std::optional<std::string> why);

 private:
  struct Test {
    std::vector<protocol::SinkTest> sinks;
    std::map<std::string, std::size_t> open;  // ids, and the index of their sink
    TimePoint began;
    api::AlertSinks::Tested tested;
    Subscription deadline;
  };

  void end(std::uint64_t number);

  Loop& loop_;
  notify::Outlets& outlets_;
  std::map<std::uint64_t, Test> tests_;
  std::uint64_t next_ = 0;
};

class AlertAdapter final : public api::AlertSinks, private andon::Messenger {
 public:
  static constexpr Duration kDiskLook = std::chrono::seconds(30);
  static constexpr Duration kSinkLook = std::chrono::seconds(5);  // while a sink is closed

  // The references outlive it. `query` is a worker that may wait for a disk.
  AlertAdapter(Loop&, Worker& query, store::StateStore&, control::Control&, const lease::Leases&,
               std::string state_directory, AlertConfig);

  // State of tokens, TLS, listeners and Slurm's hooks, for alerts. Must outlive the snapshots.
  struct Access {
    const access::Tokens* tokens = nullptr;
    const metrics::TlsMetrics* tls = nullptr;  // null: TLS is not configured
    const Doors::Closed* closed = nullptr;
    const std::string* slurm_trouble = nullptr;  // why a Slurm hook fails
  };
  void look_at_doors(const Access& access) { access_ = access; }
  void start();
  void on_event(const DeviceEvent& event) { board_.on_event(event); }
  void on_echo(const DeviceEvent& event) { board_.on_echo(event); }
  void on_snapshot(const Snapshot&);
  // Replaces rules and sinks. Errc::invalid: nothing is changed. An open sink stays open if one of
  // its files has become invalid.
  Result<void> replace(AlertConfig);

  andon::Board& board() { return board_; }
  const andon::Board& board() const { return board_; }
  // The duration of each evaluation of all rules.
  const Histogram& cost() const { return cost_; }

  std::vector<protocol::Sink> sinks() const override;
  std::string file() const override { return file_.file; }
  void test(const std::string& sink, const std::string& by, Tested) override;

 private:
  std::vector<std::string> sinks_for(const andon::Alert&, const andon::Rule&) override;
  std::string command_of(const andon::Rule&) override;
  andon::Outgoing words_for(const andon::Alert&, const std::string& sink) override;
  void send(const andon::Outgoing&) override;
  void on_over(const std::string& id, std::optional<std::string> why);
  notify::Notice notice_of(const andon::Alert&, std::string id) const;
  std::map<DeviceId, andon::LeaseFacts> lease_facts(const Snapshot&) const;
  void note_node(andon::Signals&);
  void look_at_disk();
  // Rereads the files of the sinks while a sink is closed.
  void watch_closed_sinks();
  void on_sinks_read(const std::string& text, const Result<std::vector<notify::SinkConfig>>&);
  void note_access(andon::Signals&) const;
  void tell_what_fires();
  // Returns the sinks that `next` drops but that still have to be told of an end.
  std::vector<notify::SinkConfig> owing(const AlertConfig& next) const;

  Loop& loop_;
  Worker& query_;
  store::StateStore& state_;
  const lease::Leases& leases_;
  const std::string directory_;
  const std::string host_;
  AlertConfig file_;
  store::AlertDb books_;
  andon::Board board_;
  notify::Outlets outlets_;
  SinkTests tests_;
  AlertCaps caps_;
  andon::FactCollector facts_;
  Histogram cost_;
  std::optional<double> disk_free_percent_;
  Access access_;
  std::map<std::string, TimePoint> failing_;  // failing sinks, since when we have seen it
  bool told_firing_ = false;
  Subscription disk_timer_;
  Subscription sinks_timer_;
  Lifetime here_;
};

}  // namespace gpuyard::daemon
