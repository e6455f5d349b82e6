// gpuyard record

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <optional>

#include <fmt/format.h>

#include "base/files.h"
#include "base/text.h"
#include "base/unique_fd.h"
#include "cli/read/reading.h"
#include "cli/screen/terminal.h"
#include "cli/shared_options.h"
#include "cli/verbs.h"
#include "recording/line.h"
#include "recording/player.h"

namespace gpuyard::cli {
namespace {

Result<UniqueFd> create(const RecordVerb& verb) {
  if (verb.file == "-") return UniqueFd(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0));
  const int how = O_WRONLY | O_CREAT | O_CLOEXEC | (verb.force ? O_TRUNC | O_NOFOLLOW : O_EXCL);
  UniqueFd file(::open(verb.file.c_str(), how, 0644));
  if (file) return file;
  if (errno == EEXIST) {
    return Error{Errc::conflict, verb.file + " is there already; --force replaces it"};
  }
  if (errno == ELOOP) {
    return Error{Errc::conflict, verb.file +
                                     " is a link, which anybody may have put there; "
                                     "name the file that it leads to"};
  }
  return system_error("creating " + verb.file);
}

struct Looked {
  std::uint64_t looks = 0;
  std::uint64_t missed = 0;  // got no answer
  std::uint64_t bytes = 0;
  Duration length{0};
};

void sum_up(const RecordVerb& verb, const Looked& looked) {
  Printable text = formatted("{}: {:.1f} s in {} looks, {} bytes\n", verb.file,
                             to_seconds(looked.length), looked.looks, looked.bytes);
  if (looked.missed > 0) text += formatted("{} looks had no answer\n", looked.missed);
  if (verb.file != "-") text += formatted("Play it: gpuyard replay {}\n", verb.file);
  print_error(text);
}

// Records until a signal, the end of the time or a full disk.
Result<void> record(const RecordVerb& verb, Source& source, Interruptions& interruptions,
                    Duration interval, Duration length) {
  auto file = create(verb);
  if (!file) return std::move(file).error();
  recording::Recorder recorder;
  Looked looked;
  std::optional<TimePoint> began;  // the first look is at 0
  for (TimePoint next = BootClock::now();;) {
    const auto snapshot = source.snapshot(ProbeSet::all(), Owners::not_needed);
    if (snapshot) {
      const TimePoint now = BootClock::now();
      looked.length = now - began.emplace(began.value_or(now));
      // Whole lines, so that the file can be played whatever happens next.
      const auto lines = Printable::json(recorder.lines_of(*snapshot, looked.length));
      if (auto done = write_all(*file, verb.file, lines); !done) {
        return Error(done.error()).in("what was recorded so far can be played");
      }
      looked.bytes += lines.str().size();
      ++looked.looks;
    } else {
      ++looked.missed;
    }
    next = std::max(next + interval, BootClock::now());
    if (next - began.value_or(next) > length || !wait_for_tick(interruptions, next)) break;
  }
  sum_up(verb, looked);
  return {};
}

}  // namespace

Options add_record(Options program, RecordVerb& verb) {
  const Options record = program.verb("record", "Write all readings to a file, to be replayed");
  add_source(record, verb.source);
  record.option("file", verb.file, "Where to; - is stdout").required().type_name("FILE");
  record.option("--interval", verb.interval, "Time between two looks: 500ms, 2s, 1m")
      .type_name("TIME");
  record.option("--for", verb.length, "End after 90s, 10m, 8h (else Ctrl-C ends it)")
      .type_name("TIME");
  record.flag("--force", verb.force, "Replace the file if it is there");
  return record;
}

int run(const RecordVerb& verb) {
  const auto interval = parse_interval(verb.interval);
  if (!interval) return complain(interval.error());
  const auto length =
      verb.length.empty() ? Result<Duration>(Duration::max()) : parse_interval(verb.length);
  if (!length) return complain(length.error());
  Interruptions interruptions;  // before the driver's threads
  auto open = open_source(verb.source);
  if (!open) return complain_about_source(open.error());
  const auto first = open->source->snapshot({}, Owners::not_needed);
  if (!first) return complain_about_source(first.error());
  if (!first->driver_initialised) return complain_about_source(no_driver(*first));
  return exit_code_after(record(verb, *open->source, interruptions, *interval, *length));
}

// gpuyard replay
namespace {

void warn_of_cut(const recording::Player& player, const std::string& file) {
  if (player.cut() == 0) return;
  complain({Errc::invalid,
            fmt::format("{}:{}: the recording breaks off in this line; it is played up to there",
                        file, player.cut())});
}

Printable info(const recording::Player& player) {
  Printable text = formatted("began   {}\nlength  {:.1f} s\n", player.header().began_at,
                             to_seconds(player.length()));
  const auto& driver = player.header().driver;
  if (driver.driver_version) text += formatted("driver  {}\n", *driver.driver_version);
  if (player.header().simulated) text += "the GPUs were simulated\n";
  for (const auto& gpu : player.gpus()) {
    text +=
        formatted("GPU {}   {}  {}\n", gpu.identity.index, gpu.identity.name, gpu.identity.uuid);
  }
  return text;
}

// Counts the looks until the recording ends.
std::uint64_t looks_left(const recording::Player& player, const recording::Replay& replay,
                         const std::string& interval) {
  const auto between = parse_interval(interval);
  if (!between) return 0;  // the verb that looks reports it
  const double seconds = to_seconds(player.length() - replay.from) / replay.speed;
  return 1 + static_cast<std::uint64_t>(std::max(0.0, seconds) / to_seconds(*between));
}

}  // namespace

Result<recording::Replay> replay_from(const std::string& file, const std::string& from,
                                      double speed) {
  const bool at_the_start = from == "0" || from == "0s";
  const auto offset = at_the_start ? Result<Duration>(Duration(0)) : parse_interval(from);
  if (!offset) return offset.error();
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
