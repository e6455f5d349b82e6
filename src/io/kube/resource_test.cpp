#include "io/kube/resource.h"

#include <gtest/gtest.h>

namespace gpuyard::kube {
namespace {

TEST(Resource, PathNamesGroupNamespaceAndObject) {
  EXPECT_EQ(path_of({.plural = "nodes", .name = "n1", .subresource = "status"}),
            "/api/v1/nodes/n1/status");
  EXPECT_EQ(path_of({.plural = "events", .namespace_name = "default"}),
            "/api/v1/namespaces/default/events");
  EXPECT_EQ(
      path_of({.group = "resource.k8s.io", .version = "v1beta2", .plural = "devicetaintrules"}),
      "/apis/resource.k8s.io/v1beta2/devicetaintrules");
}

TEST(Resource, NameReachesNoOtherPath) {
  EXPECT_EQ(path_of({.plural = "nodes", .name = "a/../b?x=1#y"}),
            "/api/v1/nodes/a%2F..%2Fb%3Fx%3D1%23y");
}

}  // namespace
}  // namespace gpuyard::kube
