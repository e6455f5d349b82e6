// What handlers may use. Lives on the io thread, as they do.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "andon/board.h"
#include "api/alert_view.h"
#include "api/event_hub.h"
#include "api/lease_board.h"
#include "base/loop.h"
#include "base/shares.h"
#include "base/token_bucket.h"
#include "control/control.h"
#include "device/process.h"
#include "energy/meter.h"
#include "history/history.h"
#include "http/feed.h"
#include "lease/leases.h"
#include "metrics/prometheus.h"
#include "protocol/leases.h"
#include "protocol/routes.h"
#include "telemetry/telemetry.h"
#include "usage/use.h"

namespace gpuyard::api {

// A body rendered once for each snapshot, however often it is asked for.
struct RenderedOnce {
  std::uint64_t generation = UINT64_MAX;
  std::shared_ptr<const std::string> body;

  template <class Render>
  const std::shared_ptr<const std::string>& get(std::uint64_t wanted, Render&& render) {
    if (!body || generation != wanted) {
      body = std::make_shared<const std::string>(render());
      generation = wanted;
    }
    return body;
  }
};

class AlertNews;
struct BoundRoute;
class QueueText;

struct Context {
  telemetry::Telemetry& telemetry;
  EventHub& events;
  std::string version;
  std::string metrics_prefix;
  const Histogram* loop_lag = nullptr;
  const ProcessBook* processes = nullptr;  // none: nobody looks who they are
  history::History* history = nullptr;     // none: this daemon keeps none
  energy::Meter* energy = nullptr;         // only a test of other routes goes without
  control::Control* control = nullptr;     // the same
  Loop* loop = nullptr;                    // of control and leases
  lease::Leases* leases = nullptr;         // only a test of other routes goes without
  bool holders_may_control = true;         // set power and clocks of the GPUs of their leases
  // Who is behind a user, where several share what one may have; empty: himself.
  std::function<std::uint32_t(std::uint32_t uid)> person_behind = {};
  // A user's name, if it is known by now; asking never waits.
  std::function<std::optional<std::string>(std::uint32_t uid)> user_name = {};
  // What was used under a lease until now; nothing before its grant.
  std::function<std::optional<protocol::LeaseUse>(const lease::Lease&)> lease_use = {};
  usage::UseBook* use = nullptr;  // of all of them
  // Tells when the names of these users are known, or cannot be had soon; perhaps inside the call.
  std::function<void(const std::vector<std::uint32_t>& uids, std::function<void()> done)>
      learn_users = {};
  andon::Board* alerts = nullptr;         // only a test of other routes goes without
  AlertSinks* alert_sinks = nullptr;      // the same
  const Histogram* alert_cost = nullptr;  // of looking at all rules; nothing: not measured
  AlertNews* alert_news = nullptr;
  std::uint64_t lease_changes = 0;  // counted by LeaseNews
  metrics::Dialect metrics_dialect = metrics::Dialect::gpuyard;
  RenderedOnce metrics = {};
  RenderedOnce openmetrics = {};
  RenderedOnce snapshot = {};
  RenderedOnce openapi = {};
  // Of the history and of the books of use, by whoever asks.
  FairLine<std::string> questions{shares::kQuestions, shares::kQuestionsOfOne};
  std::shared_ptr<LeaseBoard> lease_board = {};  // see board_of()
  std::shared_ptr<QueueText> queue_text = {};    // made when it is first wanted
  // Of one GPU, with the index it has, and so often: in milliseconds, so that there are not many.
  http::Channels<std::tuple<DeviceId, std::uint32_t, std::chrono::milliseconds>> power_lines = {};
};

inline bool simulated(const Context& context) {
  return context.telemetry.latest()->driver.info.simulated;
}

// The routes of each file of handlers, bound to them. Handlers are plain functions on the io
// thread; none blocks.

using protocol::NoParams;
using protocol::Text;

std::vector<BoundRoute> device_routes();
std::vector<BoundRoute> history_routes();
std::vector<BoundRoute> driver_routes();
std::vector<BoundRoute> snapshot_routes();
std::vector<BoundRoute> event_routes();
std::vector<BoundRoute> power_stream_routes();
std::vector<BoundRoute> energy_routes();
std::vector<BoundRoute> control_routes();
// Who asks control, and for whom that is counted.
control::Asker asker_of(const Context&, const Principal&, bool admin, const std::string& request_id,
                        TimePoint received);
std::vector<BoundRoute> lease_list_routes();
std::vector<BoundRoute> lease_routes();
std::vector<BoundRoute> queue_routes();
std::vector<BoundRoute> usage_routes();
std::vector<BoundRoute> cordon_routes();
std::vector<BoundRoute> alert_routes();
std::vector<BoundRoute> node_routes();
std::vector<BoundRoute> openapi_routes();
std::vector<BoundRoute> docs_routes();

// Of one who has asked for more than may wait: see Context::questions.
inline Error too_many_questions() {
  return {Errc::busy, "too many questions of yours wait for an answer; ask again in a second"};
}

}  // namespace gpuyard::api
