// -H with every verb: which can be of another machine's daemon, and what the others say instead.
#include <algorithm>
#include <set>
#include <sstream>

#include "base/scratch_directory_for_tests.h"
#include "cli/command_line_for_tests.h"

namespace gpuyard::cli {
namespace {

using Line = std::vector<std::string>;

// For each verb the shortest command lines that can be run, and what -H means to them.
struct Example {
  Line words;
  VerbScope reach;
};

const std::vector<Example>& examples() {
  using enum VerbScope;
  static const std::vector<Example> kExamples = {
      {{"devices"}, asks},
      {{"top"}, asks},
      {{"watch"}, asks},
      {{"run", "--", "true"}, starts},
      {{"leases"}, asks},
      {{"doctor"}, asks},
      {{"query", "--fields", "name"}, asks},
      {{"processes"}, asks},
      {{"history"}, asks},
      {{"why"}, asks},
      {{"check"}, asks},
      {{"events"}, asks},
      {{"smi", "--query-gpu=name", "--format=csv"}, asks},
      {{"record", "x.rec"}, asks},
      {{"replay", "x.rec"}, here},
      {{"queue"}, asks},
      {{"free"}, asks},
      {{"lease", "take", "--ttl", "1h"}, asks},
      {{"lease", "renew", "--ttl", "1h"}, asks},
      {{"lease", "release"}, asks},
      {{"lease", "adopt", "--pid", "7"}, asks},
      {{"lease", "show"}, asks},
      {{"cordon", "0", "--reason", "fan"}, asks},
      {{"uncordon", "0"}, asks},
      {{"energy"}, asks},
      {{"energy", "--", "true"}, starts},
      {{"usage"}, asks},
      {{"power"}, asks},
      {{"clocks"}, asks},
      {{"persistence"}, asks},
      {{"compute-mode"}, asks},
      {{"ecc"}, asks},
      {{"reset", "0"}, asks},
      {{"restore", "0"}, asks},
      {{"audit"}, asks},
      {{"operations"}, asks},
      {{"alerts"}, asks},
      {{"alerts", "history"}, asks},
      {{"alerts", "ack", "7"}, asks},
      {{"alerts", "silence", "--for", "1h"}, asks},
      {{"alerts", "silences"}, asks},
      {{"alerts", "unsilence", "x"}, asks},
      {{"alerts", "rules"}, asks},
      {{"alerts", "sinks"}, asks},
      {{"alerts", "test"}, asks},
      {{"token", "create", "ci"}, asks},
      {{"token", "list"}, asks},
      {{"token", "revoke", "ci"}, asks},
      {{"tls", "show"}, here},
      {{"host", "add", "x", "https://x"}, here},
      {{"fleet"}, here},
      {{"slurm", "health"}, here},
      {{"kube", "status"}, here},
      {{"kube", "manifest"}, here},
      {{"kube", "forget"}, here},
      {{"serve"}, here},
      {{"config", "print"}, here},
      {{"driver"}, asks},
      {{"sim", "status"}, here},
      {{"dial-stdio"}, here},
      {{"version"}, here},
      {{"schema"}, here},
      {{"completion", "bash"}, here},
  };
  return kExamples;
}

// With -H before everything, or at the end of the verb's own words.
Line with_host(Line words, const std::string& host, bool at_the_end) {
  const auto at = at_the_end ? std::ranges::find(words, "--") : words.begin();
  words.insert(at, {"-H", host});
  return words;
}

std::variant<Verb, int> parse_line(const Line& line) {
  Words words;
  for (const std::string& word : line) words.push_back(word.c_str());
  return parse(words);
}

ParseOutcome end_of_line(const Line& line) {
  Words words;
  for (const std::string& word : line) words.push_back(word.c_str());
  return end_of(words);
}

// The address of the daemon that the verb will ask.
std::string address_of_daemon(const Verb& verb) {
  return std::visit(
      [](const auto& one) -> std::string {
        if constexpr (requires { one.source.socket; }) {
          return one.source.socket;
        } else if constexpr (requires { one.socket; }) {
          return one.socket;
        } else {
          return "";
        }
      },
      verb);
}

std::string text_of(const Line& line) {
  std::string text;
  for (const std::string& word : line) text += word + " ";
  return text;
}

TEST(VerbScope, HasAnExampleOfEveryVerb) {
  std::set<std::size_t> seen;
  std::set<std::string> names;
  for (const Example& example : examples()) {
    const auto verb = parse_line(example.words);
    ASSERT_TRUE(std::holds_alternative<Verb>(verb)) << text_of(example.words);
    EXPECT_EQ(scope_of(std::get<Verb>(verb)), example.reach) << text_of(example.words);
    seen.insert(std::get<Verb>(verb).index());
    names.insert(example.words.front());
  }
  EXPECT_EQ(seen.size(), std::variant_size_v<Verb>) << "a record in cli/verbs.h has no example";
  // The words of the program, as the completion lists them, options last.
  const std::string script =
      completion_script(Shell::bash, verb_of<CompletionVerb>({"completion", "bash"}).program);
  const std::size_t begin = script.find("words=\"") + 7;
  std::istringstream words(script.substr(begin, script.find('"', begin) - begin));
  for (std::string word; words >> word;) {
    EXPECT_TRUE(word.starts_with('-') || names.contains(word)) << word << " has no example";
  }
}

TEST(VerbScope, DaemonVerbUsesDaemonOfHost) {
  for (const Example& example : examples()) {
    if (example.reach != VerbScope::asks) continue;
    for (const bool at_the_end : {false, true}) {
      const auto line = with_host(example.words, "ssh://alice@lab", at_the_end);
      const auto verb = parse_line(line);
      ASSERT_TRUE(std::holds_alternative<Verb>(verb)) << text_of(line);
      EXPECT_EQ(address_of_daemon(std::get<Verb>(verb)), "ssh://alice@lab") << text_of(line);
    }
  }
}

TEST(VerbScope, StartingVerbPrintsSshCommand) {
  for (const Example& example : examples()) {
    if (example.reach != VerbScope::starts) continue;
    for (const bool at_the_end : {false, true}) {
      const auto ended = end_of_line(with_host(example.words, "ssh://alice@lab:22", at_the_end));
      EXPECT_EQ(ended.code, 2);
      EXPECT_NE(ended.err.find("ssh -p 22 alice@lab gpuyard " + example.words.front() + " -- true"),
                std::string::npos)
          << ended.err;
    }
  }
}

TEST(VerbScope, LocalVerbPrintsSshOrFleetCommand) {
  for (const Example& example : examples()) {
    if (example.reach != VerbScope::here) continue;
    for (const bool at_the_end : {false, true}) {
      const auto ended = end_of_line(with_host(example.words, "ssh://lab", at_the_end));
      EXPECT_EQ(ended.code, 2) << text_of(example.words);
      const bool many = example.words.front() == "fleet";
      const std::string line =
          many ? "fleet --hosts ssh://lab" : "ssh lab gpuyard " + example.words.front();
      EXPECT_NE(ended.err.find(line), std::string::npos) << ended.err;
    }
  }
}

TEST(VerbScope, SourceOptionWithHostIsUsageError) {
  for (const Line& line :
       {Line{"devices", "--local"}, Line{"devices", "--nvml", "/x.so"},
        Line{"devices", "--simulate", "2"}, Line{"devices", "--socket", "/x"},
        Line{"energy", "--local", "--", "true"}, Line{"leases", "--socket", "/x"},
        Line{"run", "--socket", "/x", "--", "true"}}) {
    const auto ended = end_of_line(with_host(line, "ssh://lab", false));
    EXPECT_EQ(ended.code, 2) << text_of(line);
    EXPECT_NE(ended.err.find(" cannot be used with -H"), std::string::npos) << ended.err;
  }
}

TEST(VerbScope, RepeatedOrInvalidHostIsUsageError) {
  EXPECT_EQ(end_of({"-H", "ssh://a", "devices", "-H", "ssh://b"}).code, 2);
  EXPECT_EQ(end_of({"devices", "-H", ""}).code, 2);
  EXPECT_EQ(end_of({"devices", "-H", "ssh://-oProxyCommand=x"}).code, 2);
  const auto socket = end_of({"devices", "--socket", "ssh://lab"});
  EXPECT_EQ(socket.code, 2);
  EXPECT_NE(socket.err.find("gpuyard -H ssh://lab"), std::string::npos) << socket.err;
}

TEST(VerbScope, LocalSocketUrlIsAcceptedAsHost) {
  EXPECT_EQ(verb_of<RunVerb>({"-H", "unix:///run/x.sock", "run", "--", "true"}).socket,
            "/run/x.sock");
  const auto ended = end_of({"serve", "-H", "unix:///run/x.sock"});
  EXPECT_EQ(ended.code, 2);
  EXPECT_NE(ended.err.find("takes no -H"), std::string::npos) << ended.err;
}

TEST(VerbScope, SshCommandKeepsUserWords) {
  const auto plain = end_of(
      {"run", "-n", "2", "--host=ssh://lab/opt/gpuyard", "--", "./train.sh", "-H", "ssh://x"});
  EXPECT_NE(plain.err.find("ssh lab /opt/gpuyard run -n 2 -- ./train.sh -H ssh://x"),
            std::string::npos)
      << plain.err;
  const auto quoted = end_of({"run", "-H", "ssh://lab", "--", "sh", "-c", "a; b"});
  EXPECT_NE(quoted.err.find("ssh lab gpuyard run ..."), std::string::npos)
      << "two shells would read it: " << quoted.err;
}

TEST(VerbScope, HelpOmitsHostOptionForLocalVerbs) {
  EXPECT_NE(end_of({"--help"}).out.find("-H, --host HOST"), std::string::npos);
  EXPECT_NE(end_of({"lease", "show", "--help"}).out.find("Global options: -H,"), std::string::npos);
  EXPECT_EQ(end_of({"serve", "--help"}).out.find("-H"), std::string::npos);
}

// The daemon that the environment names.
class HostFromEnvironment : public testing::Test {
 protected:
  HostFromEnvironment() { environment_.xdg_config_home = directory_.path(); }

  Result<std::string> aimed(Verb verb, std::vector<std::string> hosts = {}) {
    auto done = select_daemon(verb, {std::move(hosts), {"verb"}, environment_});
    if (!done) return std::move(done).error();
    return address_of_daemon(verb);
  }
  static Verb devices_at(const std::string& socket) {
    DevicesVerb verb;
    verb.source.socket = socket;
    return verb;
  }

  ScratchDirectory directory_;
  Environment environment_;
};

TEST_F(HostFromEnvironment, NamesTheHostUnlessTheCommandLineDoes) {
  EXPECT_EQ(*aimed(DevicesVerb()), "");
  environment_.gpuyard_host = "ssh://lab";
  EXPECT_EQ(*aimed(DevicesVerb()), "ssh://lab");
  EXPECT_EQ(*aimed(DevicesVerb(), {"ssh://other"}), "ssh://other");
  EXPECT_EQ(*aimed(devices_at("/x.sock")), "/x.sock");
  DevicesVerb local;
  local.source.local = true;
  EXPECT_EQ(*aimed(local), "");
}

TEST_F(HostFromEnvironment, LocalVerbIgnoresVariables) {
  environment_.gpuyard_host = "ssh://lab";
  environment_.gpuyard_socket = "/x.sock";
  EXPECT_TRUE(aimed(ServeVerb()));
  EXPECT_TRUE(aimed(VersionVerb()));
  EXPECT_TRUE(aimed(DialStdioVerb()));
}

TEST_F(HostFromEnvironment, DoesNotMoveACommandToAnotherMachine) {
  environment_.gpuyard_host = "ssh://lab";
  const auto run = aimed(RunVerb());
  ASSERT_FALSE(run);
  EXPECT_EQ(run.error().code, Errc::invalid);
  EXPECT_NE(run.error().message.find("GPUYARD_HOST selects"), std::string::npos);
}

TEST_F(HostFromEnvironment, DifferentHostAndSocketAreRefused) {
  environment_.gpuyard_host = "ssh://lab";
  environment_.gpuyard_socket = "/x.sock";
  const auto both = aimed(DevicesVerb());
  ASSERT_FALSE(both);
  EXPECT_EQ(both.error().code, Errc::invalid);
  EXPECT_EQ(*aimed(DevicesVerb(), {"ssh://lab"}), "ssh://lab");
  environment_.gpuyard_host = "unix:///x.sock";
  EXPECT_EQ(*aimed(DevicesVerb()), "/x.sock") << "they say the same";
}

TEST_F(HostFromEnvironment, ASocketDoesNotLeadElsewhere) {
  environment_.gpuyard_socket = "ssh://lab";
  EXPECT_FALSE(aimed(DevicesVerb()));
  EXPECT_FALSE(aimed(RunVerb()));
  EXPECT_TRUE(aimed(VersionVerb()));
}

TEST_F(HostFromEnvironment, AHostMayHaveAName) {
  directory_.write("gpuyard/hosts.toml", "[lab]\nurl = \"ssh://alice@lab.example.org\"\n");
  EXPECT_EQ(*aimed(DevicesVerb(), {"lab"}), "ssh://alice@lab.example.org");
  environment_.gpuyard_host = "bal";
  const auto unknown = aimed(DevicesVerb());
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, Errc::not_found);
  EXPECT_NE(unknown.error().message.find("GPUYARD_HOST"), std::string::npos);
}

}  // namespace
}  // namespace gpuyard::cli
