#include "cli/command_line_for_tests.h"

#include <stdlib.h>
#include <time.h>

#include <map>

#include <fmt/format.h>

namespace gpuyard::cli {
namespace {

TEST(CommandLine, EnergyTakesOptionalCommand) {
  EXPECT_TRUE(verb_of<EnergyVerb>({"energy", "--json"}).command.empty());
  const auto energy = verb_of<EnergyVerb>(
      {"energy", "--gpus", "0,1", "--report", "-", "--", "train", "--json", ""});
  EXPECT_EQ(energy.gpus, "0,1");
  EXPECT_EQ(energy.report, "-");
  EXPECT_FALSE(energy.json) << "that is the command's own";
  EXPECT_EQ(energy.command, (std::vector<std::string>{"train", "--json", ""}));
  for (const char* needs_a_command : {"--gpus", "--report"}) {
    EXPECT_EQ(end_of({"energy", needs_a_command, "0"}).code, 2);
  }
}

TEST(CommandLine, RunLeavesTheCommandItsOwnWords) {
  const auto run =
      verb_of<RunVerb>({"run", "-n", "2", "--min-free", "20G", "--no-wait", "--note", "x", "--",
                        "train", "-n", "4", "--json", "", "[64,64]", "[]", "--"});
  EXPECT_EQ(run.wanted.request.gpus, 2);
  EXPECT_EQ(run.wanted.request.min_free_bytes, std::int64_t{20} << 30);
  EXPECT_EQ(run.wanted.request.wait_s, 0.0);
  EXPECT_EQ(run.command,
            (std::vector<std::string>{"train", "-n", "4", "--json", "", "[64,64]", "[]", "--"}));
  for (const Words& wrong :
       {Words{"run"}, Words{"run", "-n", "0", "--", "x"}, Words{"run", "--note", "", "--", "x"},
        Words{"run", "--wait", "1h", "--no-wait", "--", "x"}}) {
    EXPECT_EQ(end_of(wrong).code, 2);
  }
}

TEST(CommandLine, ALeaseIsTakenRenewedReleasedAdoptedOrShown) {
  using Action = LeaseVerb::Action;
  const auto taken = verb_of<LeaseVerb>({"lease", "take", "-n", "2", "--for", "2h", "--export"});
  EXPECT_EQ(taken.action, Action::take);
  EXPECT_EQ(taken.wanted.request.ttl_s, 7200.0);
  EXPECT_TRUE(taken.exported);
  EXPECT_EQ(verb_of<LeaseVerb>({"lease", "renew", "a1", "--for", "1h"}).id, "a1");
  const auto forced = verb_of<LeaseVerb>(
      {"lease", "release", "a1", "--force", "--reason", "x", "--signal", "TERM"});
  EXPECT_EQ(forced.action, Action::release);
  EXPECT_TRUE(forced.force && forced.reason == "x" && forced.signal == "TERM");
  EXPECT_EQ(verb_of<LeaseVerb>({"lease", "adopt", "--pid", "17"}).pid, 17U);
  EXPECT_EQ(verb_of<LeaseVerb>({"lease", "show"}).action, Action::show);
  const auto list = verb_of<LeaseVerb>({"lease", "list", "--json", "--color", "never"});
  EXPECT_EQ(list.action, Action::list);
  EXPECT_TRUE(list.json && list.color == ColorMode::never);
  for (const Words& wrong :
       {Words{"lease"}, Words{"lease", "take"}, Words{"lease", "renew", "a1"},
        Words{"lease", "release", "a1", "--force"},
        Words{"lease", "release", "a1", "--reason", "x"},
        Words{"lease", "release", "a1", "--signal", "9"}, Words{"lease", "adopt"},
        Words{"lease", "adopt", "--pid", "0"}, Words{"cordon", "0"}, Words{"cordon"},
        Words{"usage", "--by", "moon"}, Words{"usage", "--csv", "--json"}}) {
    EXPECT_EQ(end_of(wrong).code, 2);
  }
}

TEST(CommandLine, GpusAreCordonedForAReason) {
  EXPECT_EQ(verb_of<CordonVerb>({"cordon", "0,1", "--reason", "new fans"}).reason, "new fans");
  EXPECT_TRUE(verb_of<CordonVerb>({"uncordon", "all"}).lift);
}

TEST(CommandLine, PowerShowsOrSets) {
  const auto shown = verb_of<ControlVerb>({"power", "0,2", "--json"});
  EXPECT_EQ(shown.subject, ControlVerb::Subject::power);
  EXPECT_EQ(shown.gpus, "0,2");
  EXPECT_EQ(shown.value, "");
  EXPECT_TRUE(shown.json);
  const auto set = verb_of<ControlVerb>(
      {"power", "all", "300W", "--for", "30m", "--atomic", "--force", "--dry-run", "--yes"});
  EXPECT_EQ(set.value, "300W");
  EXPECT_EQ(set.lifetime, "30m");
  EXPECT_TRUE(set.atomic && set.force && set.dry_run && set.yes);
  EXPECT_TRUE(verb_of<ControlVerb>({"power", "0", "300", "--detach"}).detach);
  EXPECT_TRUE(verb_of<ControlVerb>({"power", "0", "--restore"}).restore);
}

TEST(CommandLine, ConflictingControlOptionsAreUsageErrors) {
  for (const Words& words :
       {Words{"power", "0", "300", "--restore"}, Words{"power", "0", "--restore", "--for", "1h"},
        Words{"power", "0", "--for", "1h"},
        Words{"clocks", "0", "--gpu", "1,2", "--restore", "gpu"},
        Words{"clocks", "0", "--restore", "all", "--for", "1h"}, Words{"clocks", "0", "--restore"},
        Words{"clocks", "0", "--restore", "both"}, Words{"ecc", "0", "on", "--clear", "volatile"},
        Words{"ecc", "0", "--clear", "all"}, Words{"restore", "0", "--all"}, Words{"reset"},
        Words{"power", "0", "300", "--atomic", "--no-wait"}, Words{"reset", "0", "--atomic"},
        Words{"reset", "0", "--force"}, Words{"power", "0", "300", "--for", ""},
        Words{"power", "", "300"}}) {
    EXPECT_EQ(end_of(words).code, 2) << words[0] << " " << words.size();
  }
}

TEST(CommandLine, EachSettingHasVerb) {
  using Subject = ControlVerb::Subject;
  const auto clocks =
      verb_of<ControlVerb>({"clocks", "1", "--gpu", "1200,1500", "--memory", "2619"});
  EXPECT_EQ(clocks.subject, Subject::clocks);
  EXPECT_EQ(clocks.gpu_clocks, "1200,1500");
  EXPECT_EQ(clocks.memory_clocks, "2619");
  EXPECT_EQ(verb_of<ControlVerb>({"clocks", "1", "--restore", "memory"}).restored_clocks, "memory");
  EXPECT_EQ(verb_of<ControlVerb>({"persistence", "all", "on"}).subject, Subject::persistence);
  EXPECT_EQ(verb_of<ControlVerb>({"compute-mode", "0", "prohibited"}).value, "prohibited");
  EXPECT_EQ(verb_of<ControlVerb>({"ecc", "0", "off"}).subject, Subject::ecc);
  EXPECT_EQ(verb_of<ControlVerb>({"ecc", "0", "--clear", "aggregate"}).cleared_errors, "aggregate");
  EXPECT_EQ(verb_of<ControlVerb>({"reset", "3"}).subject, Subject::reset);
  EXPECT_EQ(verb_of<ControlVerb>({"restore", "--all", "--force"}).gpus, "all");
}

TEST(CommandLine, AuditTakesTheNewest) {
  const auto audit = verb_of<AuditVerb>({"audit", "2", "-n", "5"});
  EXPECT_EQ(audit.gpus, "2");
  EXPECT_EQ(audit.limit, 5);
  EXPECT_EQ(end_of({"audit", "-n", "0"}).code, 2);
  EXPECT_EQ(verb_of<OperationsVerb>({"operations", "17"}).id, "17");
}

TEST(CommandLine, WithoutWordsThereIsHelp) {
  const ParseOutcome ended = end_of({});
  EXPECT_EQ(ended.code, 0);
  EXPECT_EQ(ended.out, end_of({"--help"}).out);
}

TEST(CommandLine, HelpIsAnAnswerOnStdout) {
  const ParseOutcome ended = end_of({"--help"});
  EXPECT_EQ(ended.code, 0);
  EXPECT_EQ(ended.err, "");
  for (const char* name :
       {"devices", "watch",      "query",  "smi",         "driver",       "doctor",
        "serve",   "power",      "clocks", "persistence", "compute-mode", "ecc",
        "reset",   "restore",    "audit",  "operations",  "config",       "sim",
        "schema",  "completion", "version"}) {
    EXPECT_NE(ended.out.find(std::string("\n  ") + name + " "), std::string::npos) << name;
  }
}

TEST(CommandLine, AMistakeIsExitCode2OnStderr) {
  for (const Words& words :
       {Words{"-H", "lab"}, Words{"no-such-verb"}, Words{"devices", "--no-such-flag"},
        Words{"power", "0", "300", "surplus"}, Words{"config"}, Words{"sim"}}) {
    const ParseOutcome ended = end_of(words);
    EXPECT_EQ(ended.code, 2);
    EXPECT_EQ(ended.out, "");
    EXPECT_NE(ended.err, "");
  }
}

TEST(CommandLine, DevicesTakesItsFlags) {
  const auto devices =
      verb_of<DevicesVerb>({"devices", "--json", "--local", "--nvml", "/lib/x.so"});
  EXPECT_TRUE(devices.json);
  EXPECT_TRUE(devices.source.local);
  EXPECT_EQ(devices.source.nvml, "/lib/x.so");
  EXPECT_EQ(verb_of<DevicesVerb>({"devices", "--simulate", "4"}).source.simulate, 4);
}

TEST(CommandLine, DevicesMayNameOneGpuAndItsColours) {
  const auto devices = verb_of<DevicesVerb>({"devices", "GPU-1", "--color", "never"});
  EXPECT_EQ(devices.gpus, "GPU-1");
  EXPECT_EQ(devices.color, ColorMode::never);
  EXPECT_EQ(end_of({"devices", "--color", "blue"}).code, 2);
  EXPECT_EQ(end_of({"devices", ""}).code, 2) << "an unset variable is not all GPUs";
}

TEST(CommandLine, WatchTakesItsRhythm) {
  const auto watch = verb_of<WatchVerb>(
      {"watch", "name", "power.draw", "--interval", "2s", "--count", "3", "--gpu", "0,1"});
  EXPECT_EQ(watch.fields, (std::vector<std::string>{"name", "power.draw"}));
  EXPECT_EQ(watch.interval, "2s");
  EXPECT_EQ(watch.count, 3U);
  EXPECT_EQ(watch.gpus, "0,1");
}

TEST(CommandLine, QueryTakesFieldsAndAFormat) {
  const auto query =
      verb_of<QueryVerb>({"query", "--fields", "name,uuid", "--format", "csv,noheader"});
  EXPECT_EQ(query.action, QueryVerb::Action::gpus);
  EXPECT_EQ(query.fields, std::vector<std::string>{"name,uuid"});
  EXPECT_EQ(query.format, "csv,noheader");
  EXPECT_EQ(verb_of<QueryVerb>({"query", "--fields", "name", "--json"}).format, "json");
  EXPECT_EQ(verb_of<QueryVerb>({"query", "--processes"}).action, QueryVerb::Action::processes);
  EXPECT_EQ(verb_of<QueryVerb>({"query", "--list"}).action, QueryVerb::Action::list);
  EXPECT_EQ(end_of({"query", "--count", "3"}).code, 2) << "without an interval";
}

TEST(CommandLine, SmiTakesTheWordsOfNvidiaSmi) {
  const auto query = verb_of<SmiVerb>(
      {"smi", "--query-gpu=name,uuid", "--format=csv,noheader", "-i", "1", "-l", "5"});
  EXPECT_EQ(query.action, SmiVerb::Action::gpus);
  EXPECT_EQ(query.format, "csv,noheader");
  EXPECT_EQ(query.fields, std::vector<std::string>{"name,uuid"});
  EXPECT_EQ(query.gpus, "1");
  EXPECT_EQ(query.interval, "5");
  const auto apps = verb_of<SmiVerb>({"smi", "--query-compute-apps=pid", "--format=csv"});
  EXPECT_EQ(apps.action, SmiVerb::Action::processes);
  EXPECT_EQ(apps.fields, std::vector<std::string>{"pid"});
  EXPECT_EQ(verb_of<SmiVerb>({"smi", "--query-gpu=name", "--loop-ms=200"}).interval, "200ms");
  EXPECT_EQ(verb_of<SmiVerb>({"smi", "--query-gpu=name", "-lms", "200"}).interval, "200ms");
  EXPECT_EQ(verb_of<SmiVerb>({"-H", "ssh://lab", "smi", "-l"}).interval, "5");
  EXPECT_EQ(verb_of<SmiVerb>({"smi"}).action, SmiVerb::Action::summary);
  EXPECT_EQ(verb_of<SmiVerb>({"smi", "-L"}).action, SmiVerb::Action::inventory);
  const auto details = verb_of<SmiVerb>({"smi", "-q", "-x", "-i", "0", "-f", "x.xml"});
  EXPECT_EQ(details.action, SmiVerb::Action::details);
  EXPECT_TRUE(details.xml);
  EXPECT_EQ(details.file, "x.xml");
  EXPECT_EQ(end_of({"smi", "-x"}).code, 2) << "without -q";
  EXPECT_EQ(end_of({"smi", "-L", "-q"}).code, 2);
  EXPECT_EQ(end_of({"smi", "-pl", "300"}).code, 3);
  EXPECT_EQ(end_of({"smi", "pmon"}).code, 3);
  EXPECT_EQ(end_of({"smi", "pnom"}).code, 2);
  EXPECT_EQ(end_of({"smi", "--query-gpu=name", "--loop-ms", ""}).code, 2);
}

TEST(CommandLine, TheVersionIsAnAnswerAndNoMistake) {
  const auto end = end_of({"--version"});
  EXPECT_EQ(end.code, 0);
  EXPECT_TRUE(end.out.starts_with("gpuyard 0.")) << end.out;
}

TEST(CommandLine, ManualHasPagesForVerbsAndConfiguration) {
  const auto verb = verb_of<CompletionVerb>({"completion", "man", "/somewhere"});
  EXPECT_EQ(verb.manual, "/somewhere");
  std::map<std::string, std::string> pages;
  for (const ManualPage& page : manual_of(verb.program)) pages[page.file] = page.text;
  EXPECT_EQ(pages.size(), verb.program.verbs.size() + 2);
  const std::string& lease = pages["gpuyard-lease.1"];
  EXPECT_NE(lease.find(".Ss gpuyard lease take\n"), std::string::npos) << lease;
  EXPECT_NE(lease.find(".It Fl -for Ar DURATION\n"), std::string::npos) << lease;
  EXPECT_NE(pages["gpuyard.toml.5"].find(".It Ic listen No (list of strings)"), std::string::npos);
  for (const auto& [file, text] : pages) {
    for (const Printable& line : Printable::lines(text).split()) {
      const bool summary = line.str().starts_with(".Nd ");  // mdoc wants it in one line
      EXPECT_TRUE(summary || line.str().size() <= 80) << file << ": " << line.str();
    }
  }
}

TEST(CommandLine, ASchemaMayBeNamed) {
  EXPECT_EQ(verb_of<SchemaVerb>({"schema"}).name, "");
  EXPECT_EQ(verb_of<SchemaVerb>({"schema", "devices"}).name, "devices");
}

TEST(CommandLine, DriverTakesTheSameSource) {
  EXPECT_EQ(verb_of<DriverVerb>({"driver", "--socket", "127.0.0.1:9410"}).source.socket,
            "127.0.0.1:9410");
}

TEST(CommandLine, SocketWithLocalDriverOptionsIsUsageError) {
  EXPECT_EQ(end_of({"devices", "--socket", "/x", "--local"}).code, 2);
  EXPECT_EQ(end_of({"devices", "--socket", "/x", "--simulate", "2"}).code, 2);
  EXPECT_EQ(end_of({"devices", "--socket", "/x", "--nvml", "/lib/x.so"}).code, 2);
}

TEST(CommandLine, SimulatesOneTo64Gpus) {
  for (const char* verb : {"devices", "driver", "serve"}) {
    EXPECT_EQ(end_of({verb, "--simulate", "1"}).code, -1) << verb;
    EXPECT_EQ(end_of({verb, "--simulate", "64"}).code, -1) << verb;
    for (const char* count : {"0", "65", "-1", "two", "1.5", ""}) {
      EXPECT_EQ(end_of({verb, "--simulate", count}).code, 2) << verb << " " << count;
    }
  }
}

TEST(CommandLine, SimulateWithNvmlLibraryIsUsageError) {
  for (const char* verb : {"devices", "driver", "serve"}) {
    EXPECT_EQ(end_of({verb, "--simulate", "2", "--nvml", "/lib/x.so"}).code, 2) << verb;
  }
}

TEST(CommandLine, ServeMayListenInSeveralPlaces) {
  const auto serve =
      verb_of<ServeVerb>({"serve", "--listen", "127.0.0.1:0", "--listen", "[::1]:9410", "--greet"});
  EXPECT_EQ(serve.listen, (std::vector<std::string>{"127.0.0.1:0", "[::1]:9410"}));
  EXPECT_TRUE(serve.greet);
}

TEST(CommandLine, ServeParsesConfigurationOptions) {
  const auto serve = verb_of<ServeVerb>({"serve", "--config", "a.toml", "--socket", "/s", "--state",
                                         "/d", "--nvml", "/n", "--metrics-prefix", "p",
                                         "--metrics-dialect", "both", "--log-level", "debug"});
  EXPECT_EQ(serve.config_file, "a.toml");
  EXPECT_EQ(serve.socket, "/s");
  EXPECT_EQ(serve.state, "/d");
  EXPECT_EQ(serve.nvml, "/n");
  EXPECT_EQ(serve.metrics_prefix, "p");
  EXPECT_EQ(serve.metrics_dialect, "both");
  EXPECT_EQ(serve.log_level, "debug");
}

TEST(CommandLine, ConfigHasFourActions) {
  using enum ConfigVerb::Action;
  EXPECT_EQ(verb_of<ConfigVerb>({"config", "init"}).action, init);
  EXPECT_EQ(verb_of<ConfigVerb>({"config", "show"}).action, show);
  EXPECT_EQ(verb_of<ConfigVerb>({"config", "path"}).action, path);
  EXPECT_EQ(verb_of<ConfigVerb>({"config", "validate"}).action, validate);
  EXPECT_EQ(verb_of<ConfigVerb>({"config", "show", "--config", "a.toml"}).file, "a.toml");
  EXPECT_TRUE(verb_of<ConfigVerb>({"config", "show", "--json"}).json);
}

TEST(CommandLine, VersionMayBeJson) {
  EXPECT_FALSE(verb_of<VersionVerb>({"version"}).json);
  EXPECT_TRUE(verb_of<VersionVerb>({"version", "--json"}).json);
}

TEST(CommandLine, SimStartsAWorld) {
  const auto sim = verb_of<SimVerb>({"sim", "start", "--world", "/w", "--gpus", "3", "--model",
                                     "a100", "--load", "steady:80:40"});
  EXPECT_EQ(sim.action, SimVerb::Action::start);
  EXPECT_EQ(sim.world, "/w");
  EXPECT_EQ(sim.start.gpus, 3);
  EXPECT_EQ(sim.start.model, "a100");
  EXPECT_EQ(sim.load, "steady:80:40");
}

TEST(CommandLine, SimGivesOneGpuSomethingToDo) {
  const auto sim = verb_of<SimVerb>({"sim", "load", "--gpu", "2", "idle"});
  EXPECT_EQ(sim.action, SimVerb::Action::load);
  EXPECT_EQ(sim.gpu, 2);
  EXPECT_EQ(sim.load, "idle");
  EXPECT_EQ(end_of({"sim", "load", "idle"}).code, 2);
  EXPECT_EQ(end_of({"sim", "load", "--gpu", "2"}).code, 2);
}

TEST(CommandLine, SimRunPassesWordsAfterDashesVerbatim) {
  const auto sim = verb_of<SimVerb>({"sim", "run", "--gpu", "3", "--vram", "10G", "--load", "0.8",
                                     "--", "train", "--gpu", "", "-h"});
  EXPECT_EQ(sim.action, SimVerb::Action::run);
  EXPECT_EQ(sim.gpu, 3);
  EXPECT_EQ(sim.vram, "10G");
  EXPECT_EQ(sim.process_load, 0.8);
  EXPECT_EQ(sim.command, (std::vector<std::string>{"train", "--gpu", "", "-h"}));
  EXPECT_EQ(end_of({"sim", "run", "--gpu", "3"}).code, 2);
  EXPECT_EQ(end_of({"sim", "run", "--", "train"}).code, 2);
  EXPECT_EQ(end_of({"sim", "run", "--gpu", "3", "--load", "1.1", "--", "train"}).code, 2);
}

TEST(CommandLine, ProcessesMayBeOfSomeGpusAndOneUser) {
  const auto processes = verb_of<ProcessesVerb>({"processes", "0,3", "--user", "alice", "--json"});
  EXPECT_EQ(processes.gpus, "0,3");
  EXPECT_EQ(processes.user, "alice");
  EXPECT_TRUE(processes.json);
  EXPECT_TRUE(verb_of<ProcessesVerb>({"processes"}).gpus.empty());
  EXPECT_EQ(end_of({"processes", "--until", "1h"}).code, 2) << "of what is there now";
  EXPECT_EQ(end_of({"why", "--until", "1h"}).code, 2);
  EXPECT_EQ(verb_of<WhyVerb>({"why", "0,3", "--since", "8h"}).since, "8h");
}

TEST(CommandLine, SimAttachNeedsPidOrSyntheticCount) {
  const auto sim = verb_of<SimVerb>({"sim", "attach", "--pid", "42"});
  EXPECT_EQ(sim.action, SimVerb::Action::attach);
  EXPECT_EQ(sim.pid, 42);
  EXPECT_EQ(sim.attach_gpu, std::nullopt);
  EXPECT_EQ(verb_of<SimVerb>({"sim", "attach", "--synthetic", "9", "--gpu", "1"}).synthetic, 9);
  EXPECT_EQ(end_of({"sim", "attach", "--gpu", "1"}).code, 2);
  EXPECT_EQ(end_of({"sim", "attach", "--synthetic", "9"}).code, 2);
  EXPECT_EQ(end_of({"sim", "attach", "--pid", "0"}).code, 2);
  EXPECT_EQ(end_of({"sim", "attach", "--pid", "4", "--synthetic", "9", "--gpu", "1"}).code, 2);
}

TEST(CommandLine, SimStartParsesModelsAndSetters) {
  const auto sim =
      verb_of<SimVerb>({"sim", "start", "--model", "a100:2,t4", "--setters", "everyone"});
  EXPECT_EQ(sim.start.model, "a100:2,t4");
  EXPECT_EQ(sim.start.gpus, std::nullopt);
  EXPECT_EQ(sim.setters, "everyone");
  EXPECT_EQ(end_of({"sim", "start", "--setters", "somebody"}).code, 2);
  EXPECT_EQ(end_of({"sim", "start", "--gpus", "65"}).code, 2);
}

TEST(CommandLine, ServeNamesTheModelsOfSimulatedGpusOnly) {
  EXPECT_EQ(verb_of<ServeVerb>({"serve", "--simulate", "2", "--model", "t4"}).model, "t4");
  EXPECT_EQ(end_of({"serve", "--model", "t4"}).code, 2);
}

TEST(CommandLine, SimBreaksOneGpu) {
  const auto sim =
      verb_of<SimVerb>({"sim", "inject", "--gpu", "1", "--call", "nvmlDeviceGetTemperature",
                        "--code", "15", "--latency-ms", "20"});
  EXPECT_EQ(sim.action, SimVerb::Action::inject);
  EXPECT_EQ(sim.gpu, 1);
  EXPECT_EQ(sim.call, "nvmlDeviceGetTemperature");
  EXPECT_EQ(sim.code, 15);
  EXPECT_EQ(sim.latency_ms, 20U);
}

TEST(CommandLine, SimDoesNotBreakAndMendAtOnce) {
  EXPECT_TRUE(verb_of<SimVerb>({"sim", "inject", "--gpu", "1", "--clear"}).clear);
  EXPECT_EQ(end_of({"sim", "inject", "--gpu", "1", "--clear", "--lost"}).code, 2);
  EXPECT_EQ(end_of({"sim", "inject", "--gpu", "1", "--clear", "--call", "x"}).code, 2);
}

TEST(CommandLine, SimInjectCallOptionsNeedCall) {
  EXPECT_EQ(end_of({"sim", "inject", "--gpu", "1", "--code", "15"}).code, 2);
  EXPECT_EQ(end_of({"sim", "inject", "--gpu", "1", "--never-returns"}).code, 2);
  EXPECT_EQ(end_of({"sim", "inject", "--gpu", "1", "--call", "x", "--latency-ms", "-5"}).code, 2);
}

TEST(CommandLine, UnknownWordSuggestsTheCorrectedCommand) {
  for (const auto& [words, said] : {
           std::pair{Words{"histroy", "--plot"},
                     "unknown command \"histroy\"\n  try:   gpuyard history --plot\n"},
           std::pair{Words{"history", "--metrc=power", "0"},
                     "unknown option \"--metrc\"\n  try:   gpuyard history --metric=power 0\n"},
           std::pair{Words{"alerts", "ack", "17", "--ntoe", "fan ordered"},
                     "unknown option \"--ntoe\"\n"
                     "  try:   gpuyard alerts ack 17 --note 'fan ordered'\n"},
           std::pair{Words{"lease", "tkae"},
                     "unknown command \"tkae\"\n  try:   gpuyard lease take\n"},
           std::pair{Words{"lease", "moon"},
                     "unknown command \"moon\"\n  try:   gpuyard lease --help\n"},
           std::pair{Words{"version", "please"},
                     "unexpected argument \"please\"\n  try:   gpuyard version --help\n"},
           std::pair{Words{"run", "-g", "1", "--", "echo"},
                     "unknown option \"-g\"\n  try:   gpuyard run --help\n"},
           std::pair{Words{"history", "--simulate", "4"},
                     "unknown option \"--simulate\"\n  try:   gpuyard history --help\n"},
           std::pair{Words{"power", "0", "300", "--forcd"},
                     "unknown option \"--forcd\"\n  try:   gpuyard power --help\n"},
           std::pair{Words{"completion", "tcsh"},
                     "unknown command \"tcsh\"\n  try:   gpuyard completion --help\n"},
           std::pair{Words{"-H", "lab", "--simulate", "4", "devices", "0"},
                     "--simulate must come after the command\n"
                     "  try:   gpuyard -H lab devices 0 --simulate 4\n"},
           std::pair{Words{"--note", "x", "run", "--", "train"},
                     "--note must come after the command\n"
                     "  try:   gpuyard run --note x -- train\n"},
           std::pair{Words{"--json", "top"},
                     "--json must come after the command\n  try:   gpuyard --help\n"},
       }) {
    const ParseOutcome ended = end_of(words);
    EXPECT_EQ(ended.code, 2);
    EXPECT_EQ(ended.err, std::string("gpuyard: ") + said);
  }
}

TEST(CommandLine, EmptyValueIsRefusedByItsOption) {
  for (const auto& [words, name] : {
           std::pair{Words{"run", "--note=", "--no-wait", "-n", "1", "--", "true"}, "--note"},
           std::pair{Words{"run", "--note", "", "--no-wait", "--", "true"}, "--note"},
           std::pair{Words{"run", "--report=", "--no-wait", "--", "true"}, "--report"},
           std::pair{Words{"free", "--model=", "-n", "2"}, "--model"},
           std::pair{Words{"smi", "--query-gpu=", "--format=csv"}, "--query-gpu"},
           std::pair{Words{"run", "-n", "", "--", "true"}, "-n"},
           std::pair{Words{"devices", "--gpu="}, "--gpu"},
           std::pair{Words{"devices", "--gpus="}, "--gpus"},
           std::pair{Words{"devices", "--json="}, "--json"},
           std::pair{Words{"-H", "", "devices"}, "-H"},
           std::pair{Words{"devices", "--host="}, "--host"},
       }) {
    const ParseOutcome ended = end_of(words);
    EXPECT_EQ(ended.code, 2) << testing::PrintToString(words);
    EXPECT_TRUE(ended.err.starts_with(std::string("gpuyard: ") + name + ": the value is empty\n"))
        << ended.err;
  }
  EXPECT_EQ(end_of({"devices", "--", ""}).code, 2);
  EXPECT_EQ(verb_of<RunVerb>({"run", "--note=--no-wait", "--", "true"}).wanted.request.note,
            "--no-wait");
}

TEST(CommandLine, WrongWordIsNamedBeforeACommand) {
  for (const auto& [words, said] : {
           std::pair{Words{"run", "-n", "0", "--", "echo", "x"},
                     "-n: expected a whole number from 1 to 256; got \"0\"\n"},
           std::pair{Words{"run", "-n", "two", "--", "echo", "x"},
                     "-n: expected a whole number from 1 to 256; got \"two\"\n"},
           std::pair{Words{"run", "--num-gpus=0", "--", "echo", "x"},
                     "--num-gpus: expected a whole number from 1 to 256; got \"0\"\n"},
           std::pair{Words{"run", "--gpus=0", "--", "echo", "x"},
                     "--gpus: expected a whole number from 1 to 256; got \"0\"\n"},
           std::pair{Words{"run", "--no-wait", "python3", "-c", "print(1)"},
                     "-c follows the command python3\n"
                     "  cause: options of the command stand after --\n"
                     "  try:   gpuyard run --no-wait -- python3 -c 'print(1)'\n"},
           std::pair{Words{"run", "--note", "x", "x", "-n", "2"},
                     "-n follows the command x\n"
                     "  cause: options of the command stand after --\n"
                     "  try:   gpuyard run --note x -- x -n 2\n"},
           std::pair{Words{"run", "-n", "1", "2", "--", "echo"},
                     "unexpected argument \"2\" before --\n  try:   gpuyard run --help\n"},
           std::pair{Words{"run", "-n"}, "-n: a value is missing\n  try:   gpuyard run --help\n"},
           std::pair{Words{"run", "-n", "--", "echo"},
                     "-n: a value is missing\n  try:   gpuyard run --help\n"},
           std::pair{Words{"run", "-n", "1", "-n", "2", "--", "echo"},
                     "-n: given more than once\n  try:   gpuyard run --help\n"},
           std::pair{Words{"run", "-n", "1"},
                     "run needs a command after --\n  try:   gpuyard run --help\n"},
           std::pair{Words{"sim", "run", "--gpu", "x", "--", "train"},
                     "--gpu: expected a number; got \"x\"\n"},
           std::pair{Words{"devices", "--color", "blue"},
                     "--color: expected auto, always or never; got \"blue\"\n"},
           std::pair{Words{"watch", "--count", "x"},
                     "--count: expected a whole number of at least 1; got \"x\"\n"},
           std::pair{
               Words{"usage", "--by", "moon"},
               "--by: expected user, day, gpu, lease, slurm-job, pod or namespace; got \"moon\"\n"},
           std::pair{Words{"devices", "--json=yes"},
                     "--json: takes no value\n  try:   gpuyard devices --help\n"},
           std::pair{Words{"power", "0", "300", "surplus"},
                     "unexpected argument \"surplus\"\n  try:   gpuyard power --help\n"},
           std::pair{Words{"power", "", "300"},
                     "an argument is empty\n  cause: probably a variable that is not set\n"},
       }) {
    const ParseOutcome ended = end_of(words);
    EXPECT_EQ(ended.code, 2) << testing::PrintToString(words);
    EXPECT_EQ(ended.err, std::string("gpuyard: ") + said);
  }
}

TEST(CommandLine, OptionsThatNeedOrExcludeOthersSaySo) {
  for (const auto& [words, said] : {
           std::pair{Words{"lease"}, "lease needs a command"},
           std::pair{Words{"lease", "take"}, "lease take needs --for DURATION"},
           std::pair{Words{"alerts", "ack"}, "alerts ack needs N"},
           std::pair{Words{"power", "0", "--for", "1h"}, "--for needs WATTS"},
           std::pair{Words{"lease", "release", "a1", "--force"}, "--force needs --reason"},
           std::pair{Words{"sim", "attach"}, "sim attach needs --pid or --synthetic"},
           std::pair{Words{"sim", "attach", "--pid", "4", "--synthetic", "9", "--gpu", "1"},
                     "--pid cannot be used with --synthetic"},
           std::pair{Words{"run", "--wait", "1h", "--no-wait", "--", "x"},
                     "--no-wait cannot be used with --wait"},
           std::pair{Words{"usage", "--csv", "--json"}, "--csv cannot be used with --json"},
           std::pair{Words{"power", "0", "300", "--restore"},
                     "--restore cannot be used with WATTS"},
       }) {
    const ParseOutcome ended = end_of(words);
    EXPECT_EQ(ended.code, 2) << testing::PrintToString(words);
    EXPECT_TRUE(ended.err.starts_with(fmt::format("gpuyard: {}\n  try:   gpuyard ", said)))
        << ended.err;
  }
}

TEST(CommandLine, CommandWithoutDashesKeepsItsPlainWords) {
  const auto run = verb_of<RunVerb>({"run", "-n", "2", "./train", "a", "b"});
  EXPECT_EQ(run.command, (std::vector<std::string>{"./train", "a", "b"}));
  EXPECT_EQ(run.wanted.request.gpus, 2);
}

TEST(CommandLine, HelpIsPrintedBesideAWrongWord) {
  EXPECT_EQ(end_of({"run", "--no-such", "--help"}).code, 0);
}

TEST(CommandLine, SinceTakesTimesAsPrinted) {
  ::setenv("TZ", "JST-9", 1);
  ::tzset();
  for (const auto& [text, stored] : {
           std::pair{"2026-11-25 15:54:38", "2026-11-25T06:54:38.000Z"},
           std::pair{"2026-11-25T15:54:38+09:00", "2026-11-25T06:54:38.000Z"},
           std::pair{"2026-11-25T06:54:38Z", "2026-11-25T06:54:38.000Z"},
           std::pair{"5m", "5m"},
           std::pair{"5m ago", "5m"},
           std::pair{"-2h", "2h"},
       }) {
    EXPECT_EQ(verb_of<HistoryVerb>({"history", "--since", text}).since, stored);
    EXPECT_EQ(verb_of<HistoryVerb>({"history", "--until", text}).until, stored);
    EXPECT_EQ(verb_of<WhyVerb>({"why", "--since", text}).since, stored);
  }
  EXPECT_TRUE(verb_of<HistoryVerb>({"history", "--since", "02:10"}).since.ends_with(":10:00.000Z"));
  for (const char* verb : {"history", "why"}) {
    const ParseOutcome ended = end_of({verb, "--since", "30"});
    EXPECT_EQ(ended.code, 2);
    EXPECT_TRUE(ended.err.starts_with("gpuyard: --since: expected a time before now such as 90s"))
        << ended.err;
    EXPECT_NE(ended.err.find("got \"30\""), std::string::npos) << ended.err;
  }
  ::unsetenv("TZ");
  ::tzset();
}

TEST(CommandLine, HomeIsPutForTildeInAPath) {
  ::setenv("HOME", "/home/u", 1);
  EXPECT_EQ(verb_of<ServeVerb>({"serve", "--state=~/yard"}).state, "/home/u/yard");
  EXPECT_EQ(verb_of<DevicesVerb>({"devices", "--socket=~/s"}).source.socket, "/home/u/s");
  EXPECT_EQ(verb_of<RunVerb>({"run", "--note=~/x", "--", "--state=~/x"}).wanted.request.note,
            "~/x");
  EXPECT_EQ(verb_of<RunVerb>({"run", "--", "x", "--state=~/x"}).command[1], "--state=~/x");
}

TEST(CommandLine, HelpListsGettingStartedFirst) {
  const std::string help = end_of({"--help"}).out;
  std::size_t at = 0;
  for (const char* heading :
       {"Getting started:", "Monitoring:", "Leasing:", "Multiple machines:", "Accounting:",
        "GPU settings:", "Alerts:", "Daemon and tools:", "Global options ", "Examples:"}) {
    const std::size_t found = help.find(std::string("\n") + heading);
    EXPECT_NE(found, std::string::npos) << heading << help;
    EXPECT_GT(found, at) << heading;
    at = found;
  }
  EXPECT_LT(help.find("  devices "), help.find("Monitoring:"));
}

}  // namespace
}  // namespace gpuyard::cli
