// gpuyard config
#include "cli/serve/config.h"

#include <boost/json.hpp>

#include "cli/options.h"
#include "cli/screen/output.h"
#include "cli/shared_options.h"
#include "cli/verbs.h"
#include "daemon/alert_config.h"
#include "daemon/config/config.h"
#include "daemon/config/keys.h"
#include "daemon/config_check.h"
#include "faces/protocol/resources.h"

namespace gpuyard::cli {

Options add_config(Options program, ConfigVerb& verb) {
  const Options config = program.verb("config", "Show or check the configuration");
  config.requires_verb()
      .example("gpuyard config show")
      .example("gpuyard config validate")
      .example("gpuyard config init > gpuyard.toml");
  const auto action = [&](const char* name, ConfigVerb::Action what, const char* summary) {
    const Options sub = config.verb(name, summary).sets(verb.action, what);
    sub.option("--config", verb.file, "Configuration file to use instead of the default files")
        .metavar("FILE");
    return sub;
  };
  using enum ConfigVerb::Action;
  action("init", init, "Print a commented configuration file")
      .example("gpuyard config init > gpuyard.toml");
  const Options shown = action("show", show, "Print the effective configuration").formerly("print");
  add_json(shown, verb.json);
  shown.example("gpuyard config show --config gpuyard.toml");
  action("validate", validate, "Check the configuration for errors")
      .example("gpuyard config validate --config gpuyard.toml");
  action("path", path, "Print the configuration files in the order they are read")
      .example("gpuyard config path");
  return config;
}

int run(const ConfigVerb& verb) {
  const auto environment = Environment::current();
  if (verb.action == ConfigVerb::Action::path) {
    for (const std::string& file : config::config_files(environment, verb.file))
      print(formatted("{}\n", file));
    return 0;
  }
  if (verb.action == ConfigVerb::Action::init) {
    const auto defaults = config::with_default_paths({}, environment);
    print(Printable::lines(config::render(defaults, config::Style::commented_template)));
    return 0;
  }
  const auto loaded = config::load(environment, verb.file);
  if (!loaded) return print_error(loaded.error());
  if (const auto valid = daemon::check_config(*loaded); !valid) return print_error(valid.error());
  if (verb.action == ConfigVerb::Action::validate) {
    const auto alerts = daemon::read_alert_config(*loaded);
    if (!alerts) return print_error(alerts.error());
    for (const auto& sink : alerts->sinks) {
      if (!sink.unusable_reason.empty()) return print_error({Errc::invalid, sink.unusable_reason});
    }
  }
  if (verb.action == ConfigVerb::Action::show) {
    print(verb.json ? Printable::json(config_as_json(*loaded)) + "\n"
                    : Printable::lines(config::render(*loaded, config::Style::values)));
  }
  return 0;
}

namespace {

boost::json::value as_json(const config::Value& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return boost::json::value(*text);
  if (const auto* number = std::get_if<std::int64_t>(&value)) return *number;
  if (const auto* yes = std::get_if<bool>(&value)) return *yes;
  if (const auto* real = std::get_if<double>(&value)) return *real;
  boost::json::array list;
  for (const auto& item : std::get<std::vector<std::string>>(value)) list.emplace_back(item);
  return list;
}

boost::json::object schema_of(config::Type type) {
  if (type == config::Type::list) return {{"type", "array"}, {"items", {{"type", "string"}}}};
  if (type == config::Type::integer) return {{"type", "integer"}};
  if (type == config::Type::number) return {{"type", "number"}};
  return {{"type", type == config::Type::boolean ? "boolean" : "string"}};
}

}  // namespace

std::string config_as_json(const config::Config& config) {
  boost::json::object out{{"schema", protocol::kSchemaVersion}};
  for (const config::Key& key : config::keys()) {
    auto& section = out[key.section];
    if (!section.is_object()) section.emplace_object();
    section.get_object()[key.name] = as_json(key.get(config));
  }
  return boost::json::serialize(out);
}

boost::json::object config_schema() {
  boost::json::object sections{{"schema", {{"type", "integer"}}}};
  boost::json::array names{"schema"};
  for (const config::Key& key : config::keys()) {
    auto& section = sections[key.section];
    if (!section.is_object()) {
      section = {{"type", "object"},
                 {"properties", boost::json::object{}},
                 {"required", boost::json::array{}}};
      names.emplace_back(key.section);
    }
    boost::json::object one = schema_of(key.type);
    one["description"] = key.help;
    section.at("properties").get_object()[key.name] = std::move(one);
    section.at("required").get_array().emplace_back(key.name);
  }
  return {{"type", "object"}, {"properties", std::move(sections)}, {"required", std::move(names)}};
}

}  // namespace gpuyard::cli
