#include "faces/fleet/host_list.h"

#include <fstream>

#include <gmock/gmock.h>

#include "base/scratch_directory_for_tests.h"

namespace gpuyard::fleet {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class ResolveHosts : public testing::Test {
 protected:
  std::string file(const std::string& name, const std::string& text) {
    const std::string path = directory_.path() + "/" + name;
    std::ofstream(path) << text;
    return path;
  }
  Result<std::vector<Host>> hosts(const std::vector<std::string>& words) {
    return resolve_hosts(words, directory_.path() + "/hosts.toml");
  }
  std::string problem(const std::vector<std::string>& words) {
    const auto found = hosts(words);
    return found ? "" : found.error().message;
  }

  ScratchDirectory directory_;
};

TEST_F(ResolveHosts, AreNamesOfHostsTomlElseOfSsh) {
  file("hosts.toml", "[lab]\nurl = \"ssh://alice@lab.example.org:2222\"\n");
  const auto found = hosts({"lab, n7", "https://n8,unix:///run/gpuyard/gpuyard.sock"});
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_THAT(*found,
              ElementsAre(Host{"lab", "ssh://alice@lab.example.org:2222"}, Host{"n7", "ssh://n7"},
                          Host{"https://n8", "https://n8:9411"},
                          Host{"unix:///run/gpuyard/gpuyard.sock", "/run/gpuyard/gpuyard.sock"}));
}

TEST_F(ResolveHosts, WithoutAnyAllOfHostsTomlAreMeant) {
  file("hosts.toml", "[b]\nurl = \"ssh://b\"\n[a]\nurl = \"https://a:1\"\n");
  const auto found = hosts({});
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_THAT(*found, ElementsAre(Host{"a", "https://a:1"}, Host{"b", "ssh://b"}));
}

TEST_F(ResolveHosts, NoHostsAndNoFileGivesAdvice) {
  EXPECT_THAT(problem({}), HasSubstr("no machines given"));
  EXPECT_THAT(problem({","}), HasSubstr("--hosts: expected comma-separated names"));
}

TEST(TargetsOf, HostsAreReadBackFromTheirList) {
  const std::vector<Host> hosts = {{"n1", "ssh://n1"},
                                   {"2001:db8::7", "ssh://[2001:db8::7]"},
                                   {"n3.lab.org", "https://n3.lab.org:9412"}};
  const TargetList list = targets_of(hosts);
  EXPECT_EQ(list.targets, 3U);
  EXPECT_THAT(list.json, HasSubstr("\"n1:9411\""));
  EXPECT_THAT(list.json, HasSubstr("\"[2001:db8::7]:9411\""));
  const auto read = parse_targets(list.json, "gpuyard.json");
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(*read, hosts);
}

TEST(TargetsOf, HostWithoutNetworkAddressIsLeftOut) {
  const TargetList list =
      targets_of({{"here", "/run/gpuyard/gpuyard.sock"}, {"lab", "ssh://alice@lab.org:2222"}});
  EXPECT_THAT(list.left_out, ElementsAre("here"));
  EXPECT_EQ(list.json.find("alice"), std::string::npos);
  EXPECT_THAT(list.json, HasSubstr("\"lab.org:9411\""));
}

TEST_F(ResolveHosts, DuplicateHostIsListedOnce) {
  const auto found = hosts({"n1,n2,n1"});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->size(), 2U);
}

TEST_F(ResolveHosts, NameLikeSshOptionIsRefused) {
  for (const char* word : {"-oProxyCommand=x", "ssh://-l", "a b", "n1;x", "ssh://a$(x)"}) {
    EXPECT_NE(problem({word}), "") << word;
  }
}

TEST_F(ResolveHosts, JsonFileGivesPrometheusTargets) {
  const auto path = file("targets.json",
                         R"([{"targets": ["n1:9410", "n2:9410"], "labels": {"room": "a"}},
                             {"targets": ["n3:9411", "[fe80::1]:9411"],
                              "labels": {"__scheme__": "https"}}, {"targets": ["n1:9400"]}])");
  const auto found = hosts({path});
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_THAT(*found, ElementsAre(Host{"n1", "ssh://n1"}, Host{"n2", "ssh://n2"},
                                  Host{"n3", "https://n3:9411"},
                                  Host{"fe80::1", "https://[fe80::1]:9411"}));
}

TEST_F(ResolveHosts, InvalidListErrorNamesFile) {
  for (const char* text : {"", "{}", "[{\"targets\": [1]}]", "[{\"labels\": {}}]", "[[[[",
                           "[{\"targets\": [\"-oX:1\"]}]"}) {
    EXPECT_THAT(problem({file("bad.json", text)}), HasSubstr("bad.json")) << text;
  }
  EXPECT_THAT(problem({"nowhere.json"}), HasSubstr("nowhere.json"));
  EXPECT_THAT(problem({"nowhere.toml"}), HasSubstr("nowhere.toml"));
}

TEST_F(ResolveHosts, TwoDaemonsOfOneHostAreTwoHosts) {
  const auto path = file("two.json", R"([{"targets": ["n1:9411", "n1:9412", "n1:9411"],
                                          "labels": {"__scheme__": "https"}}])");
  const auto found = hosts({path});
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_THAT(*found, ElementsAre(Host{"n1", "https://n1:9411"},
                                  Host{"https://n1:9412", "https://n1:9412"}));
}

TEST_F(ResolveHosts, UnreachableListBecomesHostWithProblem) {
  const auto found = hosts({"n1,http_sd:http://127.0.0.1:1/targets"});
  ASSERT_TRUE(found) << found.error().message;
  ASSERT_EQ(found->size(), 2U);
  EXPECT_EQ((*found)[0].name, "n1");
  EXPECT_NE((*found)[1].problem, "");
}

TEST_F(ResolveHosts, OfDnsAreServices) {
  for (const char* word : {"dns:lab.org", "dns:", "dns:_a b", "dns:_x._tcp.la\tb"}) {
    EXPECT_THAT(problem({word}), HasSubstr("expected a DNS service")) << word;
  }
}

TEST_F(ResolveHosts, OfAPageAreUrlsWithAServer) {
  for (const char* word : {"http_sd:", "http_sd:ftp://x/", "http_sd:http://", "http_sd:lab"}) {
    EXPECT_THAT(problem({word}), HasSubstr("http://HOST[:PORT]/PATH")) << word;
  }
}

TEST_F(ResolveHosts, MayNotBeTooMany) {
  std::string many;
  for (std::size_t i = 0; i <= kMaxHosts; ++i) many += "n" + std::to_string(i) + ",";
  EXPECT_THAT(problem({many}), HasSubstr("4097 hosts"));
}

}  // namespace
}  // namespace gpuyard::fleet
