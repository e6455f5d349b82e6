// The part of the command line that changes GPUs.
#pragma once

#include "cli/verbs.h"

namespace CLI {
class App;
}  // namespace CLI

namespace gpuyard::cli {

// Outlives the parsing.
struct ControlVerbs {
  ControlVerb power;
  ControlVerb clocks;
  ControlVerb persistence;
  ControlVerb compute_mode;
  ControlVerb ecc;
  ControlVerb reset;
  ControlVerb restore;
  AuditVerb audit;
  OperationsVerb operations;
};

void add_control(CLI::App&, Verb& chosen, ControlVerbs&);

}  // namespace gpuyard::cli
