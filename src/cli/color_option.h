// An option that many verbs have. command_line.cpp defines it.
#pragma once

#include "cli/screen.h"

namespace CLI {
class App;
}  // namespace CLI

namespace gpuyard::cli {

void add_color(CLI::App* verb, ColorWish& wish);

}  // namespace gpuyard::cli
