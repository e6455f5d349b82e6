// Alerts over REST: firing and pending ones, silences, rules, and sinks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json_shape.h"
#include "base/record.h"
#include "core/andon/alert.h"
#include "core/andon/alert_severity.h"
#include "core/andon/alert_storage.h"
#include "core/andon/rule.h"
#include "core/andon/silences.h"
#include "faces/protocol/answer.h"
#include "faces/protocol/bounds.h"

namespace gpuyard::andon {

BOOST_DESCRIBE_STRUCT(Acknowledgement, (), (by, note, at))
BOOST_DESCRIBE_STRUCT(Silence, (), (id, rule, gpu, by, comment, since, until))
GPUYARD_ABOUT(Silence, json::keyed("rule", "rule", json::Unit::null_if_empty),
              json::keyed("gpu", "gpu", json::Unit::null_if_empty))

}  // namespace gpuyard::andon

namespace gpuyard::protocol {

using andon::Silence;

// The event when an alert fires, gets worse, is acknowledged or is over: Alert. It has an id and is
// never left out.
inline constexpr std::string_view kAlertEvent = "alert";

inline constexpr std::int64_t kMaxAlertHistory = 1000;
// The longest wait of a test of a sink for an answer.
inline constexpr Duration kSinkTestTimeout = std::chrono::seconds(15);

struct AlertGpu {
  std::optional<std::uint32_t> index;  // the last one that it had; none: another GPU has that now
  std::string uuid;
  std::string pci_address;
  std::string name;
};
BOOST_DESCRIBE_STRUCT(AlertGpu, (), (index, uuid, pci_address, name))

// One that was read from JSON has its GPU only in `device`.
struct Alert : andon::Alert {
  AlertLevel level = AlertLevel::info;
  std::optional<AlertGpu> device;  // none: the machine
  bool silenced = false;
  bool quarantines = false;
  std::optional<std::string> inhibited_by;
  bool told = false;
};
BOOST_DESCRIBE_STRUCT(Alert, (),
                      (number, rule, state, level, severity, device, value, xid, message, advice,
                       fired, resolved, end_reason, acknowledged, silenced, quarantines,
                       inhibited_by, told, simulated))
GPUYARD_ABOUT(Alert,
              {"number",
               "Number of the alert, from 1; unique among the stored alerts of this machine."},
              {"severity",
               "Severity from 0 to 100, by the current value: 0-39 info, 40-59 warning, 60-79 "
               "error, from 80 critical."},
              json::keyed("device", "gpu", json::Unit::as_is,
                          "GPU of the alert; null: the alert is about the machine."),
              {"advice", "Recommended action."},
              json::keyed("end_reason", "ending", json::Unit::as_is,
                          "Why it ended, if not because it cleared."),
              {"quarantines", "The alert withholds the GPU from new leases."},
              {"inhibited_by", "The firing rule that inhibits this one for the same GPU."},
              {"told", "Sinks have been notified."})

// A rule whose condition is met, but not for long enough yet; it may never fire.
struct PendingAlert {
  std::string rule;
  std::optional<AlertGpu> gpu;
  double value = 0;
  double for_s = 0;
  double hold_s = 0;
};
BOOST_DESCRIBE_STRUCT(PendingAlert, (), (rule, gpu, value, for_s, hold_s))
GPUYARD_ABOUT(PendingAlert, {"for_s", "Seconds since its threshold was reached."},
              {"hold_s", "Seconds after which it fires."})

struct Alerts : AnswerHead {
  std::vector<Alert> alerts;
  std::vector<PendingAlert> pending;
  std::vector<std::string> notes;
};
BOOST_DESCRIBE_STRUCT(Alerts, (AnswerHead), (alerts, pending, notes))
GPUYARD_ABOUT(Alerts,
              {"notes", "Problems that need attention, and GPUs that cannot be assessed now."})

struct AlertHistoryQuery {
  std::optional<std::string> rule;
  std::optional<std::string> gpu;
  std::optional<std::uint64_t> before;
  std::optional<std::int64_t> limit;
};
BOOST_DESCRIBE_STRUCT(AlertHistoryQuery, (), (rule, gpu, before, limit))
GPUYARD_ABOUT(AlertHistoryQuery, {"rule", "Only alerts of this rule."},
              {"gpu",
               "Only alerts of these GPUs: comma-separated indexes, UUIDs or PCI addresses."},
              {"before", "Only alerts with a lower number.", 0, kMaxExactInteger},
              {"limit", "Maximum number of alerts, 1 to 1000; default 100.", 1, kMaxAlertHistory})

struct AlertHistory : AnswerHead {
  std::vector<Alert> alerts;  // newest first
};
BOOST_DESCRIBE_STRUCT(AlertHistory, (AnswerHead), (alerts))

struct AlertName {
  std::uint64_t alert = 0;
};
BOOST_DESCRIBE_STRUCT(AlertName, (), (alert))
GPUYARD_ABOUT(AlertName, {"alert", "Number of an alert.", 0, kMaxExactInteger})

struct AcknowledgeRequest {
  std::optional<std::string> note;
};
BOOST_DESCRIBE_STRUCT(AcknowledgeRequest, (), (note))
GPUYARD_ABOUT(AcknowledgeRequest,
              {"note", "Note on what is being done; at most 200 bytes.", 0, kMaxNoteBytes})

struct AlertAnswer : AnswerHead {
  Alert alert;
};
BOOST_DESCRIBE_STRUCT(AlertAnswer, (AnswerHead), (alert))

struct SilenceRequest {
  double for_s = 0;
  std::optional<std::string> rule;
  std::optional<std::string> gpu;
  std::optional<std::string> comment;
};
BOOST_DESCRIBE_STRUCT(SilenceRequest, (), (for_s, rule, gpu, comment))
GPUYARD_ABOUT(SilenceRequest,
              {"for_s", "Duration in seconds; at most 30 days.", kMinSeconds,
               to_seconds(andon::SilenceTable::kMaxDuration)},
              {"rule", "Rule to mute; omitted: all.", 0, kMaxNameBytes},
              {"gpu",
               "GPU to mute, by index, UUID or PCI address; omitted: all GPUs and the machine.", 0,
               kMaxGpuNameBytes},
              {"comment", "Reason; at most 200 bytes.", 0, kMaxNoteBytes})

struct Silences : AnswerHead {
  std::vector<Silence> silences;
};
BOOST_DESCRIBE_STRUCT(Silences, (AnswerHead), (silences))

struct SilenceName {
  std::string silence;
};
BOOST_DESCRIBE_STRUCT(SilenceName, (), (silence))
GPUYARD_ABOUT(SilenceName, {"silence", "ID of a silence."})

// One that was read from JSON lacks its source, and what the three fields are made of.
struct Rule : andon::Rule {
  std::optional<int> fixed_severity;  // null: by its value
  std::vector<std::uint32_t> xids;
  std::optional<std::string> program;  // without its arguments

  Rule() = default;
  explicit Rule(const andon::Rule&);
};
BOOST_DESCRIBE_STRUCT(Rule, (),
                      (name, enabled, on, at, below, clear_at, hold, clear_hold, over,
                       fixed_severity, curve, xids, gpus, inhibits, notify, sinks, quarantine,
                       cap_w, program, message, advice))
GPUYARD_ABOUT(Rule, json::keyed("hold", "hold_s", json::Unit::seconds),
              json::keyed("clear_hold", "clear_hold_s", json::Unit::seconds),
              json::keyed("over", "over_s", json::Unit::seconds),
              json::keyed("fixed_severity", "severity", json::Unit::as_is,
                          "Fixed severity; null: by the value, see `curve`."),
              json::keyed("program", "command", json::Unit::as_is,
                          "Program run when it fires and when it ends, without arguments."))

struct Rules : AnswerHead {
  std::string file;  // adds rules to the built-in ones; "": there is none
  std::vector<Rule> rules;
};
BOOST_DESCRIBE_STRUCT(Rules, (AnswerHead), (file, rules))
GPUYARD_ABOUT(Rules, {"file", "File that extends the built-in rules; empty: none."})

struct Sink {
  std::string name;
  std::string kind;
  std::string where;  // host or program: no secret
  std::string min_level;
  std::int64_t queued = 0;
  std::uint64_t delivered_total = 0;
  std::uint64_t retries_total = 0;
  std::uint64_t dead_letters_total = 0;
  std::optional<WallTime> failing_since;
  std::optional<std::string> last_error;
  std::optional<bool> closed;
};
BOOST_DESCRIBE_STRUCT(Sink, (),
                      (name, kind, where, min_level, queued, delivered_total, retries_total,
                       dead_letters_total, failing_since, last_error, closed))
GPUYARD_ABOUT(Sink, {"where", "Host or program, without secrets."},
              {"dead_letters_total", "Dropped notifications: refused, too old or too many."},
              {"failing_since", "Since when deliveries have failed; null: working."},
              {"closed",
               "True if the sink cannot be used until a file that it needs is fixed; last_error "
               "names it."})

struct Sinks : AnswerHead {
  std::vector<Sink> sinks;
};
BOOST_DESCRIBE_STRUCT(Sinks, (AnswerHead), (sinks))

struct SinkTestRequest {
  std::optional<std::string> sink;  // null: all of them
};
BOOST_DESCRIBE_STRUCT(SinkTestRequest, (), (sink))
GPUYARD_ABOUT(SinkTestRequest, {"sink", "Name of a sink; omitted: all sinks.", 0, kMaxNameBytes})

struct SinkTest {
  std::string sink;
  bool delivered = false;
  double seconds = 0;
  std::optional<std::string> why;
};
BOOST_DESCRIBE_STRUCT(SinkTest, (), (sink, delivered, seconds, why))
GPUYARD_ABOUT(SinkTest, {"why", "Why it was not delivered within 15 s."})

struct SinkTests : AnswerHead {
  std::vector<SinkTest> sinks;
};
BOOST_DESCRIBE_STRUCT(SinkTests, (AnswerHead), (sinks))

}  // namespace gpuyard::protocol

namespace gpuyard::json {

GPUYARD_SCHEMA(protocol::AlertGpu);
GPUYARD_SCHEMA(andon::Acknowledgement);
GPUYARD_SCHEMA(protocol::Alert);
GPUYARD_SCHEMA(protocol::PendingAlert);
GPUYARD_SCHEMA(protocol::Alerts);
GPUYARD_SCHEMA(protocol::AlertHistory);
GPUYARD_SCHEMA(protocol::AcknowledgeRequest);
GPUYARD_SCHEMA(protocol::AlertAnswer);
GPUYARD_SCHEMA(protocol::SilenceRequest);
GPUYARD_SCHEMA(protocol::Silence);
GPUYARD_SCHEMA(protocol::Silences);
GPUYARD_SCHEMA(protocol::Rule);
GPUYARD_SCHEMA(protocol::Rules);
GPUYARD_SCHEMA(protocol::Sink);
GPUYARD_SCHEMA(protocol::Sinks);
GPUYARD_SCHEMA(protocol::SinkTestRequest);
GPUYARD_SCHEMA(protocol::SinkTest);
GPUYARD_SCHEMA(protocol::SinkTests);

}  // namespace gpuyard::json
