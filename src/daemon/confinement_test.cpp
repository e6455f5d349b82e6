#include "daemon/confinement.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/scratch_directory_for_tests.h"

namespace gpuyard::daemon {
namespace {

using ::testing::Contains;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

config::Config some_config() {
  config::Config config;
  config.state.directory = "/var/lib/yard";
  config.server.socket = "/run/yard/yard.sock";
  config.server.lease_socket = "/run/leases/lease.sock";
  config.zeus.socket = "/run/zeus/zeusd.sock";
  return config;
}

TEST(FilesOfDaemon, AreWritableForStateAndSocketsAlone) {
  EXPECT_THAT(files_of_daemon(some_config(), {}).writable,
              UnorderedElementsAre("/var/lib/yard", "/run/yard", "/run/leases", "/run/zeus"));
}

TEST(FilesOfDaemon, AreReadableWhereTheConfigurationNamesThem) {
  auto config = some_config();
  config.tls.certificate = "/srv/tls/cert.pem";
  config.tls.key = "/srv/keys/key.pem";
  config.processes.proc_root = "/host/proc";
  const auto readable = files_of_daemon(config, {"/opt/yard/gpuyard.toml"}).readable;
  for (const char* each : {"/srv/tls", "/srv/keys", "/host/proc", "/opt/yard", "/etc", "/proc"}) {
    EXPECT_THAT(readable, Contains(each));
  }
  for (const char* each : {"/", "/srv", "/home", "/root", "/tmp", "/var"}) {
    EXPECT_THAT(readable, Not(Contains(each)));
  }
}

TEST(FilesOfDaemon, CertificateLinkTargetDirectoryIsReadable) {
  const ScratchDirectory scratch;
  scratch.write("archive/cert1.pem", "");
  scratch.write("live/README", "");
  std::filesystem::create_symlink("../archive/cert1.pem", scratch.in("live/cert.pem"));
  auto config = some_config();
  config.tls.certificate = scratch.in("live/cert.pem");
  const auto readable = files_of_daemon(config, {}).readable;
  EXPECT_THAT(readable, Contains(scratch.in("live")));
  EXPECT_THAT(readable, Contains(scratch.in("archive")));
}

TEST(FilesOfDaemon, IncludeSecretsOfSinks) {
  const ScratchDirectory scratch;
  auto config = some_config();
  config.alerts.file = scratch.write("alerts.toml",
                                     "[sink.page]\nkind = \"pagerduty\"\n"
                                     "routing_key_file = \"/srv/secrets/key\"\n");
  EXPECT_THAT(files_of_daemon(config, {}).readable, Contains("/srv/secrets"));
}

TEST(FilesOfDaemon, RootDirectoryFilesAreAllowedSingly) {
  const auto readable = files_of_daemon(some_config(), {"/gpuyard.toml"}).readable;
  EXPECT_THAT(readable, Contains("/gpuyard.toml"));
  EXPECT_THAT(readable, Not(Contains("/")));
}

}  // namespace
}  // namespace gpuyard::daemon
