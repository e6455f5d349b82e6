#include "faces/metrics/reference_for_tests.h"

#include <gtest/gtest.h>

#include "base/golden_for_tests.h"

namespace gpuyard::metrics {
namespace {

TEST(MetricsReference, CommittedFileMatchesCatalog) {
  expect_document("metrics.md", reference());
}

}  // namespace
}  // namespace gpuyard::metrics
