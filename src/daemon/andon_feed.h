// Joins Andon to what it looks at - telemetry, leases, the disk - and to those whom it tells: the
// sinks, and the state.db that remembers what they are still to be told.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "andon/board.h"
#include "api/alert_sinks.h"
#include "base/histogram.h"
#include "base/worker.h"
#include "daemon/alert_caps.h"
#include "daemon/alerts_file.h"
#include "daemon/sink_tests.h"
#include "lease/leases.h"
#include "notify/outlets.h"
#include "store/alert_db.h"

namespace gpuyard::daemon {

class AndonFeed final : public api::AlertSinks, private andon::Messenger {
 public:
  static constexpr Duration kDiskLook = std::chrono::seconds(30);

  // These outlive it. `query`: may wait for a disk.
  AndonFeed(Loop&, Worker& query, store::StateStore&, control::Control&, const lease::Leases&,
            std::string state_directory, AlertsFile);

  void start();
  void on_event(const DeviceEvent& event) { board_.on_event(event); }
  void on_snapshot(const Snapshot&);
  // Errors: invalid, and nothing is changed.
  Result<void> replace(AlertsFile);

  andon::Board& board() { return board_; }
  const andon::Board& board() const { return board_; }
  // How long looking at all rules took, each time.
  const Histogram& cost() const { return cost_; }

  std::vector<protocol::Sink> sinks() const override;
  std::string file() const override { return file_.file; }
  void test(const std::string& sink, const std::string& by, Tested) override;

 private:
  std::vector<std::string> sinks_for(const andon::Alert&, const andon::Rule&) override;
  std::string command_of(const andon::Rule&) override;
  andon::Outgoing words_for(const andon::Alert&, const std::string& sink) override;
  void send(const andon::Outgoing&) override;
  void on_delivered(const std::string& sink, const std::string& id);
  void on_dead(const std::string& sink, const std::string& id, const std::string& why);
  notify::Notice notice_of(const andon::Alert&, std::string id) const;
  std::map<DeviceId, andon::LeaseFacts> lease_facts(const Snapshot&) const;
  void note_node(andon::Signals&);
  void look_at_disk();
  void tell_what_fires();
  // Sinks that are to go, and have still to tell an end.
  std::vector<notify::SinkConfig> owing(const AlertsFile& next) const;

  Loop& loop_;
  Worker& query_;
  store::StateStore& state_;
  const lease::Leases& leases_;
  const std::string directory_;
  const std::string host_;
  AlertsFile file_;
  store::AlertDb books_;
  andon::Board board_;
  notify::Outlets outlets_;
  SinkTests tests_;
  AlertCaps caps_;
  andon::FactBook facts_;
  Histogram cost_;
  std::optional<double> disk_free_percent_;
  std::map<std::string, TimePoint> failing_;  // sinks, since when as we saw it
  bool told_firing_ = false;
  Subscription disk_timer_;
  std::shared_ptr<AndonFeed*> self_ = std::make_shared<AndonFeed*>(this);
};

}  // namespace gpuyard::daemon
