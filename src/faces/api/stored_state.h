// The state that the daemon has stored before its restart and reads after it. Until then, an empty
// list or a 404 would claim more than is known. Thread: io.
#pragma once

#include <optional>

#include "core/andon/alert_service.h"
#include "core/auth/token_store.h"
#include "core/control/setting_controller.h"
#include "core/energy/meter.h"
#include "core/lease/lease_manager.h"
#include "faces/protocol/route.h"
#include "io/http/message.h"

namespace gpuyard::api {

struct StoredState {
  const lease::LeaseManager& leases;
  const auth::TokenStore& tokens;
  const andon::AlertService& alerts;
  const control::SettingController& control;
  const energy::Meter& energy;
};

// Returns whether the answers of a route depend on stored state, so that they may have to wait.
bool needs_stored_state(const protocol::RouteInfo&);

// Returns a 503 for a route about stored state that is still being read, with Retry-After, and with
// protocol::kReadingField if the reading will end soon. Returns nothing once it is read, and for
// routes about the driver, the configuration or events since the start.
std::optional<http::Response> loading_response(const StoredState&, const protocol::RouteInfo&);

}  // namespace gpuyard::api
