// The path of an object, or of all objects of a kind, at a Kubernetes API server.
#pragma once

#include <string>

namespace gpuyard::kube {

struct Resource {
  std::string group = {};  // "resource.k8s.io"; "": the core group
  std::string version = "v1";
  std::string plural = {};          // "nodes", as the API spells it
  std::string namespace_name = {};  // "": the kind belongs to the cluster
  std::string name = {};            // "": all objects, or the place to create one
  std::string subresource = {};     // "status"
};

// "/api/v1/nodes/n1/status", "/apis/resource.k8s.io/v1/devicetaintrules". Names are encoded, so
// that a name with a slash or a question mark reaches no other object.
std::string path_of(const Resource&);

}  // namespace gpuyard::kube
