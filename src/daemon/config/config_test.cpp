#include "daemon/config/config.h"

#include <random>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/scratch_directory_for_tests.h"
#include "daemon/config/keys.h"

namespace gpuyard::config {
namespace {

using Strings = std::vector<std::string>;

std::string values_of(const Config& config) {
  return render(config, Style::values);
}

Config applied(std::string_view text) {
  Config config;
  const auto done = apply_toml(config, text, "x.toml");
  EXPECT_TRUE(done) << done.error().message;
  return config;
}
std::string problem_of(std::string_view text) {
  Config config;
  const auto done = apply_toml(config, text, "x.toml");
  return done ? "no problem" : done.error().message;
}

TEST(Config, TheDefaultsListenOnThisMachineOnly) {
  const Config config;
  EXPECT_EQ(config.server.listen, Strings{"127.0.0.1:9410"});
  EXPECT_EQ(config.metrics.prefix, "gpuyard");
  EXPECT_EQ(config.log.level, log::Level::info);
}

TEST(ConfigFile, NamedKeysAreSetAndRestKeepDefaults) {
  const Config config = applied(R"(
    [server]
    listen = ["0.0.0.0:1", "[::1]:2"]
    [log]
    level = "debug")");
  EXPECT_EQ(config.server.listen, (Strings{"0.0.0.0:1", "[::1]:2"}));
  EXPECT_EQ(config.log.level, log::Level::debug);
  EXPECT_EQ(config.metrics.prefix, "gpuyard");
}

TEST(ConfigFile, DuplicateTableErrorHasLineOfFirstTable) {
  EXPECT_EQ(
      problem_of("\n  [control]  # off\n# enabled = false\n[log]\n[control]\nenabled = true\n"),
      "x.toml:5: Error while parsing table header: cannot redefine existing table 'control', "
      "which begins at line 2; put these keys there");
  // A table without a header of its own has no such line.
  EXPECT_EQ(problem_of("control.enabled = true\n[control]"),
            "x.toml:2: Error while parsing table header: cannot redefine existing table 'control'");
}

TEST(ConfigFile, AnEmptyListMeansNone) {
  EXPECT_EQ(applied("server.listen = []").server.listen, Strings{});
}

TEST(Config, TheSocketForLeasesIsBesideTheOther) {
  Config::Server server;
  server.socket = "/run/gpuyard/gpuyard.sock";
  EXPECT_EQ(lease_socket_of(server), "/run/gpuyard/lease.sock");
  // As of a second daemon: it must not take the first one's place.
  server.socket = "/tmp/mine.sock";
  EXPECT_EQ(lease_socket_of(server), "/tmp/mine.lease.sock");
  server.socket = "yard";
  EXPECT_EQ(lease_socket_of(server), "yard.lease.sock");
  server.lease_socket = "/srv/lease.sock";
  EXPECT_EQ(lease_socket_of(server), "/srv/lease.sock");
  server.lease_socket = "";
  EXPECT_EQ(lease_socket_of(server), "");
}

// Every key whose value is a path, with a text of the file that sets it.
std::vector<std::string> keys_of_paths() {
  std::vector<std::string> names;
  for (const Key& key : keys()) {
    if (key.path != Path::none) names.push_back(fmt::format("{}.{}", key.section, key.name));
  }
  return names;
}

TEST(ConfigFile, TildeInAPathIsTheHomeDirectory) {
  EXPECT_GE(keys_of_paths().size(), 12U);
  for (const std::string& name : keys_of_paths()) {
    Config config;
    const auto done = apply_toml(config, name + " = \"~/x/y\"", "x.toml", "/home/u");
    ASSERT_TRUE(done) << name << ": " << done.error().message;
    const std::string text = render(config, Style::values);
    EXPECT_NE(text.find("\"/home/u/x/y\""), std::string::npos) << name;
    EXPECT_EQ(text.find('~'), std::string::npos) << name;
  }
}

TEST(ConfigFile, RelativePathIsRefusedWithItsLine) {
  for (const std::string& name : keys_of_paths()) {
    for (const char* path : {"x/y", "./x/y", "~bob/y"}) {
      Config config;
      const auto done =
          apply_toml(config, fmt::format("{} = \"{}\"", name, path), "x.toml", "/home/u");
      ASSERT_FALSE(done) << name;
      EXPECT_EQ(
          done.error().message,
          fmt::format("x.toml:1: {}: \"{}\" is not an absolute path; it must begin with / or ~/",
                      name, path));
    }
    Config config;
    const auto homeless = apply_toml(config, name + " = \"~/x\"", "x.toml");
    ASSERT_FALSE(homeless) << name;
    EXPECT_NE(homeless.error().message.find("HOME is not set"), std::string::npos);
  }
}

TEST(ConfigFile, WordInThePlaceOfAPathStays) {
  EXPECT_EQ(applied("server.lease_socket = \"auto\"").server.lease_socket, "auto");
  EXPECT_EQ(applied("server.lease_socket = \"\"").server.lease_socket, "");
  EXPECT_EQ(applied("events.kernel_log = \"\"").events.kernel_log, "");
  EXPECT_EQ(applied("driver.nvml = \"libnvidia-ml.so.1\"").driver.nvml, "libnvidia-ml.so.1");
}

TEST(ConfigFile, UnknownKeyErrorNamesFileAndLine) {
  const std::string problem = problem_of("[server]\nsocket = \"/x\"\nq = []\n");
  EXPECT_EQ(problem, "x.toml:3: unknown key \"server.q\"");
}

TEST(ConfigFile, AMisspeltNameHasASuggestion) {
  EXPECT_EQ(problem_of("[server]\nlistn = []\n"),
            "x.toml:2: unknown key \"server.listn\" (did you mean \"server.listen\"?)");
  EXPECT_EQ(problem_of("[serever]\nlisten = []\n"),
            "x.toml:1: unknown section \"serever\" (did you mean \"server\"?)");
}

TEST(ConfigFile, AnUnknownSectionIsNamedToo) {
  EXPECT_TRUE(problem_of("[sever]\n").starts_with("x.toml:1: unknown section \"sever\""));
  EXPECT_TRUE(problem_of("top = 1\n").starts_with("x.toml:1: unknown key \"top\""));
  EXPECT_EQ(problem_of("server = 1\n"), "x.toml:1: server: expected a section [server]; got 1");
}

TEST(ConfigFile, WrongTypeIsReportedWithLine) {
  EXPECT_EQ(problem_of("[server]\nlisten = \"a\""),
            "x.toml:2: server.listen: expected a list of strings; got \"a\"");
  EXPECT_EQ(problem_of("[server]\nlisten = [1, true]"),
            "x.toml:2: server.listen: expected a list of strings; got [1, true]");
  EXPECT_EQ(problem_of("[server]\n\nsocket = 1"),
            "x.toml:3: server.socket: expected a string; got 1");
}

TEST(ConfigFile, UnknownLogLevelListsValidLevels) {
  EXPECT_EQ(problem_of("log.level = \"loud\""),
            "x.toml:1: log.level: expected debug, info, warning or error; got \"loud\"");
}

TEST(ConfigFile, InvalidTomlIsReportedWithLine) {
  Config config;
  const auto done = apply_toml(config, "[server]\nlisten = [", "x.toml");
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Errc::invalid);
  EXPECT_TRUE(done.error().message.starts_with("x.toml:2: ")) << done.error().message;
}

TEST(ConfigFile, TableHeaderWithoutKeyIsInvalid) {
  for (const char* text : {"[=server]", "[.server]", "[[,server]]", "[", "[\n"}) {
    EXPECT_TRUE(problem_of(text).starts_with("x.toml:1: ")) << problem_of(text);
  }
}

// In toml++ 3.3 this was undefined behaviour, which only the sanitizers show.
TEST(ConfigFile, MisplacedAccentedLetterIsInvalid) {
  Config config;
  EXPECT_FALSE(apply_toml(config, "[ser\u00e9]", "x.toml"));
  EXPECT_FALSE(apply_toml(config, "a\u00e9 = 1", "x.toml"));
}

TEST(ConfigFile, IsAppliedAsAWholeOrNotAtAll) {
  Config config;
  EXPECT_FALSE(apply_toml(config, "metrics.prefix = \"a\"\nserver.typo = \"b\"", "x.toml"));
  EXPECT_EQ(values_of(config), values_of(Config{}));
}

TEST(ConfigFile, MutatedTextIsRefusedOrRoundTrips) {
  constexpr std::string_view kPieces = "[]\"'=#\n.,{}ab\\u0\x80 ";
  const std::string good = values_of(applied("server.listen = [\"a\", \"b\"]"));
  std::mt19937 random(1);
  int accepted = 0;
  for (int i = 0; i < 1000; ++i) {
    std::string text = good;
    for (auto changes = 1 + random() % 3; changes > 0; --changes) {
      text[random() % text.size()] = kPieces[random() % kPieces.size()];
    }
    Config config;
    if (!apply_toml(config, text, "x.toml")) continue;
    ++accepted;
    ASSERT_EQ(values_of(applied(values_of(config))), values_of(config)) << text;
  }
  EXPECT_GT(accepted, 30);
}

TEST(Keys, AllHaveHelpTextAndUniqueName) {
  std::set<std::string> names;
  for (const Key& key : keys()) {
    EXPECT_FALSE(key.help.empty()) << key.name;
    EXPECT_EQ(key.help.find('\n'), std::string_view::npos) << key.name;
    EXPECT_TRUE(names.insert(std::string(key.section) + "." + std::string(key.name)).second);
  }
}

TEST(Keys, EverySetValueReadsBack) {
  for (const Key& key : keys()) {
    Config config;
    const std::string text = key.name == "level"       ? "error"
                             : key.name == "on_stop"   ? "restore"
                             : key.name == "mode"      ? "observe"
                             : key.name == "fair"      ? "strict"
                             : key.name == "dialect"   ? "both"
                             : key.name == "profile"   ? "minimal"
                             : key.name == "through"   ? "slurm"
                             : key.name == "anonymous" ? "metrics"
                             : key.name == "clients"   ? "DNS:a = read"
                                                       : "something";
    const bool pairs = key.name == "temperatures_of";
    const std::int64_t number = key.name == "interval_s" ? 7 : 70;
    const Value value = key.type == Type::integer   ? Value(number)
                        : key.type == Type::boolean ? Value(true)
                        : key.type == Type::number  ? Value(0.25)
                        : key.type == Type::text    ? Value(text)
                        : pairs ? Value(Strings{"0000:01:00.0 = 60/70", "3 = -1/90"})
                                : Value(Strings{text, text});
    ASSERT_TRUE(key.set(config, value)) << key.name;
    EXPECT_EQ(key.get(config), value) << key.name;
  }
}

TEST(ConfigFile, LeaseValuesOutsideBoundsAreRefused) {
  EXPECT_EQ(applied("lease.fair = \"strict\"").lease.fair, Config::Lease::Fair::strict);
  EXPECT_EQ(problem_of("lease.fair = \"fifo\""),
            "x.toml:1: lease.fair: expected backfill or strict; got \"fifo\"");
  EXPECT_EQ(applied("lease.through = \"slurm\"").lease.through, Config::Lease::Through::slurm);
  EXPECT_EQ(problem_of("lease.through = \"pbs\""),
            "x.toml:1: lease.through: expected daemon or slurm; got \"pbs\"");
  EXPECT_EQ(applied("lease.most_gpus_per_user = 4").lease.most_gpus_per_user, 4);
  EXPECT_EQ(problem_of("lease.most_gpus_per_user = -1"),
            "x.toml:1: lease.most_gpus_per_user: expected 0 (no limit) to 256; got -1");
}

TEST(ConfigFile, IntervalOutsideBoundsIsRefused) {
  EXPECT_EQ(applied("telemetry.interval_s = 10").telemetry.interval_s, 10);
  EXPECT_EQ(problem_of("telemetry.interval_s = 11"),
            "x.toml:1: telemetry.interval_s: expected 1 to 10; got 11");
}

TEST(ConfigFile, MetricsHaveOneOfThreeDialects) {
  using enum Config::Metrics::Dialect;
  EXPECT_EQ(Config().metrics.dialect, gpuyard);
  EXPECT_EQ(applied("metrics.dialect = \"dcgm-4.8\"").metrics.dialect, dcgm);
  EXPECT_EQ(problem_of("metrics.dialect = \"dcgm\""),
            "x.toml:1: metrics.dialect: expected gpuyard, dcgm-4.8 or both; got \"dcgm\"");
}

TEST(ConfigFile, MetricsHaveOneOfTwoProfiles) {
  using enum Config::Metrics::Profile;
  EXPECT_EQ(Config().metrics.profile, full);
  EXPECT_EQ(applied("metrics.profile = \"minimal\"").metrics.profile, minimal);
  EXPECT_EQ(problem_of("metrics.profile = \"small\""),
            "x.toml:1: metrics.profile: expected full or minimal; got \"small\"");
}

TEST(ConfigFile, TemperaturesAreIntegers) {
  const Config config =
      applied("health.temperature_degraded = 60\nhealth.temperature_unhealthy=70");
  EXPECT_EQ(config.health.common, (Config::Temperatures{60, 70}));
  for (const char* value : {"\"60\"", "60.0", "[60]"}) {
    EXPECT_EQ(
        problem_of(std::string("health.temperature_degraded = ") + value),
        fmt::format("x.toml:1: health.temperature_degraded: expected an integer; got {}", value));
  }
}

TEST(ConfigFile, OneGpuMayHaveOtherTemperatures) {
  RecordProperty("contract", "A10");
  const Config config = applied("health.temperatures_of = [\"3=80/90\", \" GPU-1 = 70 / 75 \"]");
  EXPECT_EQ(config.health.of_gpu,
            (std::map<std::string, Config::Temperatures>{{"3", {80, 90}}, {"GPU-1", {70, 75}}}));
}

TEST(ConfigFile, MalformedOrRepeatedTemperaturesAreRefused) {
  for (const char* text : {"", "3", "3=80", "3=/90", "=80/90", "3=80/90C", "80/90=3"}) {
    EXPECT_EQ(
        problem_of("health.temperatures_of = [\"" + std::string(text) + "\"]"),
        fmt::format("x.toml:1: health.temperatures_of: expected GPU = DEGRADED/UNHEALTHY, such "
                    "as 3 = 80/90; got \"{}\"",
                    text));
  }
  EXPECT_EQ(problem_of("health.temperatures_of = [\"3=80/90\", \"3 = 1/2\"]"),
            "x.toml:1: health.temperatures_of: \"3 = 1/2\" names a GPU twice");
}

TEST(Config, ControlIsDisabledByDefault) {
  const Config config;
  EXPECT_FALSE(config.control.enabled);
  EXPECT_EQ(config.control.group, "gpuyard");
  EXPECT_EQ(config.control.on_stop, Config::Control::OnStop::keep);
}

TEST(ConfigFile, ControlEnabledAcceptsOnlyBooleans) {
  EXPECT_TRUE(applied("control.enabled = true").control.enabled);
  EXPECT_FALSE(applied("control.enabled = false").control.enabled);
  for (const char* value : {"1", "\"true\"", "[true]"}) {
    EXPECT_EQ(problem_of(std::string("control.enabled = ") + value),
              fmt::format("x.toml:1: control.enabled: expected true or false; got {}", value));
  }
}

TEST(ConfigFile, SettingsAreKeptOrRestoredWhenTheDaemonEnds) {
  EXPECT_EQ(applied("control.on_stop = \"restore\"").control.on_stop,
            Config::Control::OnStop::restore);
  EXPECT_EQ(problem_of("control.on_stop = \"drop\""),
            "x.toml:1: control.on_stop: expected keep or restore; got \"drop\"");
}

TEST(ConfigFile, ResetCommandTakesGpuPlaceholders) {
  EXPECT_EQ(applied("control.reset_command = [\"/bin/r\", \"{index}:{pci}\", \"{uuid}\"]")
                .control.reset_command,
            (Strings{"/bin/r", "{index}:{pci}", "{uuid}"}));
  EXPECT_EQ(applied("control.reset_command = []").control.reset_command, Strings{});
}

TEST(ConfigFile, AResetCommandThatCannotRunIsRefused) {
  EXPECT_EQ(problem_of("control.reset_command = [\"r\", \"{gpu}\"]"),
            "x.toml:1: control.reset_command: unknown placeholder \"{gpu}\"; use {index}, {uuid} "
            "or {pci}");
  EXPECT_EQ(problem_of("control.reset_command = [\"\", \"-r\"]"),
            "x.toml:1: control.reset_command: the first word, the program, is empty");
  for (const char* seconds : {"0", "-1", "3601"}) {
    EXPECT_EQ(problem_of(std::string("control.reset_timeout_s = ") + seconds),
              "x.toml:1: control.reset_timeout_s: expected 1 to 3600; got " + std::string(seconds));
  }
}

TEST(Render, SpecialCharactersAndEmptyListRoundTrip) {
  Config config;
  config.server.listen = {};
  config.server.allowed_hosts = {"a \"quoted\" host", "back\\slash", "new\nline\x7F", "\u65E5"};
  config.log.level = log::Level::warning;
  EXPECT_EQ(applied(values_of(config)).server.allowed_hosts, config.server.allowed_hosts);
  EXPECT_EQ(values_of(applied(values_of(config))), values_of(config));
}

TEST(Render, CommentedTemplateKeepsDefaults) {
  const std::string text = render(Config{}, Style::commented_template);
  EXPECT_EQ(values_of(applied(text)), values_of(Config{}));
  EXPECT_NE(text.find("\n# level = \"info\"\n"), std::string::npos) << text;
}

TEST(Render, ReloadableKeyIsMarkedLive) {
  EXPECT_NE(values_of(Config{}).find("# Log level: debug, info, warning or error. "
                                     "(live)\nlevel = \"info\""),
            std::string::npos);
}

Environment user() {
  return {7, "/home/u", "", "/run/user/7", "", ""};
}

TEST(Config, TheEnvironmentNamesOneSocketForDaemonAndClients) {
  Environment environment = user();
  environment.gpuyard_socket = "/tmp/mine.sock";
  EXPECT_EQ(default_socket(environment), "/tmp/mine.sock");
  EXPECT_EQ(candidate_sockets(environment), Strings{"/tmp/mine.sock"});
  EXPECT_EQ(
      with_default_paths(applied("server.socket = \"/file.sock\""), environment).server.socket,
      "/tmp/mine.sock");
}

TEST(Config, PlacesThatTheFileNamesAreKept) {
  const Config config =
      with_default_paths(applied("server.socket = \"/a\"\nstate.directory = \"/b\""), user());
  EXPECT_EQ(config.server.socket, "/a");
  EXPECT_EQ(config.state.directory, "/b");
}

class ConfigFiles : public testing::Test {
 protected:
  const ScratchDirectory directory_;
};

TEST_F(ConfigFiles, NamedFileReplacesDefaults) {
  const std::string file = directory_.write("a.toml", "metrics.prefix = \"mine\"");
  EXPECT_EQ(config_files(user(), file), Strings{file});
  const auto config = load(user(), file);
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->metrics.prefix, "mine");
  EXPECT_EQ(config->server.socket, "/run/user/7/gpuyard/gpuyard.sock");
}

TEST_F(ConfigFiles, AFileThatIsNamedMustBeThere) {
  const auto config = load(user(), directory_.in("none.toml"));
  ASSERT_FALSE(config);
  EXPECT_EQ(config.error().code, Errc::invalid);
  EXPECT_NE(config.error().message.find("none.toml: No such file"), std::string::npos);
}

TEST_F(ConfigFiles, ErrorNamesFile) {
  const std::string file = directory_.write("a.toml", "\n\nmetrics.prefix = 1");
  EXPECT_EQ(load(user(), file).error(),
            (Error{Errc::invalid, file + ":3: metrics.prefix: expected a string; got 1"}));
}

TEST_F(ConfigFiles, AnEndlessFileIsRefused) {
  EXPECT_FALSE(load(user(), "/dev/zero"));
}

}  // namespace
}  // namespace gpuyard::config
