// Options that several verbs have.
#pragma once

#include <optional>
#include <string>

#include "cli/options.h"
#include "cli/verbs.h"

namespace gpuyard::cli {

inline constexpr int kMostGpus = 64;

Option add_color(Options verb, ColorWish& wish);
Option add_socket(Options verb, std::string& socket);
Option add_simulate(Options verb, std::optional<int>& gpus);
Option add_model(Options verb, std::string& model);
// Of a verb that shows what the daemon says: --socket, --json and --color.
void add_showing(Options verb, std::string& socket, bool& json, ColorWish& wish);
void add_source(Options verb, SourceFlags& flags);

// Where in the recording `file` to begin, and how fast it is played.
void add_position(Options verb, const char* from_name, std::string& from, const char* speed_name,
                  double& speed, Option file);

// Which GPUs a lease is to have.
void add_filters(Options verb, LeaseFilters& wanted);
// Which GPUs, as arguments and as --gpus, or as --gpus alone: indexes, UUIDs or PCI addresses with
// commas or blanks.
Option add_gpus(Options verb, std::string& gpus, const char* help);
Option add_gpus_option(Options verb, std::string& gpus, const char* help);
Option add_note(Options verb, std::string& note);

}  // namespace gpuyard::cli
