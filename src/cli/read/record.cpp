// gpuyard record

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <optional>

#include <fmt/format.h>

#include "base/files.h"
#include "base/try.h"
#include "base/unique_fd.h"
#include "cli/read/source_access.h"
#include "cli/screen/live_screen.h"
#include "cli/screen/output.h"
#include "cli/shared_options.h"
#include "cli/verbs.h"
#include "faces/recording/player.h"
#include "faces/recording/recording_line.h"

namespace gpuyard::cli {
namespace {

Result<UniqueFd> create(const RecordVerb& verb) {
  if (verb.file == "-") return UniqueFd(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0));
  const int how = O_WRONLY | O_CREAT | O_CLOEXEC | (verb.force ? O_TRUNC | O_NOFOLLOW : O_EXCL);
  UniqueFd file(::open(verb.file.c_str(), how, 0644));
  if (file) return file;
  if (errno == EEXIST) {
    return Error{Errc::conflict, verb.file + " already exists", "", verb.line + " --force"};
  }
  if (errno == ELOOP) {
    return Error{Errc::conflict, verb.file + " is a symbolic link",
                 "it is not followed because anyone may have created it; name its target instead"};
  }
  return system_error("creating " + verb.file);
}

struct RecordingStats {
  std::uint64_t polls = 0;
  std::uint64_t missed = 0;  // got no answer
  std::uint64_t bytes = 0;
  Duration length{0};
};

void print_record_summary(const RecordVerb& verb, const RecordingStats& stats) {
  Printable text =
      formatted("{}: {:.1f} s in {} samples, {} bytes\n", verb.file == "-" ? "stdout" : verb.file,
                to_seconds(stats.length), stats.polls, stats.bytes);
  if (stats.missed > 0) text += formatted("{} samples failed\n", stats.missed);
  if (verb.file != "-") text += formatted("Replay it: gpuyard replay {}\n", verb.file);
  print_stderr(text);
}

// Records until a signal, the end of the time or a full disk.
Result<void> record(const RecordVerb& verb, Source& source, SignalWaiter& signals,
                    Duration interval, Duration length) {
  auto file = GPUYARD_TRY(create(verb));
  recording::RecordingEncoder recorder;
  RecordingStats stats;
  std::optional<TimePoint> began;  // the first poll is at 0
  for (TimePoint next = BootClock::now();;) {
    const auto snapshot = source.snapshot(ProbeSet::all(), OwnerLookup::not_needed);
    if (snapshot) {
      const TimePoint now = BootClock::now();
      stats.length = now - began.emplace(began.value_or(now));
      // Whole lines, so that the file can be replayed whatever happens next.
      const auto lines = Printable::json(recorder.encode(*snapshot, stats.length));
      const bool to_stdout = verb.file == "-";
      if (auto done = write_all(file, to_stdout ? "stdout" : verb.file, lines); !done) {
        const bool replays = !to_stdout && stats.polls > 0;
        return Error(done.error())
            .in(replays ? "the recording ends early, but can be replayed" : "recording stopped");
      }
      stats.bytes += lines.str().size();
      ++stats.polls;
    } else {
      ++stats.missed;
    }
    next = std::max(next + interval, BootClock::now());
    if (next - began.value_or(next) > length || !wait_for_tick(signals, next)) break;
  }
  print_record_summary(verb, stats);
  return {};
}

void warn_truncated(const recording::Player& player, const std::string& file) {
  if (player.truncated_line() == 0) return;
  print_error(
      {Errc::invalid,
       fmt::format("{}:{}: the recording is cut off in this line; playing the part before it", file,
                   player.truncated_line())});
}

Printable info(const recording::Player& player) {
  Printable text = formatted("start   {}\nlength  {:.1f} s\n", player.header().began_at,
                             to_seconds(player.length()));
  const auto& driver = player.header().driver;
  if (driver.driver_version) text += formatted("driver  {}\n", *driver.driver_version);
  if (player.header().simulated) text += "simulated GPUs\n";
  for (const auto& gpu : player.gpus()) {
    text +=
        formatted("GPU {}   {}  {}\n", gpu.identity.index, gpu.identity.name, gpu.identity.uuid);
  }
  return text;
}

// Counts the polls until the recording ends.
std::uint64_t remaining_polls(const recording::Player& player, const recording::Replay& replay,
                              const std::string& interval) {
  const auto between = parse_interval(interval);
  if (!between) return 0;  // the verb that polls reports it
  const double seconds = to_seconds(player.length() - replay.from) / replay.speed;
  return 1 + static_cast<std::uint64_t>(std::max(0.0, seconds) / to_seconds(*between));
}

}  // namespace

Options add_record(Options program, RecordVerb& verb) {
  const Options record = program.verb("record", "Record all readings to a file");
  add_source(record, verb.source);
  record.option("file", verb.file, "Output file, or - for stdout").required().metavar("FILE");
  record.option("--interval", verb.interval, "Time between samples, e.g. 500ms, 2s or 1m")
      .metavar("DURATION")
      .default_is("1s");
  record.option("--for", verb.length, "Stop after this time, e.g. 90s, 10m or 8h")
      .metavar("DURATION")
      .default_is("until Ctrl-C");
  record.flag("--force", verb.force, "Replace an existing file");
  record.example("gpuyard record night.rec --for 8h")
      .example("gpuyard replay night.rec --speed 60");
  return record;
}

int run(const RecordVerb& verb) {
  const auto interval = parse_interval(verb.interval);
  if (!interval) return print_error(Error(interval.error()).in("--interval"));
  const auto length =
      verb.length.empty() ? Result<Duration>(Duration::max()) : parse_interval(verb.length);
  if (!length) return print_error(Error(length.error()).in("--for"));
  SignalWaiter signals;  // before the driver's threads
  auto open = open_source(verb.source);
  if (!open) return print_source_error(open.error());
  const auto first = open->source->snapshot({}, OwnerLookup::not_needed);
  if (!first) return print_source_error(first.error());
  if (!first->driver_initialised) return print_source_error(no_driver_error(*first));
  return report_result(record(verb, *open->source, signals, *interval, *length));
}

// gpuyard replay
Result<recording::Replay> replay_from(const std::string& file, const std::string& from,
                                      double speed, std::string_view option) {
  const auto offset = parse_interval(from, Duration(0));
  if (!offset) return Error(offset.error()).in(option);
  // A child of the daemon plays it, and may start in another directory.
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
  const Options replay = program.verb("replay", "Play back a recording, in the format of `watch`");
  const Option file =
      replay.option("file", verb.file, "Recording to play").required().metavar("FILE");
  add_replay_position(replay, "--from", verb.from, "--speed", verb.speed, file);
  replay.option("--interval", verb.watch.interval, "Time between samples, e.g. 500ms, 2s or 1m")
      .metavar("DURATION")
      .default_is("1s");
  replay.option("--count", verb.watch.count, "Stop after N samples").metavar("N").positive();
  const Option info = replay.flag("--info", verb.info, "Describe the recording and exit");
  replay.flag("--json", verb.watch.json, "Print one JSON object per sample").excludes(info);
  add_color(replay, verb.watch.color);
  replay.example("gpuyard replay night.rec --speed 60")
      .example("gpuyard replay night.rec --info")
      .example("gpuyard replay night.rec --from 10m --count 1");
  return replay;
}

int run(const ReplayVerb& verb) {
  const auto player = recording::Player::open(verb.file);
  if (!player) return print_error(player.error());
  warn_truncated(*player, verb.file);
  if (verb.info) {
    print(info(*player));
    return 0;
  }
  auto replay = replay_from(verb.file, verb.from, verb.speed, "--from");
  if (!replay) return print_error(replay.error());
  WatchVerb watch = verb.watch;
  if (watch.count == 0) watch.count = remaining_polls(*player, *replay, watch.interval);
  watch.source.replay = *std::move(replay);
  return run(watch);
}

}  // namespace gpuyard::cli
