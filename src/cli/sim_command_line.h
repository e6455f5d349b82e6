// The part of the command line that is about simulated GPUs.
#pragma once

#include <string>

#include "cli/verbs.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace gpuyard::cli {

inline constexpr int kMostGpus = 64;

CLI::Option* add_model(CLI::App* verb, std::string& model);
void add_sim(CLI::App&, Verb& chosen, SimVerb&);

}  // namespace gpuyard::cli
