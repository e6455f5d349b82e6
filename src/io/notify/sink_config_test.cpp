#include <sys/stat.h>

#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "base/scratch_directory_for_tests.h"
#include "io/notify/sink_config.h"

namespace gpuyard::notify {
namespace {

using std::chrono::seconds;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// The only sink of a text, or the error as a sink's name.
SinkConfig only(const std::string& toml) {
  auto sinks = read_sinks(toml, "alerts.toml");
  SinkConfig wrong;
  wrong.name = sinks ? "not one sink" : sinks.error().message;
  return sinks && sinks->size() == 1 ? sinks->front() : wrong;
}

std::string error_of(const std::string& toml) {
  const auto sinks = read_sinks(toml, "alerts.toml");
  return sinks ? "no error" : sinks.error().message;
}

// Returns why the only sink of a text is closed, or the error.
std::string closed_reason_of(const std::string& toml) {
  const auto sinks = read_sinks(toml, "alerts.toml");
  if (!sinks) return "refused: " + sinks.error().message;
  return sinks->size() == 1 ? sinks->front().unusable_reason : "not one sink";
}

class ReadSinks : public testing::Test {
 protected:
  std::string file(const std::string& name, const std::string& text, mode_t mode = 0600) {
    return directory_.write(name, text, mode);
  }

  ScratchDirectory directory_;
};

TEST_F(ReadSinks, LeavesRulesAlone) {
  const auto sinks = read_sinks("[rule.hot]\nmetric = 3\n[sink.log]\nkind = \"log\"\n", "x");
  ASSERT_TRUE(sinks) << sinks.error().message;
  ASSERT_EQ(sinks->size(), 1U);
  EXPECT_EQ(sinks->front().name, "log");
  EXPECT_EQ(sinks->front().destination(), "stderr");
  EXPECT_EQ(sinks->front().min_level, NotificationLevel::warning);
}

TEST_F(ReadSinks, ReadsOnlyTheNamedSinks) {
  const std::string toml =
      "[sink.a]\nkind = \"webhook\"\nurl_file = \"/nowhere/a\"\n"
      "[sink.b]\nkind = \"webhook\"\nurl_file = \"/nowhere/b\"\n";
  const auto sinks = read_sinks(toml, "x", {"b"});
  ASSERT_TRUE(sinks) << sinks.error().message;
  ASSERT_EQ(sinks->size(), 1U);
  EXPECT_EQ(sinks->front().name, "b");
  EXPECT_THAT(sinks->front().unusable_reason, HasSubstr("/nowhere/b"));
}

TEST_F(ReadSinks, HasNoneInAnEmptyFile) {
  const auto sinks = read_sinks("", "x");
  ASSERT_TRUE(sinks);
  EXPECT_TRUE(sinks->empty());
}

TEST_F(ReadSinks, ReadsEveryKeyOfAWebhook) {
  const std::string key = file("key", "s3cret-key\n", 0640);
  const std::string token = file("token", "t0ken");
  const std::string ca = file("ca.pem", "-----BEGIN CERTIFICATE-----", 0644);
  const SinkConfig sink = only(fmt::format(
      "[sink.desk]\nkind = \"webhook\"\nurl = \"https://alerts.example.org:8443/in?team=1\"\n"
      "secret_file = \"{}\"\nbearer_token_file = \"{}\"\nca_file = \"{}\"\ntimeout_s = 3\n"
      "min_level = \"error\"\nrate_per_minute = 5\n",
      key, token, ca));
  ASSERT_EQ(sink.name, "desk");
  EXPECT_EQ(sink.destination(), "alerts.example.org:8443");
  EXPECT_EQ(sink.url.target.reveal(), "/in?team=1");
  EXPECT_EQ(sink.key.reveal(), "s3cret-key");
  EXPECT_EQ(sink.authorization.reveal(), "Bearer t0ken");
  EXPECT_EQ(sink.url.origin.ca_file, ca);
  EXPECT_EQ(sink.timeout, seconds(3));
  EXPECT_EQ(sink.min_level, NotificationLevel::error);
  EXPECT_EQ(sink.rate_per_minute, 5U);
}

TEST_F(ReadSinks, ReadsAProxyAndItsLogin) {
  const auto sinks = read_sinks(
      "[sink.a]\nkind = \"webhook\"\nproxy = \"http://me:pa55@proxy.example.org:3128\"\n"
      "url = \"https://example.org/hook\"\n",
      "alerts.toml");
  ASSERT_TRUE(sinks) << sinks.error().message;
  const auto& proxy = sinks->front().url.origin.proxy;
  ASSERT_TRUE(proxy);
  EXPECT_EQ(proxy->host, "proxy.example.org");
  EXPECT_EQ(proxy->port, 3128);
  EXPECT_EQ(proxy->authorization, "Basic bWU6cGE1NQ==");
  for (const char* bad : {"https://proxy:3128", "proxy:3128", "http://proxy:3128/path", ""}) {
    const auto refused = read_sinks(
        "[sink.a]\nkind = \"webhook\"\nurl = \"https://h\"\nproxy = \"" + std::string(bad) + "\"\n",
        "alerts.toml");
    ASSERT_FALSE(refused) << bad;
    EXPECT_EQ(refused.error().message,
              "alerts.toml:4: sink.a.proxy: must be a URL such as http://gateway.example.org:3128");
  }
}

TEST_F(ReadSinks, ReadsASlackUrlFromAFile) {
  const SinkConfig sink =
      only(fmt::format("[sink.s]\nkind = \"slack\"\nurl_file = \"{}\"\n",
                       file("url", "https://hooks.slack.com/services/T0/B0/xyz\n")));
  EXPECT_EQ(sink.name, "s");
  EXPECT_EQ(sink.destination(), "hooks.slack.com");
  EXPECT_EQ(sink.url.target.reveal(), "/services/T0/B0/xyz");
}

TEST_F(ReadSinks, KnowsWherePagerDutyIs) {
  const SinkConfig sink = only(fmt::format(
      "[sink.p]\nkind = \"pagerduty\"\nrouting_key_file = \"{}\"\n", file("key", "R0UTE")));
  EXPECT_EQ(sink.destination(), "events.pagerduty.com");
  EXPECT_EQ(sink.url.target.reveal(), "/v2/enqueue");
  EXPECT_TRUE(sink.url.origin.tls);
}

TEST_F(ReadSinks, AlertmanagerCredentialsBecomeBasicAuth) {
  const SinkConfig sink = only(fmt::format(
      "[sink.am]\nkind = \"alertmanager\"\nurl = \"http://127.0.0.1:9093\"\nusername = \"me\"\n"
      "password_file = \"{}\"\nresend_s = 20\n",
      file("password", "pa55")));
  EXPECT_EQ(sink.authorization.reveal(), "Basic bWU6cGE1NQ==");
  EXPECT_EQ(sink.resend, seconds(20));
  const SinkConfig other =
      only("[sink.am]\nkind = \"alertmanager\"\nurl = \"http://me:pa%355@[::1]:9093\"\n");
  EXPECT_EQ(other.authorization.reveal(), "Basic bWU6cGE1NQ==");
  EXPECT_EQ(other.destination(), "[::1]:9093");
}

TEST_F(ReadSinks, ReadsACommand) {
  const SinkConfig sink = only("[sink.c]\nkind = \"command\"\nargv = [\"/bin/true\", \"x\"]\n");
  EXPECT_EQ(sink.argv, (std::vector<std::string>{"/bin/true", "x"}));
  EXPECT_EQ(sink.destination(), "/bin/true");
}

TEST_F(ReadSinks, InvalidConfigurationErrorNamesLineAndKey) {
  struct Case {
    const char* toml;
    const char* error;
  };
  for (const auto& [toml, error] : {
           Case{"\n[sinks.a]\n", "alerts.toml:2: unknown \"sinks\"; expected a table"},
           Case{"sink = 3\n", "alerts.toml:1: unknown \"sink\""},
           Case{"[sink]\na = 3\n", "alerts.toml:2: a sink must be a table [sink.NAME]"},
           Case{"[sink.\"a b\"]\nkind = \"log\"\n", "alerts.toml:1: a sink must be a table"},
           Case{"\n\n[sink.a]\n", "alerts.toml:3: sink.a has no kind"},
           Case{"[sink.a]\nkind = \"email\"\n",
                "alerts.toml:2: sink.a.kind: expected log, command, webhook"},
           Case{"[sink.a]\nkind = 3\n", "alerts.toml:2: sink.a.kind must be a string"},
           Case{"[sink.a]\nkind = \"log\"\ncolour = 3\n",
                "alerts.toml:3: unknown key \"sink.a.colour\"; known keys: kind min_level"},
           Case{"[sink.a]\nkind = \"log\"\n\nurl = \"https://x\"\n",
                "alerts.toml:4: \"sink.a.url\" is not allowed for a sink of kind log; remove it"},
           Case{"[sink.a]\nkind = \"log\"\nmin_level = \"bad\"\n",
                "alerts.toml:3: sink.a.min_level: expected info, warning, error or critical; got "
                "\"bad\""},
           Case{"[sink.a]\nkind = \"command\"\n",
                "alerts.toml:1: sink.a: a sink of kind command needs argv"},
           Case{"[sink.a]\nkind = \"command\"\nargv = [\"\"]\n",
                "alerts.toml:3: sink.a.argv: must begin with the program"},
           Case{"[sink.a]\nkind = \"command\"\nargv = [3]\n",
                "alerts.toml:3: sink.a.argv must be a list of strings"},
           Case{"[sink.a]\nkind = \"webhook\"\n",
                "alerts.toml:1: sink.a: a sink of kind webhook needs url or url_file"},
           Case{"[sink.a]\nkind = \"webhook\"\nurl = \"ftp://x\"\n",
                "alerts.toml:3: sink.a.url: is not a URL such as https://host/path"},
           Case{"[sink.a]\nkind = \"webhook\"\nurl = \"http://x\"\nsecret_file = \"key\"\n",
                "alerts.toml:4: sink.a.secret_file: must be an absolute path"},
           Case{"[sink.a]\nkind = \"webhook\"\nurl = \"http://x\"\ntimeout_s = 0\n",
                "alerts.toml:4: sink.a.timeout_s: expected 1 to 300; got 0"},
           Case{"[sink.a]\nkind = \"webhook\"\nurl = \"http://x\"\nrate_per_minute = 0\n",
                "alerts.toml:4: sink.a.rate_per_minute: expected 1 to 6000; got 0"},
           Case{"[sink.a]\nkind = \"webhook\"\nurl = \"http://x\"\nusername = \"me\"\n",
                "alerts.toml:1: sink.a: username and password_file must be set together"},
           Case{"[sink.a]\nkind = \"slack\"\nurl = \"http://hooks.slack.com/x\"\n",
                "alerts.toml:1: sink.a: a sink of kind slack sends a secret, so its URL must use "
                "https"},
           Case{"[sink.a]\nkind = \"slack\"\nurl = \"http://127.example.org/x\"\n",
                "alerts.toml:1: sink.a: a sink of kind slack sends a secret, so its URL must use "
                "https"},
           Case{"[sink.a]\nkind = \"pagerduty\"\n",
                "alerts.toml:1: sink.a: a sink of kind pagerduty needs routing_key_file"},
           Case{"[sink.a\n", "alerts.toml:1: "},
       }) {
    EXPECT_THAT(error_of(toml), StartsWith(error)) << toml;
  }
}

TEST_F(ReadSinks, RefusesASecretThatOthersCanRead) {
  const std::string path = file("key", "s3cret", 0644);
  const std::string toml =
      "[sink.a]\nkind = \"webhook\"\nurl = \"https://x\"\nsecret_file = \"" + path + "\"\n";
  EXPECT_EQ(closed_reason_of(toml),
            "alerts.toml:4: sink.a.secret_file: " + path +
                " contains a secret, but others can read or change it; try `chmod o-rwx " + path +
                "`");
  ::chmod(path.c_str(), 0640);
  EXPECT_EQ(closed_reason_of(toml), "");
}

TEST_F(ReadSinks, InvalidFileClosesOnlyItsOwnSink) {
  const std::string no_key = "[sink.p]\nkind = \"pagerduty\"\nrouting_key_file = \"/nowhere/x\"\n";
  const auto sinks =
      read_sinks(no_key + "[sink.w]\nkind = \"webhook\"\nurl = \"https://x\"\n", "alerts.toml");
  ASSERT_TRUE(sinks) << sinks.error().message;
  ASSERT_EQ(sinks->size(), 2U);
  EXPECT_THAT(sinks->front().unusable_reason,
              StartsWith("alerts.toml:3: sink.p.routing_key_file: opening /nowhere/x: No such"));
  EXPECT_EQ(sinks->front().destination(), "unknown");
  EXPECT_EQ(sinks->back().unusable_reason, "");
  const std::string webhook = "[sink.a]\nkind = \"webhook\"\nurl = \"https://x\"\nca_file = ";
  EXPECT_THAT(closed_reason_of(webhook + "\"/etc/hosts\"\n"),
              EndsWith("sink.a.ca_file: /etc/hosts contains no PEM certificate"));
  EXPECT_THAT(closed_reason_of(webhook + "\"/nowhere/x\"\n"),
              HasSubstr("opening /nowhere/x: No such"));
  const std::string plain = file("url", "http://hooks.slack.com/x");
  EXPECT_THAT(closed_reason_of("[sink.s]\nkind = \"slack\"\nurl_file = \"" + plain + "\"\n"),
              HasSubstr("its URL must use https"));
}

TEST_F(ReadSinks, RefusesAnEmptySecretAndOneOfTwoLines) {
  const auto error = [&](const std::string& text) {
    return closed_reason_of("[sink.a]\nkind = \"webhook\"\nurl = \"https://x\"\nsecret_file = \"" +
                            file("key", text) + "\"\n");
  };
  EXPECT_THAT(error(" \n"), EndsWith("/key is empty"));
  EXPECT_THAT(error("a\nb\n"), EndsWith("/key must contain one line, the secret"));
  EXPECT_THAT(error(std::string(kMaxSecretBytes + 1, 'x')), HasSubstr("larger than 4096 bytes"));
}

TEST_F(ReadSinks, RefusesASinkTooMany) {
  std::string toml;
  for (std::size_t i = 0; i <= kMaxSinks; ++i) {
    toml += fmt::format("[sink.a{}]\nkind = \"log\"\n", i);
  }
  EXPECT_THAT(error_of(toml), HasSubstr("there are more than 16 sinks"));
}

TEST_F(ReadSinks, NeverRepeatsASecretThatIsWrong) {
  const std::string secret = "xoxb-T0PSECRET";
  const std::string path = file("url", secret);
  for (const std::string& toml :
       {"[sink.a]\nkind = \"slack\"\nurl = \"" + secret + "\"\n",
        "[sink.a]\nkind = \"slack\"\nurl = \"http://host/" + secret + "\"\n",
        "[sink.a]\nkind = \"slack\"\nurl = \"https://host:99999/" + secret + "\"\n",
        "[sink.a]\nkind = \"slack\"\nurl = https://hooks.slack.com/" + secret + "\n",
        "[sink.a]\nkind = \"slack\"\nurl = " + secret + "\n",
        "[sink.a]\nkind = \"slack\"\nurl = \"https://" + secret + "\n",
        "[sink.a]\nkind = \"slack\"\nurl = \"https://u:" + secret + "@host host/\"\n",
        "[sink.a]\nkind = \"slack\"\nurl = \"https://h/\"\nurl = \"https://h/" + secret + "\"\n",
        "[sink.a]\nkind = \"slack\"\nurl_file = \"" + path + "\"\n",
        "[sink.a]\nkind = \"pagerduty\"\nrouting_key = \"" + secret + "\"\n",
        "[sink.a]\nkind = \"log\"\nurl = \"https://h/" + secret + "\"\n",
        "[sink.a]\nkind = \"command\"\nargv = \"" + secret + "\"\n"}) {
    std::string error = error_of(toml);
    if (error == "no error") error = closed_reason_of(toml);
    EXPECT_THAT(error, StartsWith("alerts.toml:")) << toml;
    EXPECT_THAT(error, Not(HasSubstr("T0PSECRET")));
    EXPECT_THAT(error, Not(HasSubstr("xoxb")));
  }
}

// A secret cannot be printed or written by accident at all.
template <class T>
concept Printable = requires(std::ostream& out, const T& value) { out << value; };
static_assert(!Printable<Secret> && !fmt::is_formattable<Secret>::value && !Record<Secret>);
static_assert(!std::is_convertible_v<Secret, std::string> &&
              !std::is_convertible_v<Secret, std::string_view> &&
              !std::is_constructible_v<std::string, Secret>);
static_assert(!Printable<SinkConfig> && !fmt::is_formattable<SinkConfig>::value &&
              !Record<SinkConfig> && !Record<Url>);

}  // namespace
}  // namespace gpuyard::notify
