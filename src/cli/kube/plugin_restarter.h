// Restarts the device plugin of this node, if an administrator wants that: deletes its pod while
// the daemon's alert says that the plugin hides a healthy GPU. The daemon alone judges that.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "cli/kube/agent_environment.h"
#include "cli/kube/memory_file.h"
#include "cli/kube/plugin_pods.h"
#include "faces/protocol/alerts.h"
#include "faces/protocol/verdict.h"

namespace gpuyard::cli::kube {

inline constexpr std::string_view kPluginDisagreesRule = "plugin-disagrees";

// The daemon's alerts are read this often while the plugin hides a GPU that is good.
inline constexpr Duration kRestartCheckInterval = std::chrono::seconds(15);
// A restart that was begun is followed by no other within this time.
inline constexpr Duration kRestartInterval = std::chrono::hours(1);
// Within the window, the plugin is restarted this often at most: more would not help.
inline constexpr Duration kRestartWindow = std::chrono::hours(24);
inline constexpr std::size_t kMaxRestarts = 3;
// A plugin that has just started may not have reported its GPUs yet.
inline constexpr Duration kMinPluginAge = std::chrono::minutes(5);

// The restarter's view of the daemon. Calls block until the answer or a timeout.
class PluginAlertView {
 public:
  virtual ~PluginAlertView() = default;
  // The GPUs that the daemon's alert is about, as disagreeing_gpus() has them.
  virtual Result<std::set<std::string>> fetch_plugin_alerts() = 0;
};

// Returns the UUIDs of the GPUs with the alert plugin-disagrees, but for those that an
// administrator has acknowledged, or that another alert inhibits.
std::set<std::string> disagreeing_gpus(const protocol::Alerts&);

// Returns why a restart would do harm: a plugin that starts offers each GPU of the node, also one
// that it hides now and that must get no work. "": it would not.
std::string restart_obstacle(const protocol::GpuVerdicts&, const std::set<std::string>& hidden);

// Returns the one pod that may be deleted. Errc::busy: later; Errc::not_found, conflict: why there
// is none.
Result<SeenPod> choose_plugin_pod(PodPage, const PluginLabel&, const std::string& node,
                                  WallTime now);

// Thread: one. A round sends the API server one request at most, so that it lasts no longer than
// kPluginRequestTimeout and the daemon's answer.
class PluginRestarter {
 public:
  // The views and the file must outlive it.
  PluginRestarter(std::string node, PluginLabel, PluginPodsView&, PluginAlertView&, MemoryFile&,
                  AgentEnvironment);

  // Takes the daemon's verdicts (null: it is silent), and the GPUs that the plugin hides.
  void run_round(const protocol::GpuVerdicts*, const std::set<std::string>& hidden);

 private:
  // Found in one round, and deleted in the next if everything is still so.
  struct Target {
    SeenPod pod;
    std::set<std::string> uuids;  // the GPUs that it hides
  };

  bool was_restarted_lately(TimePoint now) const;
  std::vector<TimePoint> restarts_in_window(TimePoint now) const;
  std::vector<TimePoint>& restarts() const { return file_.memory().plugin_restarts; }
  std::set<std::string> fetch_disagreeing(const std::set<std::string>& healthy);
  void find_target(std::set<std::string> uuids);
  void restart(const Target&);
  void fail(const gpuyard::kube::Answer&);
  void settle();
  void decline(std::string why);

  std::string node_;
  PluginLabel label_;
  PluginPodsView& pods_;
  PluginAlertView& daemon_;
  MemoryFile& file_;
  AgentEnvironment environment_;
  std::optional<Target> target_;
  TimePoint due_{};            // no round before, but for one with a target
  unsigned failures_ = 0;      // of the API server, in a row
  std::string request_error_;  // of the API server, as logged last
  std::string daemon_error_;   // that was logged last; empty: the daemon answers
  std::string declined_;       // why the plugin is not restarted, as logged last
};

}  // namespace gpuyard::cli::kube
