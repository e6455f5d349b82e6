#include "cli/top/render.h"

#include <stdlib.h>
#include <time.h>

#include <algorithm>
#include <random>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/golden_for_tests.h"
#include "cli/screen/fitted_table.h"
#include "cli/top/top_fixture_for_tests.h"

namespace gpuyard::cli::top {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string drawn(const Model& model, Size size, Charset charset = Charset::block) {
  return render(model, size, charset).text();
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t from = 0; from < text.size();) {
    const std::size_t end = text.find('\n', from);
    lines.push_back(text.substr(from, end - from));
    from = end + 1;
  }
  return lines;
}

TEST(Screen, EightGpusWithProcessesFit80By24) {
  const auto lines = lines_of(drawn(make_model(8), {80, 24}));
  ASSERT_EQ(lines.size(), 24U);
  for (std::size_t gpu = 0; gpu < 8; ++gpu) {
    EXPECT_EQ(lines[2 + gpu].substr(1, 2), fmt::format("{:>1} ", gpu)) << lines[2 + gpu];
  }
  EXPECT_THAT(lines[10], HasSubstr("GPU 0 is limited by its power limit"));
  const auto processes = std::ranges::count_if(
      lines, [](const std::string& line) { return line.find("python") != line.npos; });
  EXPECT_GE(processes, 6);
  EXPECT_THAT(lines[22], HasSubstr("! GPU 3 "));
  EXPECT_THAT(lines[23], HasSubstr("? help"));
}

TEST(Screen, SixtyFourGpusGetOneCellEach) {
  const std::string text = drawn(make_model(64), {80, 24});
  const auto lines = lines_of(text);
  const auto why =
      std::ranges::find_if(lines, [](const std::string& line) { return line.starts_with(" why"); });
  ASSERT_NE(why, lines.end());
  EXPECT_EQ(why->substr(8, 64), "PPwXis..PPwXis..PPwXis..PPwXis..PPwXis..PPwXis..PPwXis..PPwXis..");
  EXPECT_THAT(text, HasSubstr("worst first"));
  EXPECT_THAT(text, HasSubstr("LOST"));
}

TEST(Screen, DifferentBoardsAreNamedOrCounted) {
  Model model = make_model(6);
  auto& devices = model.data.snapshot.devices;
  devices[0].name = devices[1].name = "NVIDIA GeForce RTX 4090";
  devices[4].name = "NVIDIA A100-SXM4-80GB";
  devices[5].name = "Tesla T4";
  EXPECT_THAT(lines_of(drawn(model, {120, 24})).front(),
              HasSubstr(" node7 2 RTX 4090, 2 H100, A100, T4  "));
  const std::string narrow = lines_of(drawn(model, {70, 24})).front();
  EXPECT_THAT(narrow, HasSubstr(" node7 6 GPUs  "));
  EXPECT_THAT(narrow, HasSubstr("kW  leased"));
}

TEST(Screen, NarrowHeaderDropsCompleteParts) {
  Model model = make_model(8);
  model.data.today = "31.2kWh 7.80EUR today";
  for (std::size_t columns = 30; columns < 120; ++columns) {
    const std::string head = lines_of(drawn(model, {columns, 24})).front();
    EXPECT_EQ(head.find("31.2") != head.npos, head.find("EUR today") != head.npos) << head;
    EXPECT_EQ(head.find("leased 6/8") != head.npos, head.find("queue 2") != head.npos) << head;
  }
}

TEST(Screen, TheTickerNamesAGpuOnce) {
  Model model = make_model(8);
  auto& alert = model.data.alerts->alerts.front();
  for (const char* message : {"GPU 3: Xid 79. Fell off the bus.", "GPU 3 is lost"}) {
    alert.message = message;
    EXPECT_THAT(lines_of(drawn(model, {80, 24})).at(22), HasSubstr(std::string("! ") + message));
  }
  alert.message = std::string(200, 'x');
  EXPECT_TRUE(lines_of(drawn(model, {80, 24})).at(22).ends_with("\u2026"));
}

TEST(Screen, AStateOfAnAlertHasSevenColumns) {
  Model model = make_model(8);
  auto& alert = model.data.alerts->alerts.front();
  const auto at = [&] { return alert_rows(model.data).front().text.find(alert.message); };
  const std::size_t firing = at();
  alert.silenced = true;
  EXPECT_EQ(at(), firing);
  alert.acknowledged.emplace();
  EXPECT_EQ(at(), firing);
}

// A PID that is cut would be another's.
TEST(Screen, CommandIsNeverTruncated) {
  Model model = make_model(8);
  model.pane = Pane::queue;
  const std::string command = model.data.queue->squatters.front().resolve;
  for (std::size_t columns = 40; columns < 100; ++columns) {
    const std::string text = drawn(model, {columns, 24});
    EXPECT_EQ(text.find("gpuyard lease") != text.npos, text.find(command) != text.npos) << text;
  }
}

TEST(Screen, DrawsTheSameTwice) {
  EXPECT_EQ(drawn(make_model(8), {80, 24}), drawn(make_model(8), {80, 24}));
}

TEST(Screen, OldNewsSayHowOldAndWhy) {
  Model model = make_model(2);
  model.failure = "retrying: nothing is listening at /run/gpuyard.sock";
  model.now = kNow + std::chrono::seconds(75);
  const std::string text = drawn(model, {80, 24});
  EXPECT_THAT(text, HasSubstr("STALE 1m"));
  EXPECT_THAT(text, HasSubstr("nothing is listening"));
}

TEST(Screen, MissingDaemonIsStatedInDependentPanes) {
  Model model = make_model(2);
  model.data.leases.reset();
  model.data.queue.reset();
  model.data.alerts.reset();
  for (const Pane pane : {Pane::queue, Pane::alerts, Pane::usage}) {
    model.pane = pane;
    model.daemon.clear();
    EXPECT_THAT(drawn(model, {80, 24}), HasSubstr("this pane needs a daemon, and none is running"));
  }
  model.pane = Pane::overview;
  EXPECT_THAT(drawn(model, {100, 24}), Not(HasSubstr("leased")));
}

// Names of strangers: wide signs, marks, escape sequences, and all sizes.
TEST(Screen, NoLineIsWiderThanTheScreen) {
  Model model = make_model(9);
  model.host = "\u4e2d\u6587\u4e2d\u6587\u4e2d\u6587";
  const std::array<std::string, 4> names = {"\u4e2d\u6587\u4e2d\u6587\u4e2d\u6587\u4e2d\u6587",
                                            "e\u0301e\u0301e\u0301", "\x1b[2J\x1b]0;x\x07",
                                            std::string(4096, 'w')};
  model.undo = {"cordon", names[0], names[2]};
  model.data.marks = {{kNow - std::chrono::seconds(90), '!', "", names[2]}};
  std::size_t next = 0;
  for (protocol::Device& one : model.data.snapshot.devices) {
    one.name = names[next++ % names.size()];
    if (one.bottleneck) one.bottleneck->text = names[next % names.size()];
    if (!one.processes) continue;
    for (protocol::Process& process : *one.processes) {
      process.user = names[next++ % names.size()];
      process.command = names[next++ % names.size()];
    }
  }
  std::mt19937 chance(11);  // NOLINT: the same sizes in each run
  const auto any = [&](std::size_t most) {
    return std::uniform_int_distribution<std::size_t>(1, most)(chance);
  };
  for (int round = 0; round < 400; ++round) {
    const Size size = round < 9 ? Size{1U + static_cast<unsigned>(round) % 3,
                                       1U + static_cast<unsigned>(round) / 3}
                                : Size{any(300), any(100)};
    model.pane = static_cast<Pane>(round % 7);
    select_row(model.lists[Pane::overview], any(9) - 1);
    model.scrolled = any(30);
    model.detailed = round % 2 == 0;
    model.dialog.reset();
    if (round % 5 == 0) model.dialog = Dialog{*action_for(model, Command::undo)};
    model.query.at = round % 3 == 0 ? std::optional(kNow - std::chrono::minutes(1)) : std::nullopt;
    if (round % 11 == 0) model.prompt = Prompt{Prompt::Kind::filter, names[next++ % names.size()]};
    const auto charset = static_cast<Charset>(round % 3);
    const auto lines = lines_of(drawn(model, size, charset));
    ASSERT_EQ(lines.size(), size.rows);
    for (const std::string& line : lines) {
      ASSERT_LE(width_of(line), size.columns) << line;
      ASSERT_EQ(line.find('\x1b'), line.npos);
    }
  }
}

TEST(Screen, AsciiCharsetDrawsOnlyAscii) {
  const std::string text = drawn(make_model(8), {80, 24}, Charset::ascii);
  EXPECT_TRUE(
      std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; }));
}

// Little is sent when little happens.
TEST(Screen, ASecondOfEightGpusIsFewBytes) {
  Model model = make_model(8);
  const Grid before = render(model, {80, 24}, Charset::block);
  EXPECT_EQ(before.diff_bytes(before, Palette::of_256), "") << "nothing has changed";
  for (protocol::Device& one : model.data.snapshot.devices) {
    if (one.readings.number(Metric::power_draw)) {
      one.readings.set({Metric::power_draw, 0, {}, std::int64_t{613'000}});
      one.readings.set({Metric::utilization_gpu, 0, {}, std::int64_t{93}});
    }
  }
  append_utilization(model.utilization, model.data.snapshot);
  const Grid after = render(model, {80, 24}, Charset::block);
  EXPECT_LE(after.diff_bytes(before, Palette::of_256).str().size(), 2048U);
}

std::string shown(const std::string& title, const Model& model, Size size,
                  Charset charset = Charset::block) {
  return fmt::format("## {}\n\n```\n{}```\n\n", title, drawn(model, size, charset));
}

// A hash of a screen's bytes: a change of any byte changes it.
std::uint64_t sum_of(std::string_view bytes) {
  std::uint64_t sum = 0xcbf29ce484222325U;  // FNV-1a
  for (const char c : bytes) sum = (sum ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return sum;
}

// Sums of the bytes that a terminal gets: every number of GPUs, size, set of signs and of colours.
std::string sums() {
  std::string text;
  for (const std::size_t gpus : {1U, 2U, 8U, 16U, 64U}) {
    const Model model = make_model(gpus);
    for (const Size size : {Size{80, 24}, Size{120, 40}, Size{200, 60}}) {
      for (const Charset charset : {Charset::braille, Charset::block, Charset::ascii}) {
        const Grid grid = render(model, size, charset);
        text += fmt::format("{:>2} {:>3}x{}", gpus, size.columns, size.rows);
        for (const Palette palette :
             {Palette::true_color, Palette::of_256, Palette::of_16, Palette::mono}) {
          text += fmt::format(" {:016x}", sum_of(grid.diff_bytes(Grid({0, 0}), palette)));
        }
        text += "\n";
      }
    }
  }
  return text;
}

Model in_the_past() {
  Model model = make_model(8);
  model.query.at = model.data.at = kNow - std::chrono::seconds(1706);
  model.data.snapshot.past =
      protocol::Past{to_rfc3339(*model.query.at), protocol::PastResolution::ten_seconds, {}};
  model.data.leases.reset();
  model.data.queue.reset();
  model.data.marks = {{kNow - std::chrono::minutes(48), '*', "", "memory is nearly full"},
                      {kNow - std::chrono::minutes(36), 'X', "GPU-00000003", "Xid 79"}};
  sort_lists(model);
  return model;
}

void add_charts(Model& model) {
  auto& charts = model.data.charts;
  charts.until_ms = to_unix_ms(kNow);
  charts.since_ms = charts.until_ms - 3'600'000;
  for (const char* unit : {"%", "W"}) {
    protocol::HistoryColumn column;
    column.uuid = "GPU-00000000";
    column.unit = unit;
    column.first_ms = charts.since_ms + 600'000;
    column.step_ms = 15'000;
    for (int i = 0; i < 200; ++i) {
      const double share = i % 40 < 4 ? 0.1 : 0.9 + 0.002 * (i % 10);
      column.mean.emplace_back(share * (*unit == '%' ? 100 : 700));
      column.min.emplace_back(*column.mean.back() - 5);
    }
    charts.series.push_back(std::move(column));
  }
  model.data.marks = {{kNow - std::chrono::minutes(20), '*', "GPU-00000000", "hot"}};
}

std::string shown_actions() {
  Model model = make_model(8);
  press_keys(model, "p");
  model.dialog->planned = "GPU 0 H100 80GB HBM3: power limit 700 W -> 560 W, until 12:57";
  std::string text = shown("The plan before a change", model, {80, 24});
  model = make_model(8);
  press_keys(model, "/temp>60");
  text += shown("A filter that is being typed", model, {80, 24});
  model = make_model(8);
  model.pane = Pane::gpu;
  add_charts(model);
  text += shown("One GPU with its last hour", model, {80, 24}, Charset::braille);
  model = make_model(8);
  model.pane = Pane::usage;
  model.data.usage.emplace();
  protocol::UsageRow row;
  row.key = "alice";
  row.gpu_hours = 76.8;
  row.energy_kwh = 31.2;
  row.mean_utilization_percent = 91;
  row.leases = 3;
  model.data.usage->rows = {row};
  return text + shown("Usage", model, {80, 24});
}

TEST(Screen, DocumentMatchesRendering) {
  ::setenv("TZ", "UTC", 1);
  ::tzset();
  std::string text =
      "# The screens of `gpuyard top`\n\nDrawn by `GPUYARD_WRITE_GOLDEN=1 cli_test`; the test "
      "compares this file with what is drawn.\n\n";
  for (const std::size_t gpus : {1U, 2U, 8U, 16U, 64U}) {
    text += shown(fmt::format("{} GPU{}, 80x24", gpus, gpus == 1 ? "" : "s"), make_model(gpus),
                  {80, 24});
  }
  text += shown("8 GPUs, 120x40", make_model(8), {120, 40});
  text += shown("64 GPUs, 120x40", make_model(64), {120, 40});
  text += shown("8 GPUs in braille", make_model(8), {80, 24}, Charset::braille);
  text += shown("8 GPUs in ASCII", make_model(8), {80, 24}, Charset::ascii);
  Model model = make_model(8);
  for (const auto& [title, pane] : {std::pair{"One GPU", Pane::gpu},
                                    {"Processes", Pane::processes},
                                    {"The queue", Pane::queue},
                                    {"Alerts", Pane::alerts},
                                    {"Help", Pane::help}}) {
    model.pane = pane;
    text += shown(title, model, {80, 24});
  }
  text += shown_actions();
  text += shown("The past", in_the_past(), {80, 24});
  text += "## As sentences (`--plain`)\n\n```\n";
  for (const std::string& line : plain_lines(make_model(8))) text += line + "\n";
  text +=
      "```\n\n## Sums of other sizes, signs and colours\n\nGPUs and size, then a sum of the "
      "bytes in 24-bit colour, 256 colours, 16, and none; a line each for braille, blocks and "
      "ASCII.\n\n```\n" +
      sums() + "```\n";
  expect_document("top_screens.md", text);
}

TEST(Screen, MissingPastReadingsShowUnknown) {
  Model model = in_the_past();
  for (protocol::Device& one : model.data.snapshot.devices) one.readings = {};
  const std::string text = drawn(model, {80, 24});
  EXPECT_THAT(text, HasSubstr("power unknown"));
  EXPECT_THAT(text, HasSubstr("PAST"));
  EXPECT_THAT(text, HasSubstr("X"));
}

TEST(Screen, PlainModeReportsConnectionFailure) {
  Model model = make_model(2);
  model.failure = "retrying: nothing is listening";
  EXPECT_THAT(plain_lines(model), testing::ElementsAre("retrying: nothing is listening"));
}

TEST(Screen, FooterNamesActiveKeys) {
  Model model = make_model(8);
  EXPECT_THAT(lines_of(drawn(model, {120, 24})).back(), HasSubstr("p limit"));
  model.pane = Pane::alerts;
  EXPECT_THAT(lines_of(drawn(model, {120, 24})).back(), HasSubstr("a ack"));
  EXPECT_THAT(lines_of(drawn(model, {120, 24})).back(), Not(HasSubstr("p limit")));
  model.readonly = true;
  EXPECT_THAT(lines_of(drawn(model, {120, 24})).back(), Not(HasSubstr("a ack")));
}

}  // namespace
}  // namespace gpuyard::cli::top
