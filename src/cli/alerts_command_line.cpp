#include "cli/alerts_command_line.h"

#include <CLI/CLI.hpp>

#include "cli/color_option.h"

namespace gpuyard::cli {
namespace {

using Action = AlertsVerb::Action;

class AlertActions {
 public:
  AlertActions(CLI::App* alerts, Verb& chosen, AlertsVerb& verb)
      : alerts_(alerts), chosen_(chosen), verb_(verb) {}

  CLI::App* add(Action action, const char* name, const char* summary) {
    auto* sub = alerts_->add_subcommand(name, summary);
    common(sub);
    sub->callback([chosen = &chosen_, verb = &verb_, action] {
      verb->action = action;
      *chosen = *verb;
    });
    return sub;
  }

  void common(CLI::App* sub) {
    sub->add_option("--socket", verb_.socket,
                    "Ask the daemon at PATH or ADDRESS:PORT, and nobody else");
    sub->add_flag("--json", verb_.json, "Print JSON");
    add_color(sub, verb_.color);
  }

 private:
  CLI::App* alerts_;
  Verb& chosen_;
  AlertsVerb& verb_;
};

void add_what(CLI::App* sub, AlertsVerb& verb) {
  sub->add_option("--rule", verb.rule, "Of this rule; else any")->type_name("NAME");
  sub->add_option("--gpu", verb.gpu, "Of this GPU: index, UUID or PCI address; else any")
      ->type_name("GPU");
}

}  // namespace

void add_alerts(CLI::App& app, Verb& chosen, AlertsVerb& verb) {
  auto* alerts = app.add_subcommand("alerts", "Show what is wrong, and look after it");
  AlertActions actions(alerts, chosen, verb);
  actions.common(alerts);
  alerts->callback([&chosen, &verb, alerts] {
    if (alerts->get_subcommands().empty()) chosen = verb;
  });
  auto* history = actions.add(Action::history, "history", "Show what was wrong");
  add_what(history, verb);
  history->add_option("--limit", verb.limit, "At most so many, the newest first (100)")
      ->type_name("N")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1000}));
  auto* ack = actions.add(Action::acknowledge, "ack", "Say that you look after one");
  ack->add_option("number", verb.number, "Of the alert")->type_name("NUMBER")->required();
  ack->add_option("--note", verb.note, "What is done about it")->type_name("TEXT");
  auto* silence = actions.add(Action::silence, "silence", "Have nobody told of some for a while");
  add_what(silence, verb);
  silence->add_option("--for", verb.length, "So long: 30m, 8h, 2d")->type_name("TIME")->required();
  silence->add_option("--comment", verb.note, "Why")->type_name("TEXT");
  actions.add(Action::silences, "silences", "Show what nobody is told of");
  actions.add(Action::unsilence, "unsilence", "End a silence")
      ->add_option("id", verb.id, "Of the silence")
      ->type_name("ID")
      ->required();
  auto* rules = actions.add(Action::rules, "rules", "Show when what is an alert");
  rules->add_flag("--toml", verb.toml, "Print the built-in rules as TOML, without a daemon")
      ->excludes(rules->get_option("--json"));
  actions.add(Action::sinks, "sinks", "Show where alerts go, and whether they arrive");
  actions.add(Action::test, "test", "Send a test to where alerts go")
      ->add_option("--sink", verb.sink, "Only to this one")
      ->type_name("NAME");
}

}  // namespace gpuyard::cli
