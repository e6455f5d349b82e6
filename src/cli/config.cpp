// gpuyard config
#include "cli/config_json.h"
#include "cli/terminal.h"
#include "cli/verbs.h"
#include "config/keys.h"
#include "config/load.h"
#include "daemon/serve.h"

namespace gpuyard::cli {

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
    print(verb.json ? boost::json::serialize(config_as_json(*loaded)) + "\n"
                    : config::render(*loaded, config::Style::values));
  }
  return 0;
}

}  // namespace gpuyard::cli
