#include "metrics/reference.h"

#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

namespace gpuyard::metrics {
namespace {

TEST(MetricsReference, TheCommittedFileIsWhatTheCatalogSays) {
  std::ifstream file(GPUYARD_SOURCE_DIR "/docs/metrics.md");
  std::stringstream committed;
  committed << file.rdbuf();
  EXPECT_EQ(committed.str(), reference())
      << "write it anew: build/release/src/faces/metrics/metrics_reference > docs/metrics.md";
}

}  // namespace
}  // namespace gpuyard::metrics
