// Measures what a day of history takes of memory, disk and CPU. Records the world that
// GPUYARD_SIM_WORLD names once a second for `history SECONDS`, as the daemon's tiers do, and then
// replays the recording until a day is over; counters go on from their last values.
#include <sys/resource.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <thread>

#include "base/clock.h"
#include "base/files.h"
#include "base/proc_stat.h"
#include "core/history/query.h"
#include "core/history/rings.h"
#include "core/history/timeline.h"
#include "gpu/device/catalog.h"
#include "gpu/nvml/nvml_backend.h"
#include "io/store/history_db.h"

namespace gpuyard {
namespace {

using namespace std::chrono_literals;

constexpr int kDay = 24 * 3600;

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_THREAD, &usage);
  const auto seconds = [](timeval time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double resident_mib() {
  const auto text = read_file("/proc/self/statm", 256);
  if (!text) return 0;
  const std::size_t blank = text->find(' ');
  double pages = 0;
  std::from_chars(text->data() + blank + 1, text->data() + text->size(), pages);
  return pages * static_cast<double>(::sysconf(_SC_PAGESIZE)) / (1024 * 1024);
}

ProbeSet due_at(int second) {
  ProbeSet due = probes_of(Tier::fast);
  if (second % 5 == 0) due = due | probes_of(Tier::slow);
  if (second % 60 == 0) due = due | probes_of(Tier::rare);
  return due;
}

// The answers of each GPU in each second.
using Trace = std::vector<std::vector<Sample>>;

struct Recording {
  std::vector<DeviceInfo> gpus;
  Trace trace;
  TimePoint began;
};

Recording record(int seconds) {
  auto backend = nvml::make_backend(SIM_NVML_LIBRARY);
  auto session = backend ? (*backend)->start() : Result<DriverSession>(backend.error());
  if (!session) {
    std::fprintf(stderr, "history: %s\n", session.error().message.c_str());
    std::exit(1);
  }
  Recording out;
  for (std::uint32_t i = 0; i < session->gpu_count; ++i) out.gpus.push_back((*backend)->open(i));
  out.began = BootClock::now();
  for (int second = 0; second < seconds; ++second) {
    std::vector<Sample> samples(out.gpus.size());
    // The fast tier of all GPUs comes first: in the daemon no GPU waits for another.
    for (const ProbeSet probes : {probes_of(Tier::fast), due_at(second) - probes_of(Tier::fast)}) {
      if (probes.empty()) continue;
      for (std::size_t i = 0; i < samples.size(); ++i) {
        samples[i].merge((*backend)->read(out.gpus[i].id, probes));
      }
    }
    out.trace.push_back(std::move(samples));
    std::this_thread::sleep_for(out.began + std::chrono::seconds(second + 1) - BootClock::now());
  }
  return out;
}

// The recording repeated without end, for `copies` times as many GPUs.
class Replay {
 public:
  Replay(const Recording& recording, std::size_t copies) : recording_(recording) {
    for (std::size_t i = 0; i < recording.gpus.size() * copies; ++i) {
      DeviceState state;
      state.info = recording.gpus[i % recording.gpus.size()];
      state.info.uuid += "-" + std::to_string(i);
      state.info.index = static_cast<std::uint32_t>(i);
      snapshot_.devices.push_back(std::move(state));
    }
    grown_.resize(recording.gpus.size());
  }

  const Snapshot& second(int at) {
    const auto length = static_cast<int>(recording_.trace.size());
    if (at > 0 && at % length == 0) grow_counters();
    const auto shift = std::chrono::seconds(at / length * length);
    const auto& samples = recording_.trace[static_cast<std::size_t>(at % length)];
    for (std::size_t i = 0; i < snapshot_.devices.size(); ++i) {
      const std::size_t of = i % samples.size();
      for (Reading reading : samples[of].readings()) {
        reading.taken += shift;
        auto* number = std::get_if<std::int64_t>(&reading.value);
        if (number != nullptr && row_of(reading.metric).kind == MetricKind::counter) {
          *number += grown_[of][{reading.metric, reading.index}];
        }
        snapshot_.devices[i].sample.set(std::move(reading));
      }
    }
    snapshot_.taken = recording_.began + std::chrono::seconds(at) + 5ms;
    return snapshot_;
  }

 private:
  using Key = std::pair<Metric, std::uint16_t>;

  // A counter begins the next round at its last value.
  void grow_counters() {
    for (std::size_t i = 0; i < grown_.size(); ++i) {
      for (const Reading& first : recording_.trace.front()[i].readings()) {
        if (row_of(first.metric).kind != MetricKind::counter || first.number() == nullptr) continue;
        for (auto last = recording_.trace.rbegin(); last != recording_.trace.rend(); ++last) {
          const std::int64_t* number = (*last)[i].number(first.metric, first.index);
          if (number == nullptr) continue;
          grown_[i][{first.metric, first.index}] += *number - *first.number();
          break;
        }
      }
    }
  }

  const Recording& recording_;
  Snapshot snapshot_;
  std::vector<std::map<Key, std::int64_t>> grown_;
};

// The CPU time of feeding alone.
double append_replay(history::Rings& rings, Replay& replay, int seconds) {
  double spent = 0;
  for (int second = 0; second < seconds; ++second) {
    const Snapshot& snapshot = replay.second(second);
    const double before = cpu_seconds();
    rings.append(snapshot);
    spent += cpu_seconds() - before;
  }
  return spent;
}

struct Payload {
  std::size_t series = 0;
  std::size_t readings = 0;
  std::size_t reading_bytes = 0;
  std::size_t tens = 0;
  std::size_t ten_bytes = 0;
};

Payload payload_of(const history::Rings& rings) {
  Payload out;
  for (const auto& [uuid, gpu] : rings.gpus()) {
    for (const history::Series& series : gpu.series) {
      ++out.series;
      for (const auto& block : series.readings(INT64_MIN).blocks) {
        out.readings += block.points;
        out.reading_bytes += block.size;
      }
      for (const auto& block : series.ten_second_buckets(INT64_MIN).blocks) {
        out.tens += block.points;
        out.ten_bytes += block.size;
      }
    }
  }
  return out;
}

void decode_all(const history::Rings& rings) {
  std::size_t points = 0;
  const double before = cpu_seconds();
  for (const auto& [uuid, gpu] : rings.gpus()) {
    for (const history::Series& series : gpu.series) {
      points += series.readings(INT64_MIN).points(INT64_MIN, INT64_MAX).size();
      points += 4 * series.ten_second_buckets(INT64_MIN).points(INT64_MIN, INT64_MAX).size();
    }
  }
  const double spent = cpu_seconds() - before;
  std::printf("decode: %.1f ns a number (%zu numbers)\n", spent * 1e9 / static_cast<double>(points),
              points);
}

// Stores a day of minutes, once an hour: the size on disk does not depend on how often.
void store_day(const history::Rings& rings) {
  std::string directory = std::filesystem::temp_directory_path() / "gpuyard-bench-XXXXXX";
  if (::mkdtemp(directory.data()) == nullptr) return;
  std::size_t series = 0;
  double spent = 0;
  {
    store::HistoryDb db(directory + "/history.db");
    history::DaemonRun run{boot_id(), 1'700'000'000'000, {}, 0, 0};
    for (const auto& [uuid, gpu] : rings.gpus()) {
      std::vector<history::SeriesMinutes> minutes;
      for (const history::Series& one : gpu.series) {
        ++series;
        const auto tens = one.ten_second_buckets(INT64_MIN).points(INT64_MIN, INT64_MAX);
        if (tens.empty()) continue;
        run.last_ms = std::max(run.last_ms, tens.back().at_ms);
        minutes.push_back({{uuid, json_key(row_of(one.metric())), one.element()},
                           history::downsample(tens, history::kMinuteMs)});
      }
      const double before = cpu_seconds();
      if (const auto done = db.put(run, minutes); !done) {
        std::fprintf(stderr, "history: %s\n", done.error().message.c_str());
      }
      spent += cpu_seconds() - before;
    }
  }
  const auto bytes = std::filesystem::file_size(directory + "/history.db");
  std::printf("history.db: %.2f MB for a day of %zu series, %.0f ms of CPU to write them at once\n",
              static_cast<double>(bytes) * 1e-6, series, spent * 1e3);
  std::filesystem::remove_all(directory);
}

void run(int seconds) {
  const Recording recording = record(seconds);
  std::printf("recorded: %zu GPUs, %d s\n", recording.gpus.size(), seconds);
  const double before = resident_mib();
  history::Rings rings;
  {
    Replay replay(recording, 1);
    const double spent = append_replay(rings, replay, kDay);
    std::printf("%zu GPUs: %.1f us of CPU a tick\n", recording.gpus.size(), spent * 1e6 / kDay);
  }
  const Payload payload = payload_of(rings);
  const auto gpus = static_cast<double>(recording.gpus.size());
  std::printf("series: %.0f a GPU\n", static_cast<double>(payload.series) / gpus);
  std::printf("memory after a day: %.2f MB (%.2f MB a GPU) by our count, resident +%.1f MiB\n",
              static_cast<double>(rings.bytes()) * 1e-6,
              static_cast<double>(rings.bytes()) * 1e-6 / gpus, resident_mib() - before);
  std::printf(
      "blocks: readings %.2f B each, an hour of them %.2f MB (a day would be %.2f MB); ten "
      "seconds %.2f B each, a day of them %.2f MB\n",
      static_cast<double>(payload.reading_bytes) / static_cast<double>(payload.readings),
      static_cast<double>(payload.reading_bytes) * 1e-6,
      static_cast<double>(payload.reading_bytes) * 24e-6,
      static_cast<double>(payload.ten_bytes) / static_cast<double>(payload.tens),
      static_cast<double>(payload.ten_bytes) * 1e-6);
  decode_all(rings);
  store_day(rings);
  history::Rings many;
  Replay replay(recording, 8);
  constexpr int kHour = 3600;
  const double spent = append_replay(many, replay, kHour);
  std::printf("%.0f GPUs: %.1f us of CPU a tick; memory after an hour %.1f MB\n", gpus * 8,
              spent * 1e6 / kHour, static_cast<double>(many.bytes()) * 1e-6);
}

}  // namespace
}  // namespace gpuyard

int main(int argc, char** argv) {
  int seconds = 600;
  if (argc > 1) std::from_chars(argv[1], argv[1] + std::string_view(argv[1]).size(), seconds);
  gpuyard::run(std::max(seconds, 1));
  return 0;
}
