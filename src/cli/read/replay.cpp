// gpuyard replay
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>

#include "base/files.h"
#include "base/printable.h"
#include "cli/read/recorded.h"
#include "cli/screen/terminal.h"
#include "cli/shared_options.h"
#include "cli/verbs.h"
#include "cli/words.h"
#include "recording/player.h"

namespace gpuyard::cli {
namespace {

void warn_of_cut(const recording::Player& player, const std::string& file) {
  if (player.cut() == 0) return;
  complain({Errc::invalid,
            fmt::format("{}:{}: the recording breaks off in this line; it is played up to there",
                        file, player.cut())});
}

std::string info(const recording::Player& player) {
  std::string text = fmt::format("began   {}\nlength  {:.1f} s\n",
                                 printable(player.header().began_at), to_seconds(player.length()));
  const auto& driver = player.header().driver;
  if (driver.driver_version) text += fmt::format("driver  {}\n", printable(*driver.driver_version));
  if (player.header().simulated) text += "the GPUs were simulated\n";
  for (const auto& gpu : player.gpus()) {
    text += fmt::format("GPU {}   {}  {}\n", gpu.identity.index, printable(gpu.identity.name),
                        printable(gpu.identity.uuid));
  }
  return text;
}

// Until the recording has ended.
std::uint64_t looks_left(const recording::Player& player, const recording::Replay& replay,
                         const std::string& interval) {
  const auto between = parse_interval(interval);
  if (!between) return 0;  // said by whoever looks
  const double seconds = to_seconds(player.length() - replay.from) / replay.speed;
  return 1 + static_cast<std::uint64_t>(std::max(0.0, seconds) / to_seconds(*between));
}

}  // namespace

Result<recording::Replay> replay_from(const std::string& file, const std::string& from,
                                      double speed) {
  const bool at_the_start = from == "0" || from == "0s";
  const auto offset = at_the_start ? Result<Duration>(Duration(0)) : parse_interval(from);
  if (!offset) return offset.error();
  // A daemon's child plays it, wherever that is started.
  std::string path = file;
  if (!path.starts_with('/')) {
    char* const here = ::get_current_dir_name();
    if (here == nullptr) return system_error("finding " + file);
    path = std::string(here) + "/" + file;
    ::free(here);
  }
  return recording::Replay{std::move(path), *offset, speed, BootClock::now()};
}

Options add_replay(Options program, ReplayVerb& verb) {
  const Options replay = program.verb("replay", "Show a recording as `watch` shows GPUs");
  const Option file =
      replay.option("file", verb.file, "The recording").required().type_name("FILE");
  add_position(replay, "--from", verb.from, "--speed", verb.speed, file);
  replay.option("--interval", verb.watch.interval, "Time between two looks: 500ms, 2s, 1m")
      .type_name("TIME");
  replay.option("--count", verb.watch.count, "End after N looks").type_name("N");
  const Option info = replay.flag("--info", verb.info, "Say what is in the file, and end");
  replay.flag("--json", verb.watch.json, "Print a line of JSON for each look").excludes(info);
  add_color(replay, verb.watch.color);
  return replay;
}

int run(const ReplayVerb& verb) {
  const auto player = recording::Player::open(verb.file);
  if (!player) return complain(player.error());
  warn_of_cut(*player, verb.file);
  if (verb.info) {
    print(info(*player));
    return 0;
  }
  auto replay = replay_from(verb.file, verb.from, verb.speed);
  if (!replay) return complain(replay.error());
  WatchVerb watch = verb.watch;
  if (watch.count == 0) watch.count = looks_left(*player, *replay, watch.interval);
  watch.source.replay = *std::move(replay);
  return run(watch);
}

}  // namespace gpuyard::cli
