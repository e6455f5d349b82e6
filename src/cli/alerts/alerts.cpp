// gpuyard alerts: what is wrong, and what people do about it.
#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "base/text.h"
#include "cli/alerts/alerts_table.h"
#include "cli/control/control_daemon.h"
#include "cli/read/source_access.h"
#include "cli/screen/output.h"
#include "cli/screen/screen.h"
#include "cli/shared_options.h"
#include "cli/verbs.h"
#include "core/andon/rule_reader.h"
#include "faces/client/daemon_address.h"
#include "faces/client/daemon_client.h"
#include "faces/protocol/routes.h"

namespace gpuyard::cli {
namespace {

using AlertsAction = AlertsVerb::Action;

constexpr int kExitSinkTestFailed = 7;  // exit code: a sink's test failed

// Prints the answer as JSON, or as `text` has it.
template <class Answer, class Text>
int show(const AlertsVerb& verb, const Result<Answer>& answer, Text&& text) {
  if (!answer) {
    return print_control_error(answer.error(), client::is_remote_address(verb.socket),
                               "changing alerts");
  }
  print(verb.json
            ? json_line(*answer)
            : host_heading(verb.socket) + text(*answer, wall_now(), Screen::of_stdout(verb.color)));
  return 0;
}

int history(const AlertsVerb& verb, const http::Endpoint& daemon) {
  protocol::AlertHistoryQuery query;
  query.rule = non_empty(verb.rule);
  query.gpu = non_empty(verb.gpus);
  query.limit = verb.limit;
  return show(verb, client::call_with_retry(daemon, protocol::kAlertHistory, query), history_text);
}

// Silences with the indexes that GPUs have now in place of their UUIDs, for people.
Printable silences_with_indexes(const http::Endpoint& daemon, protocol::Silences all, WallTime now,
                                const Screen& screen) {
  const auto snapshot = client::call(daemon, protocol::kSnapshot);
  for (protocol::Silence& one : all.silences) {
    if (!snapshot || one.gpu.empty()) continue;
    for (const protocol::Device& device : snapshot->devices) {
      if (device.uuid == one.gpu) one.gpu = std::to_string(device.index);
    }
  }
  return silences_text(all, now, screen);
}

// Makes one silence for each GPU, because a silence is of one GPU or of all; shows them together.
int silence_each(const AlertsVerb& verb, const http::Endpoint& daemon,
                 protocol::SilenceRequest request, const std::vector<std::string>& gpus) {
  std::set<std::string> made;
  std::optional<Error> failed;
  for (const std::string& gpu : gpus) {
    request.gpu = gpu;
    const auto one = client::call_with_retry(daemon, protocol::kSilence, {}, request);
    if (!one) {
      failed = one.error();
      break;
    }
    made.insert(one->id);
  }
  if (!made.empty()) {
    auto all = client::call_with_retry(daemon, protocol::kActiveSilences);
    if (all) std::erase_if(all->silences, [&](const auto& one) { return !made.contains(one.id); });
    const auto as_text = [&](const protocol::Silences& ones, WallTime now, const Screen& screen) {
      return silences_with_indexes(daemon, ones, now, screen);
    };
    if (const int code = show(verb, all, as_text); code != 0) return code;
  }
  return failed
             ? show(verb, Result<protocol::Silence>(*failed), [](auto&&...) { return Printable(); })
             : 0;
}

int silence(const AlertsVerb& verb, const http::Endpoint& daemon) {
  const auto length =
      parse_lifetime(verb.length, kMinLifetime, gpuyard::andon::SilenceTable::kMaxDuration);
  if (!length) return print_error(Error(length.error()).in("--for"));
  protocol::SilenceRequest request;
  request.for_s = to_seconds(*length);
  request.rule = non_empty(verb.rule);
  request.comment = non_empty(verb.note);
  const auto gpus = split(verb.gpus, ',');
  if (!verb.gpus.empty() && std::ranges::count(gpus, "") > 0) {
    return print_error({Errc::invalid, "--gpu: the list contains an empty name"});
  }
  if (gpus.size() > 1) return silence_each(verb, daemon, std::move(request), gpus);
  request.gpu = non_empty(verb.gpus);
  return show(verb, client::call_with_retry(daemon, protocol::kSilence, {}, request),
              [&](const protocol::Silence& one, WallTime now, const Screen& screen) {
                return silences_with_indexes(daemon, {{1, false}, {one}}, now, screen);
              });
}

int acknowledge(const AlertsVerb& verb, const http::Endpoint& daemon) {
  const auto number = parse_number<std::uint64_t>(verb.alert);
  if (!number) {
    return print_error({Errc::invalid,
                        fmt::format("N: expected the number of an alert; got \"{}\"", verb.alert),
                        "", "gpuyard alerts"});
  }
  return show(
      verb,
      client::call_with_retry(daemon, protocol::kAcknowledge, {*number}, {non_empty(verb.note)}),
      [](const protocol::AlertAnswer& answer, auto&&...) {
        return formatted("Acknowledged alert {}.\n", name_text(answer.alert));
      });
}

int test(const AlertsVerb& verb, const http::Endpoint& daemon) {
  const auto reply =
      client::call_with_retry(daemon, protocol::kTestSinks, {}, {non_empty(verb.sink)},
                              protocol::kSinkTestTimeout + client::kReplyTimeout);
  const int shown =
      show(verb, reply, [](const auto& tests, auto&&...) { return sink_tests_text(tests); });
  if (shown != 0) return shown;
  const bool all = std::ranges::all_of(reply->sinks, &protocol::SinkTest::delivered);
  return all ? 0 : kExitSinkTestFailed;
}

void add_subject(Options sub, AlertsVerb& verb) {
  sub.option("--rule", verb.rule, "Only this rule").metavar("NAME").default_is("all");
  add_gpus(sub, verb.gpus, "Only these GPUs: indexes, UUIDs or PCI addresses").default_is("all");
}

}  // namespace

Options add_alerts(Options program, AlertsVerb& verb) {
  const Options alerts = program.verb("alerts", "List and manage alerts");
  alerts
      .explain(
          "Without a command, lists firing and pending alerts with advice. Acknowledging, "
          "silencing and testing need permission to change GPUs.")
      .example("gpuyard alerts")
      .example("gpuyard alerts ack 17 --note \"fan ordered\"")
      .example("gpuyard alerts silence --gpu 3 --for 2h")
      .example("gpuyard alerts rules --toml > alerts.toml");
  add_output_options(alerts, verb);
  const auto action = [&](AlertsAction what, const char* name, const char* summary) {
    const Options sub = alerts.verb(name, summary).sets(verb.action, what);
    add_output_options(sub, verb);
    return sub;
  };
  const Options history =
      action(AlertsAction::history, "history", "List alerts that have fired, newest first");
  add_subject(history, verb);
  history.option("-n,--limit", verb.limit, "List at most N alerts, 1 to 1000")
      .metavar("N")
      .default_is("100")
      .range(1, 1000);
  history.example("gpuyard alerts history").example("gpuyard alerts history --gpu 3 -n 20");
  const Options ack = action(AlertsAction::acknowledge, "ack", "Acknowledge an alert");
  ack.option("number", verb.alert, "Number of the alert").metavar("N").required();
  ack.option("--note", verb.note, "Note on what is being done").metavar("TEXT");
  ack.example("gpuyard alerts ack 17 --note \"fan ordered\"");
  const Options silence =
      action(AlertsAction::silence, "silence", "Mute notifications of a rule, a GPU or both");
  add_subject(silence, verb);
  silence.option("--for", verb.length, "How long to mute, e.g. 30m, 8h or 2d")
      .metavar("DURATION")
      .required();
  silence.option("--note", verb.note, "Reason for the silence")
      .metavar("TEXT")
      .formerly("--comment");
  silence.example("gpuyard alerts silence --gpu 3 --for 2h")
      .example(
          "gpuyard alerts silence --rule thermal --for 8h --note \"cooling is being repaired\"");
  action(AlertsAction::silences, "silences", "List active silences")
      .example("gpuyard alerts silences");
  const Options unsilence = action(AlertsAction::unsilence, "unsilence", "End a silence");
  unsilence.option("id", verb.id, "ID of the silence").metavar("ID").required();
  unsilence.example("gpuyard alerts unsilence 3f2a");
  const Options rules = action(AlertsAction::rules, "rules", "List the alert rules");
  rules.flag("--toml", verb.toml, "Print the built-in rules as TOML; needs no daemon")
      .excludes(rules.find("--json"));
  rules.example("gpuyard alerts rules").example("gpuyard alerts rules --toml > alerts.toml");
  action(AlertsAction::sinks, "sinks", "List the notification sinks and their delivery status")
      .example("gpuyard alerts sinks");
  const Options test = action(AlertsAction::test, "test", "Send a test notification to the sinks");
  test.option("--sink", verb.sink, "Send only to this sink").metavar("NAME").default_is("all");
  test.example("gpuyard alerts test").example("gpuyard alerts test --sink pager");
  return alerts;
}

int run(const AlertsVerb& verb) {
  if (verb.toml) {
    print(Printable::lines(andon::built_in_text()));
    return 0;
  }
  const auto daemon = require_daemon(verb.socket, "alerts need");
  if (!daemon) return print_source_error(daemon.error());
  const auto as_text = [&](const protocol::Silences& all, WallTime now, const Screen& screen) {
    return silences_with_indexes(*daemon, all, now, screen);
  };
  switch (verb.action) {
    case AlertsAction::list:
      return show(verb, client::call_with_retry(*daemon, protocol::kAlerts), alerts_text);
    case AlertsAction::history:
      return history(verb, *daemon);
    case AlertsAction::acknowledge:
      return acknowledge(verb, *daemon);
    case AlertsAction::silence:
      return silence(verb, *daemon);
    case AlertsAction::silences:
      return show(verb, client::call_with_retry(*daemon, protocol::kActiveSilences), as_text);
    case AlertsAction::unsilence: {
      auto left = client::call_with_retry(*daemon, protocol::kUnsilence, {verb.id});
      if (!left && left.error().code == Errc::not_found) {
        Error error = left.error();
        error.hint = "gpuyard alerts silences";
        left = std::move(error);
      }
      return show(verb, left, [&](auto&&...) { return formatted("Ended silence {}.\n", verb.id); });
    }
    case AlertsAction::rules:
      return show(verb, client::call_with_retry(*daemon, protocol::kRules),
                  [](const protocol::Rules& all, WallTime, const Screen& screen) {
                    return rules_text(all, screen);
                  });
    case AlertsAction::sinks:
      return show(verb, client::call_with_retry(*daemon, protocol::kSinks), sinks_text);
    case AlertsAction::test:
      break;
  }
  return test(verb, *daemon);
}

}  // namespace gpuyard::cli
