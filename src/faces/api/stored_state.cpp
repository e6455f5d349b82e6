#include "faces/api/stored_state.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "faces/api/responder.h"
#include "faces/protocol/fields.h"

namespace gpuyard::api {
namespace {

using LoadError = std::optional<Error>;

LoadError load_error(bool is, const char* what) {
  return is ? LoadError(Error{Errc::unavailable, what}) : std::nullopt;
}

LoadError no_load_error(const StoredState&) {
  return std::nullopt;
}

LoadError lease_load_error(const StoredState& state) {
  return state.leases.has_loaded() ? std::nullopt : state.leases.grant_error();
}

LoadError token_load_error(const StoredState& state) {
  return load_error(!state.tokens.is_loaded(), "tokens are still being loaded; try again");
}

// Alerts, like settings and energy, continue if the disk cannot be read, and their answers say so.
LoadError alert_load_error(const StoredState& state) {
  return load_error(state.alerts.is_loading(),
                    "stored alerts are still being loaded; try again in a moment");
}

LoadError setting_load_error(const StoredState& state) {
  return load_error(state.control.is_loading(),
                    "stored settings are still being loaded; try again in a moment");
}

LoadError energy_load_error(const StoredState& state) {
  return load_error(state.energy.is_loading(),
                    "stored energy counts are still being loaded; try again in a moment");
}

LoadError lease_or_alert_error(const StoredState& state) {
  LoadError why = lease_load_error(state);
  return why ? why : alert_load_error(state);
}

// A verdict without the stored alerts would be good for a GPU that they quarantine: it waits for
// them also while the disk cannot be read.
LoadError verdict_load_error(const StoredState& state) {
  LoadError why = lease_or_alert_error(state);
  if (why) return why;
  return load_error(!state.alerts.is_loaded(), "the stored alerts cannot be read");
}

using LoadCheck = LoadError (*)(const StoredState&);

// The stored state behind the routes with this tag and this beginning of the path. The first row
// that matches applies.
struct Row {
  std::string_view tag;
  std::string_view path;
  LoadCheck check;
  std::string_view method = {};  // "": any
};
constexpr std::array kLoadChecks = {
    Row{"GPU", "/api/gpu/brief", &lease_or_alert_error},
    Row{"GPU", "/api/gpu/verdict", &verdict_load_error},
    Row{"Alerts", "/api/gpu/rules", &no_load_error},  // the configuration
    Row{"Alerts", "/api/gpu/sinks", &no_load_error},
    Row{"Alerts", "/api/gpu/alerts/test", &no_load_error},
    Row{"Alerts", "/", &alert_load_error},
    Row{"Energy", "/", &energy_load_error},
    Row{"Control", "/api/gpu/manage/operations", &no_load_error},  // since the start
    Row{"Control", "/", &setting_load_error, "GET"},               // a change waits on its own
    Row{"Leases", "/", &lease_load_error},
    Row{"Slurm", "/", &lease_or_alert_error},
    Row{"Kubernetes", "/api/gpu/kubernetes/plugin", &no_load_error},  // since the start
    Row{"Kubernetes", "/", &lease_load_error},
    Row{"Tokens", "/", &token_load_error},
};

LoadCheck load_check_of(const protocol::RouteInfo& route) {
  const auto row = std::ranges::find_if(kLoadChecks, [&](const Row& one) {
    return route.tag == one.tag && route.pattern.starts_with(one.path) &&
           (one.method.empty() || route.method == one.method);
  });
  return row == kLoadChecks.end() ? &no_load_error : row->check;
}

}  // namespace

bool needs_stored_state(const protocol::RouteInfo& route) {
  return load_check_of(route) != &no_load_error;
}

std::optional<http::Response> loading_response(const StoredState& state,
                                               const protocol::RouteInfo& route) {
  const LoadError why = load_check_of(route)(state);
  if (!why) return std::nullopt;
  http::Response response = render_error(route, *why);
  // With this field, our clients retry. A disk that fails does not recover soon.
  if (!state.leases.has_store_error()) {
    response.headers.push_back({std::string(protocol::kReadingField), "true"});
  }
  return response;
}

}  // namespace gpuyard::api
