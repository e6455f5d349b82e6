#include "io/kube/resource.h"

#include <string_view>

#include "io/http/target.h"

namespace gpuyard::kube {

std::string path_of(const Resource& resource) {
  std::string path = resource.group.empty() ? "/api" : "/apis";
  const auto append = [&](std::string_view segment) {
    if (!segment.empty()) path += "/" + http::percent_encode(segment);
  };
  append(resource.group);
  append(resource.version);
  if (!resource.namespace_name.empty()) append("namespaces");
  append(resource.namespace_name);
  append(resource.plural);
  append(resource.name);
  append(resource.subresource);
  return path;
}

}  // namespace gpuyard::kube
