// gpuyard alerts: what is wrong, and what people do about it.
#include <algorithm>
#include <set>

#include "andon/rule_reader.h"
#include "base/json_writer.h"
#include "cli/alerts/alerts_table.h"
#include "cli/client/daemon_client.h"
#include "cli/lease/lease_request.h"
#include "cli/read/reading.h"
#include "cli/screen/terminal.h"
#include "cli/shared_options.h"
#include "cli/verbs.h"
#include "cli/words.h"
#include "protocol/alert_routes.h"

namespace gpuyard::cli {
namespace {

using AlertsAction = AlertsVerb::Action;

constexpr int kUnmet = 7;  // exit code: what was asked for did not come true

std::optional<std::string> unless_empty(const std::string& text) {
  return text.empty() ? std::nullopt : std::optional(text);
}

int complain_about_alerts(const Error& error) {
  const bool absent = error.code == Errc::unavailable;
  return complain(error,
                  absent ? "  `gpuyard serve` starts one; `gpuyard doctor` looks closer." : "");
}

// Prints the answer as JSON, or as `table` has it.
template <class Answer, class Table>
int show(const AlertsVerb& verb, const Result<Answer>& answer, Table&& table) {
  if (!answer) return complain_about_alerts(answer.error());
  print(verb.json ? json::to_json(*answer) + "\n" : table(*answer));
  return 0;
}

int list(const AlertsVerb& verb, const http::Endpoint& daemon) {
  return show(verb, client::call(daemon, protocol::kAlerts), [&](const auto& alerts) {
    return alerts_text(alerts, wall_now(), Screen::of_stdout(verb.color));
  });
}

int history(const AlertsVerb& verb, const http::Endpoint& daemon) {
  protocol::AlertHistoryQuery query;
  query.rule = unless_empty(verb.rule);
  query.gpu = unless_empty(verb.gpus);
  query.limit = verb.limit;
  return show(verb, client::call(daemon, protocol::kAlertHistory, query), [&](const auto& past) {
    return history_text(past, wall_now(), Screen::of_stdout(verb.color));
  });
}

int acknowledge(const AlertsVerb& verb, const http::Endpoint& daemon) {
  return show(
      verb, client::call(daemon, protocol::kAcknowledge, {verb.number}, {unless_empty(verb.note)}),
      [](const protocol::AlertAnswer& answer) {
        return "Acknowledged: " + name_text(answer.alert) + ".\n";
      });
}

int silences(const AlertsVerb& verb, const Result<protocol::Silences>& answer) {
  return show(verb, answer, [&](const auto& all) {
    return silences_text(all, wall_now(), Screen::of_stdout(verb.color));
  });
}

// A silence is of one GPU or of all: several are made one after the other, and shown together.
int silence_each(const AlertsVerb& verb, const http::Endpoint& daemon, protocol::SilenceWish wish,
                 const std::vector<std::string>& gpus) {
  std::set<std::string> made;
  std::optional<Error> failed;
  for (auto gpu = gpus.begin(); gpu != gpus.end() && !failed; ++gpu) {
    wish.gpu = *gpu;
    const auto one = client::call(daemon, protocol::kSilence, {}, wish);
    if (one) {
      made.insert(one->id);
    } else {
      failed = one.error();
    }
  }
  if (!made.empty()) {
    auto all = client::call(daemon, protocol::kSilencesNow);
    if (all) std::erase_if(all->silences, [&](const auto& one) { return !made.contains(one.id); });
    if (const int told = silences(verb, all); told != 0) return told;
  }
  return failed ? complain_about_alerts(*failed) : 0;
}

int silence(const AlertsVerb& verb, const http::Endpoint& daemon) {
  const auto length = seconds_of(verb.length, "--for");
  if (!length) return complain(length.error());
  protocol::SilenceWish wish;
  wish.for_s = *length;
  wish.rule = unless_empty(verb.rule);
  wish.comment = unless_empty(verb.note);
  const auto gpus = split(verb.gpus, ',');
  if (!verb.gpus.empty() && std::ranges::count(gpus, "") > 0) {
    return complain({Errc::invalid, "--gpus: a list of GPUs with an empty name in it"});
  }
  if (gpus.size() > 1) return silence_each(verb, daemon, std::move(wish), gpus);
  wish.gpu = unless_empty(verb.gpus);
  return show(verb, client::call(daemon, protocol::kSilence, {}, wish),
              [&](const protocol::Silence& one) {
                return silences_text({1, false, {one}}, wall_now(), Screen::of_stdout(verb.color));
              });
}

int rules(const AlertsVerb& verb, const http::Endpoint& daemon) {
  return show(verb, client::call(daemon, protocol::kRules),
              [&](const auto& all) { return rules_text(all, Screen::of_stdout(verb.color)); });
}

int sinks(const AlertsVerb& verb, const http::Endpoint& daemon) {
  return show(verb, client::call(daemon, protocol::kSinks), [&](const auto& all) {
    return sinks_text(all, wall_now(), Screen::of_stdout(verb.color));
  });
}

int test(const AlertsVerb& verb, const http::Endpoint& daemon) {
  const auto answer = client::call(daemon, protocol::kTestSinks, {}, {unless_empty(verb.sink)},
                                   protocol::kSinkTestPatience + client::kAnswerDeadline);
  const int shown = show(verb, answer, sink_tests_text);
  if (shown != 0) return shown;
  const bool all = std::ranges::all_of(answer->sinks, &protocol::SinkTest::delivered);
  return all ? 0 : kUnmet;
}

void add_subject(Options sub, AlertsVerb& verb) {
  sub.option("--rule", verb.rule, "Of this rule; else any").type_name("NAME");
  add_gpus(sub, verb.gpus, "Of these GPUs: indexes, UUIDs or PCI addresses; else any");
}

}  // namespace

Options add_alerts(Options program, AlertsVerb& verb) {
  const Options alerts = program.verb("alerts", "Show what is wrong, and look after it");
  add_showing(alerts, verb.socket, verb.json, verb.color);
  const auto action = [&](AlertsAction what, const char* name, const char* summary) {
    const Options sub = alerts.verb(name, summary).sets(verb.action, what);
    add_showing(sub, verb.socket, verb.json, verb.color);
    return sub;
  };
  const Options history = action(AlertsAction::history, "history", "Show what was wrong");
  add_subject(history, verb);
  history.option("--limit", verb.limit, "At most so many, the newest first (100)")
      .type_name("N")
      .range(1, 1000);
  const Options ack = action(AlertsAction::acknowledge, "ack", "Say that you look after one");
  ack.option("number", verb.number, "Of the alert").type_name("NUMBER").required();
  ack.option("--note", verb.note, "What is done about it").type_name("TEXT");
  const Options silence =
      action(AlertsAction::silence, "silence", "Have nobody told of some for a while");
  add_subject(silence, verb);
  silence.option("--for", verb.length, "So long: 30m, 8h, 2d").type_name("TIME").required();
  silence.option("--comment", verb.note, "Why").type_name("TEXT");
  action(AlertsAction::silences, "silences", "Show what nobody is told of");
  action(AlertsAction::unsilence, "unsilence", "End a silence")
      .option("id", verb.id, "Of the silence")
      .type_name("ID")
      .required();
  const Options rules = action(AlertsAction::rules, "rules", "Show when what is an alert");
  rules.flag("--toml", verb.toml, "Print the built-in rules as TOML, without a daemon")
      .excludes(rules.find("--json"));
  action(AlertsAction::sinks, "sinks", "Show where alerts go, and whether they arrive");
  action(AlertsAction::test, "test", "Send a test to where alerts go")
      .option("--sink", verb.sink, "Only to this one")
      .type_name("NAME");
  return alerts;
}

int run(const AlertsVerb& verb) {
  if (verb.toml) {
    print(andon::built_in_text());
    return 0;
  }
  const auto daemon =
      daemon_at(verb.socket, "only a daemon watches for alerts, and none is running here");
  if (!daemon) return complain_about_alerts(daemon.error());
  switch (verb.action) {
    case AlertsAction::list:
      return list(verb, *daemon);
    case AlertsAction::history:
      return history(verb, *daemon);
    case AlertsAction::acknowledge:
      return acknowledge(verb, *daemon);
    case AlertsAction::silence:
      return silence(verb, *daemon);
    case AlertsAction::silences:
      return silences(verb, client::call(*daemon, protocol::kSilencesNow));
    case AlertsAction::unsilence:
      return silences(verb, client::call(*daemon, protocol::kUnsilence, {verb.id}));
    case AlertsAction::rules:
      return rules(verb, *daemon);
    case AlertsAction::sinks:
      return sinks(verb, *daemon);
    case AlertsAction::test:
      break;
  }
  return test(verb, *daemon);
}

}  // namespace gpuyard::cli
