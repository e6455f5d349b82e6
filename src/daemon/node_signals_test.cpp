#include "daemon/node_signals.h"

#include <gtest/gtest.h>

#include "base/manual_loop_for_tests.h"
#include "base/manual_worker_for_tests.h"
#include "base/scratch_directory_for_tests.h"

namespace gpuyard::daemon {
namespace {

using andon::Signal;
using std::chrono::hours;

class NodeSignalsTest : public ::testing::Test {
 protected:
  std::optional<double> read(Signal signal, const std::vector<notify::SinkStats>& sinks = {}) {
    andon::Signals all;
    signals_.read(sinks, all);
    return all[signal];
  }

  ManualLoop loop_;
  ManualWorker worker_;
  const ScratchDirectory directory_;
  NodeSignals signals_{loop_, worker_, directory_.path()};
};

TEST_F(NodeSignalsTest, DiskIsUnknownUntilItWasRead) {
  signals_.start();
  EXPECT_FALSE(read(Signal::disk_free));
  worker_.run_all();
  ASSERT_TRUE(read(Signal::disk_free));
  EXPECT_GE(*read(Signal::disk_free), 0);
  EXPECT_LE(*read(Signal::disk_free), 100);
}

TEST_F(NodeSignalsTest, SinkFailsSinceItsMessagesWait) {
  notify::SinkStats sink;
  sink.name = "slack";
  sink.failing_since = loop_.wall();
  EXPECT_EQ(read(Signal::sink_failing, {sink}), 0) << "no message waits";
  sink.queued = 1;
  EXPECT_EQ(read(Signal::sink_failing, {sink}), 0);
  loop_.advance(hours(1));
  EXPECT_EQ(read(Signal::sink_failing, {sink}), 3600);
  EXPECT_EQ(read(Signal::sink_failing), 0);
  EXPECT_EQ(read(Signal::sink_failing, {sink}), 0) << "it has worked in between";
}

TEST_F(NodeSignalsTest, CertificateSignalsNeedTls) {
  metrics::TlsMetrics tls;
  signals_.watch({});
  EXPECT_FALSE(read(Signal::certificate_refused));
  tls.expires_at = std::chrono::duration_cast<std::chrono::seconds>(
                       (loop_.wall() + hours(36)).time_since_epoch())
                       .count();
  tls.reload_error = "its key is of another certificate";
  signals_.watch({.tls = &tls});
  EXPECT_EQ(read(Signal::certificate_refused), 1);
  EXPECT_EQ(read(Signal::certificate_days), 2);
}

}  // namespace
}  // namespace gpuyard::daemon
