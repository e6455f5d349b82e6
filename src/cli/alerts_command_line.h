// The part of the command line that is about alerts.
#pragma once

#include "cli/verbs.h"

namespace CLI {
class App;
}  // namespace CLI

namespace gpuyard::cli {

// `verb` outlives the parsing.
void add_alerts(CLI::App&, Verb& chosen, AlertsVerb& verb);

}  // namespace gpuyard::cli
