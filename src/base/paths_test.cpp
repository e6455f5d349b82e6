#include "base/paths.h"

#include <gtest/gtest.h>
#include <stdlib.h>

namespace gpuyard {
namespace {

using Strings = std::vector<std::string>;

Environment user() {
  return {7, "/home/u", "", "/run/user/7", ""};
}
Environment root() {
  return {0, "/root", "", "", ""};
}

TEST(Paths, OfRootAreTheSystems) {
  EXPECT_EQ(default_socket(root()), "/run/gpuyard/gpuyard.sock");
  EXPECT_EQ(default_state_directory(root()), "/var/lib/gpuyard");
}

TEST(Paths, OfAUserFollowTheXdgDirectories) {
  Environment environment = user();
  EXPECT_EQ(default_socket(environment), "/run/user/7/gpuyard/gpuyard.sock");
  EXPECT_EQ(default_state_directory(environment), "/home/u/.local/state/gpuyard");
  environment.xdg_state_home = "/s";
  EXPECT_EQ(default_state_directory(environment), "/s/gpuyard");
}

TEST(Paths, ServiceUsesManagerProvidedDirectories) {
  for (Environment service : {user(), root(), Environment()}) {
    service.service_configuration = "/etc/c";
    service.service_runtime = "/run/r";
    service.service_state = "/var/lib/s";
    EXPECT_EQ(default_config_files(service), (Strings{"/etc/c/gpuyard.toml"}));
    EXPECT_EQ(default_socket(service), "/run/r/gpuyard.sock");
    EXPECT_EQ(default_state_directory(service), "/var/lib/s");
    EXPECT_EQ(candidate_sockets(service),
              (Strings{"/run/gpuyard/gpuyard.sock", "/run/r/gpuyard.sock"}));
  }
}

TEST(Paths, MissingRuntimeDirectoryFallsBackToTmp) {
  Environment bare;
  bare.uid = 7;
  EXPECT_EQ(fallback_directory(bare), "/tmp/gpuyard-7");
  EXPECT_EQ(default_socket(bare), "/tmp/gpuyard-7/gpuyard.sock");
  EXPECT_EQ(default_state_directory(bare), "/tmp/gpuyard-7/state");
  for (const std::string& place : {default_socket(bare), default_state_directory(bare)}) {
    EXPECT_TRUE(is_in_fallback_directory(bare, place)) << place;
    EXPECT_FALSE(is_in_fallback_directory(user(), user().xdg_runtime_dir + place)) << place;
  }
  EXPECT_FALSE(is_in_fallback_directory(bare, "/tmp/gpuyard-77/gpuyard.sock"));
}

TEST(Paths, UserFileOverridesSystemFile) {
  EXPECT_EQ(default_config_files(user()),
            (Strings{"/etc/gpuyard/gpuyard.toml", "/home/u/.config/gpuyard/gpuyard.toml"}));
  EXPECT_EQ(hosts_file(user()), "/home/u/.config/gpuyard/hosts.toml");
  Environment environment = user();
  environment.xdg_config_home = "/c";
  EXPECT_EQ(default_config_files(environment).back(), "/c/gpuyard/gpuyard.toml");
  EXPECT_EQ(hosts_file(environment), "/c/gpuyard/hosts.toml");
}

TEST(Paths, ClientTriesSystemDaemonBeforeOwn) {
  EXPECT_EQ(candidate_sockets(user()),
            (Strings{"/run/gpuyard/gpuyard.sock", "/run/user/7/gpuyard/gpuyard.sock"}));
}

TEST(Paths, ClientFindsDaemonOfSameUser) {
  for (const Environment& environment : {user(), root()}) {
    EXPECT_EQ(candidate_sockets(environment).back(), default_socket(environment));
  }
}

TEST(ExpandHome, TildeIsTheHomeDirectory) {
  EXPECT_EQ(expand_home("~/a", "/home/u"), "/home/u/a");
  EXPECT_EQ(expand_home("~", "/home/u"), "/home/u");
  for (const char* other : {"/a", "a", "", "~bob/a", "a/~", "./~/a"}) {
    EXPECT_EQ(expand_home(other, "/home/u"), std::nullopt) << other;
  }
  EXPECT_EQ(expand_home("~/a", ""), std::nullopt);
}

TEST(AbsolutePath, RelativePathIsRefused) {
  EXPECT_EQ(*absolute_path("/a", ""), "/a");
  EXPECT_EQ(*absolute_path("~/a", "/home/u"), "/home/u/a");
  EXPECT_EQ(absolute_path("a/b", "/home/u").error().message,
            "\"a/b\" is not an absolute path; it must begin with / or ~/");
  EXPECT_FALSE(absolute_path("~bob/a", "/home/u"));
  const auto homeless = absolute_path("~/a", "");
  ASSERT_FALSE(homeless);
  EXPECT_NE(homeless.error().message.find("HOME is not set"), std::string::npos);
}

TEST(Environment, TildeInAVariableIsTheHomeDirectory) {
  ::setenv("HOME", "/home/u", 1);
  ::setenv("GPUYARD_SOCKET", "~/s.sock", 1);
  ::setenv("GPUYARD_TOKEN_FILE", "~/token", 1);
  const Environment environment = Environment::current();
  ::unsetenv("GPUYARD_SOCKET");
  ::unsetenv("GPUYARD_TOKEN_FILE");
  EXPECT_EQ(environment.gpuyard_socket, "/home/u/s.sock");
  EXPECT_EQ(environment.gpuyard_token_file, "/home/u/token");
}

TEST(Paths, SystemServiceFollowsEnvironmentVariable) {
  for (const auto& [value, expected] : {std::pair("1", true), {"0", false}, {"", false}}) {
    ::setenv("GPUYARD_SYSTEM_SERVICE", value, 1);
    EXPECT_EQ(Environment::current().system_service, expected) << value;
  }
  ::unsetenv("GPUYARD_SYSTEM_SERVICE");
  EXPECT_FALSE(Environment::current().system_service);
}

}  // namespace
}  // namespace gpuyard
