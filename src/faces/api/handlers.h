// The routes of each file of handlers, bound to them. Handlers are plain functions on the io
// thread; none blocks.
#pragma once

#include <string>
#include <vector>

#include "api/context.h"
#include "api/table.h"
#include "protocol/routes.h"

namespace gpuyard::api {

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
