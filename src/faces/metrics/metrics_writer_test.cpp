#include "faces/metrics/metrics_writer.h"

#include <gtest/gtest.h>

namespace gpuyard::metrics {
namespace {

TEST(Format, IsOpenMetricsForARealPrometheus) {
  for (const char* accept :
       {// As Prometheus 2.42 and 3.5 send it.
        "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;"
        "q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
        "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
        "application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;"
        "escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
        "application/openmetrics-text; version=1.0.0", "Application/OpenMetrics-Text",
        "application/openmetrics-text; version=\"1.0.0\"; charset=utf-8",
        "text/plain, application/openmetrics-text"}) {
    EXPECT_EQ(negotiate_format(accept), Format::openmetrics) << accept;
  }
}

TEST(Format, OtherAcceptHeadersSelectText) {
  for (const char* accept :
       {"", "*/*", "text/html,application/xhtml+xml,*/*;q=0.8", "application/*", "text/plain",
        "application/openmetrics-text;q=0", "application/openmetrics-text;q=0.3,text/plain;q=0.7",
        "application/openmetrics-text;version=0.0.1", "application/openmetrics-text;version=2.0.0",
        "application/openmetrics-text;q=2", "application/openmetrics-text;q=nan",
        "application/openmetrics-text;q=", "application/openmetrics-text-not", ",;=,;q=,"}) {
    EXPECT_EQ(negotiate_format(accept), Format::text) << accept;
  }
}

TEST(Format, SaysItsVersionAndCharset) {
  EXPECT_EQ(content_type_of(Format::text), "text/plain; version=0.0.4; charset=utf-8");
  EXPECT_EQ(content_type_of(Format::openmetrics),
            "application/openmetrics-text; version=1.0.0; charset=utf-8");
}

}  // namespace
}  // namespace gpuyard::metrics
