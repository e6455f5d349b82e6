// The verbs of `gpuyard kube`, one function each. They return an exit code.
#pragma once

#include <string>

#include "base/result.h"
#include "cli/verbs.h"
#include "io/kube/client.h"

namespace gpuyard::cli::kube {

// Runs until it is killed: whatever it was doing, the next agent of the node goes on.
int run_agent(const KubeVerb&);
int show_status(const KubeVerb&);
// To stdout. It needs no cluster.
int print_manifest(const KubeVerb&);
int withdraw(const KubeVerb&);

// Of the cluster that a kubeconfig names, or, without one, of the pod's own.
Result<gpuyard::kube::Client> open_client(const std::string& kubeconfig);

// REQUIRES: the answer is not ok.
Error error_of(const gpuyard::kube::Answer&);

}  // namespace gpuyard::cli::kube
