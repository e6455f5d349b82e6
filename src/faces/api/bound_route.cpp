#include "faces/api/bound_route.h"

#include <string_view>
#include <utility>

#include "base/try.h"

namespace gpuyard::api {

std::string quota_group_of(const http::Peer& peer) {
  constexpr std::string_view kLoopback = "this machine over TCP";
  // "::" is the network of ::1.
  const bool is_loopback = peer.quota_group.starts_with("127.") || peer.quota_group == "::";
  return is_loopback ? std::string(kLoopback) : peer.quota_group;
}

Result<void> read_call(const RouteCall& call, const json::Shape& of_parameters, void* parameters,
                       const json::Shape* of_body, void* body) {
  GPUYARD_TRY(read_parameters(call.parameters, of_parameters, parameters));
  if (of_body == nullptr) return {};
  const std::string_view text = call.body.empty() ? "{}" : std::string_view(call.body);
  auto read = json::read(text, *of_body, body, json::UnknownFields::refuse);
  if (!read) return std::move(read).error().in("body");
  return {};
}

void RouteCall::report_action(const std::string& action) const {
  if (!reported_actions) return;
  reported_actions->reported = true;
  reported_actions->actions.push_back({.action = action});
}

void RouteCall::report_action(const std::string& action, const std::vector<DeviceId>& gpus,
                              bool forced) const {
  if (!reported_actions) return;
  reported_actions->reported = true;
  for (const DeviceId& gpu : gpus) reported_actions->actions.push_back({action, gpu, {}, forced});
}

}  // namespace gpuyard::api
