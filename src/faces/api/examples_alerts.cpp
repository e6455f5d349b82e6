// Alerts as the API's description shows them: the busy H100 of examples.cpp is too hot.
#include "api/examples.h"

namespace gpuyard::api {
namespace {

constexpr const char* kFired = "2026-01-01T00:05:00.118Z";

protocol::Alert hot() {
  protocol::Alert alert;
  alert.number = 42;
  alert.rule = "thermal";
  alert.level = AlertLevel::error;
  alert.severity = 61;
  alert.gpu = {0, kBusyGpu, "0000:11:00.0", "NVIDIA H100 80GB HBM3"};
  alert.value = 91;
  alert.message = "GPU 0 is at 91 C; the threshold is 80 C";
  alert.advice =
      "Look at the fans and the air flow, move work elsewhere, or lower the power limit.";
  alert.fired = kFired;
  alert.told = true;
  return alert;
}

protocol::Silence maintenance() {
  return {std::string(kSilenceExample), "thermal", kBusyGpu, "uid 0", "its fan is replaced", kFired,
          "2026-01-01T02:05:00.118Z"};
}

}  // namespace

protocol::Alerts example_of(std::type_identity<protocol::Alerts>) {
  protocol::Alerts all;
  all.alerts = {hot()};
  all.pending = {{"memory", hot().gpu, 91.2, 12, 60}};
  return all;
}

protocol::AlertHistory example_of(std::type_identity<protocol::AlertHistory>) {
  protocol::Alert over = hot();
  over.state = andon::State::resolved;
  over.resolved = "2026-01-01T00:09:31.118Z";
  return {1, false, {over}};
}

protocol::AcknowledgeWish example_of(std::type_identity<protocol::AcknowledgeWish>) {
  return {"the fan is ordered"};
}

protocol::AlertAnswer example_of(std::type_identity<protocol::AlertAnswer>) {
  protocol::AlertAnswer answer;
  answer.alert = hot();
  answer.alert.acknowledged = {"uid 0", "the fan is ordered", "2026-01-01T00:06:12.500Z"};
  return answer;
}

protocol::SinkTestWish example_of(std::type_identity<protocol::SinkTestWish>) {
  return {"ops"};
}

protocol::SinkTests example_of(std::type_identity<protocol::SinkTests>) {
  return {1, false, {{"ops", true, 0.184, std::nullopt}}};
}

protocol::Silences example_of(std::type_identity<protocol::Silences>) {
  return {1, false, {maintenance()}};
}

protocol::SilenceWish example_of(std::type_identity<protocol::SilenceWish>) {
  return {7200, "thermal", "0", "its fan is replaced"};
}

protocol::Silence example_of(std::type_identity<protocol::Silence>) {
  return maintenance();
}

protocol::Rules example_of(std::type_identity<protocol::Rules>) {
  protocol::Rule rule;
  rule.name = "thermal";
  rule.on = "temperature_c";
  rule.at = 80;
  rule.clear_at = 77;
  rule.hold_s = 10;
  rule.clear_hold_s = 30;
  rule.curve = andon::Curve::thermal;
  rule.message = "GPU {gpu} is at {value} C; the threshold is {at} C";
  rule.advice = hot().advice;
  return {1, false, "/etc/gpuyard/alerts.toml", {rule}};
}

protocol::Sinks example_of(std::type_identity<protocol::Sinks>) {
  protocol::Sink sink;
  sink.name = "ops";
  sink.kind = "slack";
  sink.where = "hooks.slack.com";
  sink.min_level = "error";
  sink.delivered_total = 12;
  return {1, false, {sink}};
}

}  // namespace gpuyard::api
