// The part of the command line that is about who has which GPU.
#pragma once

#include "cli/verbs.h"

namespace CLI {
class App;
}  // namespace CLI

namespace gpuyard::cli {

// Outlives the parsing.
struct LeaseVerbs {
  RunVerb run;
  LeaseVerb lease;
  LeasesVerb leases;
  QueueVerb queue;
  CordonVerb cordon;
  CordonVerb uncordon;
  UsageVerb usage;
};

void add_leasing(CLI::App&, Verb& chosen, LeaseVerbs&);

}  // namespace gpuyard::cli
