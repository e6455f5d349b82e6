#include "cli/top/render.h"

#include <algorithm>
#include <random>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/golden_for_tests.h"
#include "cli/screen/fitted_table.h"

namespace gpuyard::cli::top {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr std::int64_t kGibibyte = std::int64_t{1} << 30;
constexpr std::int64_t kWatt = 1000;
const WallTime kNow = *from_rfc3339("2026-01-31T12:27:01Z");

// What one of eight GPUs does, over and over.
struct Life {
  std::int64_t use;
  std::int64_t memory_gib;
  std::int64_t celsius;
  std::int64_t watts;
  const char* user;  // of its lease; "": none
  const char* squatter;
  Bottleneck why;
};

const std::array<Life, 8> kLives = {{
    {96,
     61,
     74,
     688,
     "alice",
     "",
     {BottleneckCause::power_cap, false, 38, "power cap 38%",
      "is held back by its power limit, 38% of the last minute: 1590 of 1980 MHz, not by heat (74 "
      "of "
      "89 C)",
      "It is at its highest already: spread the work."}},
    {95,
     61,
     73,
     681,
     "alice",
     "",
     {BottleneckCause::power_cap, false, 35, "power cap 35%", "is held back by its power limit",
      "Spread the work."}},
    {99,
     12,
     41,
     118,
     "bob",
     "",
     {BottleneckCause::waiting,
      true,
      {},
      "busy at 17% W: waits",
      "probably waits: busy all the time at 17% of its power limit, with 3% of its SMs active",
      "Its kernels spin: look for the slowest or dead partner of its collective."}},
    {-1,
     0,
     0,
     0,
     "carol",
     "",
     {BottleneckCause::lost,
      false,
      {},
      "lost 12s",
      "is lost for 12s: GPU is lost",
      "Its work has failed. Reset it (gpuyard reset) or replace it."}},
    {0,
     70,
     38,
     92,
     "dave",
     "",
     {BottleneckCause::leased_idle,
      false,
      {},
      "leased, idle 26m",
      "is leased, and nobody computes on it for 26m",
      "Ask the holder to release it."}},
    {61,
     33,
     66,
     402,
     "erin",
     "",
     {BottleneckCause::starved,
      true,
      {},
      "starved: CPU 1.0",
      "probably waits for its process on the CPU: 25% busy, and the process uses 1.0 cores",
      "Give the input more workers or cores, or larger batches."}},
    {0, 0, 31, 71, "", "", {BottleneckCause::none, false, {}, "fine", "is held back by nothing"}},
    {12,
     6,
     36,
     104,
     "",
     "mallory",
     {BottleneckCause::none, false, {}, "fine", "is held back by nothing"}},
}};

protocol::Process process(std::uint32_t pid, const std::string& user, std::int64_t use,
                          std::int64_t gibibytes, const std::string& command) {
  protocol::Process one;
  one.pid = pid;
  one.user = user;
  one.sm_percent = use;
  one.memory_bytes = gibibytes * kGibibyte;
  one.cpu_percent = 100.4;
  one.host_memory_bytes = 9 * kGibibyte;
  one.command = command;
  one.started_at = "2026-01-31T11:45:51Z";
  return one;
}

protocol::Device device(std::uint32_t index, const Life& life) {
  protocol::Device out;
  out.index = index;
  out.uuid = fmt::format("GPU-{:08x}", index);
  out.pci_address = fmt::format("0000:{:02x}:00.0", index + 16);
  out.name = "NVIDIA H100 80GB HBM3";
  out.health = Health::healthy;
  out.bottleneck = life.why;
  const auto set = [&](Metric metric, std::int64_t value) {
    out.readings.sample.set({metric, 0, {}, value});
  };
  if (life.use < 0) {
    out.condition = DeviceCondition::unavailable;
    out.why = "GPU is lost";
    out.health = Health::unhealthy;
    return out;
  }
  set(Metric::utilization_gpu, life.use);
  set(Metric::memory_used, life.memory_gib * kGibibyte);
  set(Metric::memory_total, 80 * kGibibyte);
  set(Metric::temperature_core, life.celsius);
  set(Metric::temperature_slowdown, 89);
  set(Metric::power_draw, life.watts * kWatt);
  set(Metric::power_limit, 700 * kWatt);
  set(Metric::clock_sm, 1590);
  set(Metric::clock_sm_max, 1980);
  const std::string user = *life.user != '\0' ? life.user : life.squatter;
  out.processes.emplace();
  if (!user.empty()) {
    out.processes->push_back(
        process(41'207 + 11 * index, user, life.use, life.memory_gib, "python"));
    out.processes->push_back(process(41'300 + 11 * index, user, 0, 0, "tensorboard"));
  }
  return out;
}

Model yard(std::size_t gpus) {
  Model model;
  model.host = "node7";
  model.now = model.news.heard = kNow;
  model.news.leases.emplace();
  model.news.queue.emplace();
  model.news.queue->pending_claimers = 2;
  for (std::uint32_t index = 0; index < gpus; ++index) {
    const Life& life = kLives[index % kLives.size()];
    model.news.snapshot.devices.push_back(device(index, life));
    const protocol::Device& made = model.news.snapshot.devices.back();
    for (std::size_t second = 0; second < kRecent; ++second) {
      const double wave = static_cast<double>((second * 7 + index) % 10) / 40;
      model.recent[made.uuid].push_back(
          life.use < 0 ? kNoValue : std::max(0.0, static_cast<double>(life.use) / 100 - wave));
    }
    if (*life.user != '\0') {
      protocol::Lease lease;
      lease.id = fmt::format("{:016x}", 0x7f3a'0000'0000'0000U + index);
      lease.user = life.user;
      lease.gpus.push_back({index, made.uuid, made.pci_address, made.name, {}, {}});
      lease.use.emplace().held_s = 3.2 * 3600;
      model.news.leases->leases.push_back(std::move(lease));
    }
    if (*life.squatter != '\0') {
      model.news.queue->squatters.push_back({41'207, index, made.uuid, 1007, life.squatter,
                                             "python", 6 * kGibibyte, 4800,
                                             "gpuyard lease adopt --pid 41207"});
    }
  }
  protocol::Lease waiting;
  waiting.user = "gina";
  waiting.wanted_gpus = 2;
  waiting.place = protocol::LeasePlace{1, "busy", "1 of the 2 GPUs is free", 1080.0};
  model.news.queue->waiting.push_back(waiting);
  protocol::Alert alert;
  alert.number = 17;
  alert.rule = "gpu-lost";
  alert.level = AlertLevel::critical;
  alert.gpu = protocol::AlertGpu{};
  alert.gpu->index = 3;
  alert.message = "fell off the bus (Xid 79)";
  alert.advice = "gpuyard reset 3, or replace it.";
  model.news.alerts.emplace();
  if (gpus > 3) model.news.alerts->alerts.push_back(alert);
  return model;
}

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

TEST(Screen, EightGpusAndTheirProcessesFitInto80By24) {
  const auto lines = lines_of(drawn(yard(8), {80, 24}));
  ASSERT_EQ(lines.size(), 24U);
  for (std::size_t gpu = 0; gpu < 8; ++gpu) {
    EXPECT_EQ(lines[2 + gpu].substr(1, 2), fmt::format("{:>1} ", gpu)) << lines[2 + gpu];
  }
  EXPECT_THAT(lines[10], HasSubstr("GPU 0 is held back by its power limit"));
  const auto processes = std::ranges::count_if(
      lines, [](const std::string& line) { return line.find("python") != line.npos; });
  EXPECT_GE(processes, 6);
  EXPECT_THAT(lines[22], HasSubstr("! GPU 3 "));
  EXPECT_THAT(lines[23], HasSubstr("? help"));
}

TEST(Screen, SixtyFourGpusHaveACellEachIn80By24) {
  const std::string text = drawn(yard(64), {80, 24});
  const auto lines = lines_of(text);
  const auto why =
      std::ranges::find_if(lines, [](const std::string& line) { return line.starts_with(" why"); });
  ASSERT_NE(why, lines.end());
  EXPECT_EQ(why->substr(8, 64), "PPwXis..PPwXis..PPwXis..PPwXis..PPwXis..PPwXis..PPwXis..PPwXis..");
  EXPECT_THAT(text, HasSubstr("worst first"));
  EXPECT_THAT(text, HasSubstr("LOST"));
}

TEST(Screen, DrawsTheSameTwice) {
  EXPECT_EQ(drawn(yard(8), {80, 24}), drawn(yard(8), {80, 24}));
}

TEST(Screen, OldNewsSayHowOldAndWhy) {
  Model model = yard(2);
  model.failure = "trying again: nobody answers at /run/gpuyard.sock";
  model.now = kNow + std::chrono::seconds(75);
  const std::string text = drawn(model, {80, 24});
  EXPECT_THAT(text, HasSubstr("OLD 1m"));
  EXPECT_THAT(text, HasSubstr("nobody answers"));
}

TEST(Screen, WithoutADaemonThePanesThatNeedItSayWhatStartsIt) {
  Model model = yard(2);
  model.news.leases.reset();
  model.news.queue.reset();
  model.news.alerts.reset();
  for (const Pane pane : {Pane::queue, Pane::alerts}) {
    model.pane = pane;
    EXPECT_THAT(drawn(model, {100, 24}), HasSubstr("`gpuyard serve` starts one"));
  }
  model.pane = Pane::overview;
  EXPECT_THAT(drawn(model, {100, 24}), Not(HasSubstr("leased")));
}

// Names of strangers: wide signs, marks, escape sequences, and all sizes.
TEST(Screen, NoLineIsWiderThanTheScreen) {
  Model model = yard(9);
  model.host = "\u4e2d\u6587\u4e2d\u6587\u4e2d\u6587";
  const std::array<std::string, 4> names = {"\u4e2d\u6587\u4e2d\u6587\u4e2d\u6587\u4e2d\u6587",
                                            "e\u0301e\u0301e\u0301", "\x1b[2J\x1b]0;x\x07",
                                            std::string(4096, 'w')};
  std::size_t next = 0;
  for (protocol::Device& one : model.news.snapshot.devices) {
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
    model.pane = static_cast<Pane>(round % 6);
    model.gpu = any(9) - 1;
    model.scrolled = any(30);
    model.detailed = round % 2 == 0;
    const auto charset = static_cast<Charset>(round % 3);
    const auto lines = lines_of(drawn(model, size, charset));
    ASSERT_EQ(lines.size(), size.rows);
    for (const std::string& line : lines) {
      ASSERT_LE(width_of(line), size.columns) << line;
      ASSERT_EQ(line.find('\x1b'), line.npos);
    }
  }
}

TEST(Screen, InAsciiThereIsNothingElse) {
  const std::string text = drawn(yard(8), {80, 24}, Charset::ascii);
  EXPECT_TRUE(
      std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; }));
}

// Little is sent when little happens.
TEST(Screen, ASecondOfEightGpusIsFewBytes) {
  Model model = yard(8);
  const Grid before = render(model, {80, 24}, Charset::block);
  EXPECT_EQ(before.bytes_after(before, Palette::of_256), "") << "nothing has changed";
  for (protocol::Device& one : model.news.snapshot.devices) {
    if (one.readings.get(Metric::power_draw)) {
      one.readings.sample.set({Metric::power_draw, 0, {}, std::int64_t{613'000}});
      one.readings.sample.set({Metric::utilization_gpu, 0, {}, std::int64_t{93}});
    }
  }
  note(model.recent, model.news.snapshot);
  const Grid after = render(model, {80, 24}, Charset::block);
  EXPECT_LE(after.bytes_after(before, Palette::of_256).size(), 2048U);
}

std::string shown(const std::string& title, const Model& model, Size size,
                  Charset charset = Charset::block) {
  return fmt::format("## {}\n\n```\n{}```\n\n", title, drawn(model, size, charset));
}

TEST(Screen, TheDocumentShowsWhatIsDrawn) {
  std::string text =
      "# The screens of `gpuyard top`\n\nDrawn by `GPUYARD_WRITE_GOLDEN=1 cli_test`; the test "
      "compares this file with what is drawn.\n\n";
  for (const std::size_t gpus : {1, 2, 8, 16, 64}) {
    text += shown(fmt::format("{} GPU{}, 80x24", gpus, gpus == 1 ? "" : "s"), yard(gpus), {80, 24});
  }
  text += shown("8 GPUs, 120x40", yard(8), {120, 40});
  text += shown("64 GPUs, 120x40", yard(64), {120, 40});
  text += shown("8 GPUs in braille", yard(8), {80, 24}, Charset::braille);
  text += shown("8 GPUs in ASCII", yard(8), {80, 24}, Charset::ascii);
  Model model = yard(8);
  for (const auto& [title, pane] : {std::pair{"One GPU", Pane::gpu},
                                    {"Processes", Pane::processes},
                                    {"The queue", Pane::queue},
                                    {"Alerts", Pane::alerts},
                                    {"Help", Pane::help}}) {
    model.pane = pane;
    text += shown(title, model, {80, 24});
  }
  text.pop_back();
  expect_document("top_screens.md", text);
}

}  // namespace
}  // namespace gpuyard::cli::top
