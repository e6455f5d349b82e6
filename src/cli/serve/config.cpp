// gpuyard config
#include "cli/options.h"
#include "cli/screen/terminal.h"
#include "cli/serve/config_json.h"
#include "cli/verbs.h"
#include "daemon/config/keys.h"
#include "daemon/config/load.h"
#include "daemon/serve.h"

namespace gpuyard::cli {

Options add_config(Options program, ConfigVerb& verb) {
  const Options config = program.verb("config", "Show and check the configuration");
  config.requires_verb();
  const auto action = [&](const char* name, ConfigVerb::Action what, const char* summary) {
    const Options sub = config.verb(name, summary).sets(verb.action, what);
    sub.option("--config", verb.file, "Use FILE instead of the default files");
    return sub;
  };
  using enum ConfigVerb::Action;
  action("init", init, "Print a commented configuration file");
  action("print", print, "Print the configuration in force")
      .flag("--json", verb.json, "Print JSON");
  action("validate", validate, "Say whether the configuration is valid");
  action("path", path, "Print the files that are read, in order");
  return config;
}

int run(const ConfigVerb& verb) {
  const auto environment = config::Environment::of_process();
  if (verb.action == ConfigVerb::Action::path) {
    for (const std::string& file : config::files_read(environment, verb.file)) print(file + "\n");
    return 0;
  }
  if (verb.action == ConfigVerb::Action::init) {
    const auto defaults = config::with_places({}, environment);
    print(config::render(defaults, config::Style::commented_template));
    return 0;
  }
  const auto loaded = config::load(environment, verb.file);
  if (!loaded) return complain(loaded.error());
  if (const auto valid = daemon::check(*loaded); !valid) return complain(valid.error());
  if (verb.action == ConfigVerb::Action::print) {
    print(verb.json ? config_as_json(*loaded) + "\n"
                    : config::render(*loaded, config::Style::values));
  }
  return 0;
}

}  // namespace gpuyard::cli
