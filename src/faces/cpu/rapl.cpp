#include "faces/cpu/rapl.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "base/files.h"
#include "base/text.h"

namespace gpuyard::cpu {
namespace {

constexpr std::size_t kMaxSysfsBytes = 64;  // of a file in sysfs that holds a number or a name
constexpr std::string_view kPrefix = "intel-rapl:";

// Returns the N of "intel-rapl:N"; nothing for "intel-rapl:N:M", "intel-rapl-mmio:N" and all else.
std::optional<std::uint32_t> number_of(std::string_view name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  const auto number = parse_number<std::uint32_t>(name);
  return number && *number < Rapl::kMaxPackages ? number : std::nullopt;
}

Result<std::string> read_line(const std::string& path) {
  auto text = read_file(path, kMaxSysfsBytes);
  if (text && text->ends_with('\n')) text->pop_back();
  return text;
}

Result<UniqueFd> open_counter(const std::string& path) {
  auto file = open_to_read(path);
  if (file) return file;
  Error error = file.error();
  if (error.code == Errc::denied) {
    error.cause = "only root may read the CPUs' energy, and gpuyard-marks did not open it";
    error.hint = "systemctl status gpuyard-marks.socket";
  }
  return error;
}

// sysfs makes the text for each read from the beginning. Errc::device_lost: the zone is gone.
Result<std::string> read_counter(const UniqueFd& file, const std::string& path) {
  std::array<char, kMaxSysfsBytes> bytes{};
  ssize_t got = -1;
  do {
    got = ::pread(file.get(), bytes.data(), bytes.size(), 0);
  } while (got < 0 && errno == EINTR);
  if (got < 0) {
    const bool gone = errno == ENODEV;
    Error error = system_error("reading " + path);
    if (gone) error.code = Errc::device_lost;
    return error;
  }
  std::string text(bytes.data(), static_cast<std::size_t>(got));
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

Result<std::int64_t> parse_microjoules(const Result<std::string>& line, const std::string& path) {
  if (!line) return line.error();
  const auto number = parse_number<std::int64_t>(*line);
  if (!number || *number < 0 || *number > kMaxMicrojoules) {
    return Error{Errc::internal, path + " does not contain a number of microjoules"};
  }
  return *number;
}

}  // namespace

Rapl::Rapl(std::string root) : root_(std::move(root)) {
  read();
}

Energies Rapl::read() {
  for (auto& [path, zone] : zones_) zone.seen = false;
  Energies energies;
  energies.taken = BootClock::now();
  std::error_code failed;
  std::vector<std::uint32_t> numbers;
  for (std::filesystem::directory_iterator entry(root_, failed), end; !failed && entry != end;
       entry.increment(failed)) {
    if (const auto number = number_of(entry->path().filename().string())) {
      numbers.push_back(*number);
    }
  }
  if (failed) energies.unavailable_reason = fmt::format("reading {}: {}", root_, failed.message());
  std::ranges::sort(numbers);
  for (const std::uint32_t number : numbers) {
    const std::string zone = fmt::format("{}/{}{}", root_, kPrefix, number);
    const auto name = read_line(zone + "/name");
    energies.packages.push_back({number, name ? *name : "", count(zone), count_dram(zone)});
  }
  if (numbers.empty() && !failed) {
    energies.unavailable_reason = fmt::format("no {}N in {}", kPrefix, root_);
  }
  // A zone that comes back has other files. Zones may still be there if the listing failed.
  for (auto& [path, zone] : zones_) {
    if (!zone.seen && !failed) zone.file.reset();
  }
  return energies;
}

Result<std::int64_t> Rapl::count(const std::string& path) {
  const std::string energy = path + "/energy_uj";
  Zone& zone = zones_[path];
  zone.seen = true;
  if (!zone.file) {
    auto file = open_counter(energy);
    if (!file) return file.error();
    zone.file = *std::move(file);
  }
  const auto line = read_counter(zone.file, energy);
  if (!line && line.error().code == Errc::device_lost) zone.file.reset();
  const auto raw = parse_microjoules(line, energy);
  if (!raw) return raw.error();
  const std::string limit = path + "/max_energy_range_uj";
  const auto range = parse_microjoules(read_line(limit), limit);
  return zone.counter.count(*raw, range ? std::optional(*range) : std::nullopt);
}

std::optional<Result<std::int64_t>> Rapl::count_dram(const std::string& package) {
  const std::string name = package.substr(package.rfind('/') + 1);
  for (std::uint32_t i = 0; i < kMaxSubzones; ++i) {
    const std::string zone = fmt::format("{}/{}:{}", package, name, i);
    const auto kind = read_line(zone + "/name");
    if (kind && *kind == "dram") return count(zone);
    if (!kind && kind.error().code == Errc::not_found) return std::nullopt;
  }
  return std::nullopt;
}

std::int64_t EnergyCounter::count(std::int64_t raw, std::optional<std::int64_t> range) {
  const auto last = std::exchange(last_, raw);
  if (last && raw >= *last) {
    total_ += raw - *last;
  } else if (last && range && *last <= *range) {
    total_ += *range - *last + raw;
  } else {
    total_ = raw;
  }
  return total_ = std::min(total_, kMaxMicrojoules);
}

CpuEnergyMonitor::CpuEnergyMonitor(Loop& loop, Worker& worker, std::string root)
    : loop_(loop), worker_(worker), rapl_(std::make_shared<Rapl>(std::move(root))) {
  latest_.unavailable_reason = "CPU energy has not been read yet";
}

void CpuEnergyMonitor::start() {
  read_periodically();
}

void CpuEnergyMonitor::read_periodically() {
  read_timer_ = loop_.call_after(kReadInterval, [this] { read_periodically(); });
  read_fresh([](const Result<Energies>&) {});
}

void CpuEnergyMonitor::read_fresh(OnRead on_done) {
  if (current_callers_.size() + next_callers_.size() >= kMaxCallers) {
    return loop_.post([on_done = std::move(on_done)] {
      on_done(Error{Errc::busy, "too many requests for CPU energy; try again later"});
    });
  }
  next_callers_.push_back(std::move(on_done));
  if (!read_timeout_) read_timeout_ = loop_.call_after(kReadTimeout, [this] { on_read_timeout(); });
  if (!reading_) start_read();
}

void CpuEnergyMonitor::start_read() {
  for (OnRead& on_done : std::exchange(next_callers_, {}))
    current_callers_.push_back(std::move(on_done));
  reading_ = run_on_worker(
      worker_, [rapl = rapl_] { return rapl->read(); },
      lifetime_.guard([this](Energies energies) { on_read(std::move(energies)); }));
}

void CpuEnergyMonitor::on_read(Energies energies) {
  reading_ = false;
  latest_ = std::move(energies);
  read_timeout_.reset();
  const auto callers = std::exchange(current_callers_, {});
  if (!next_callers_.empty()) {
    read_timeout_ = loop_.call_after(kReadTimeout, [this] { on_read_timeout(); });
    start_read();
  }
  notify_callers(callers, latest_);
}

// The worker did not start the reading in time, or is still busy. Its late answer becomes latest(),
// but no caller gets it.
void CpuEnergyMonitor::on_read_timeout() {
  read_timeout_.reset();
  auto callers = std::exchange(current_callers_, {});
  for (OnRead& on_done : std::exchange(next_callers_, {})) callers.push_back(std::move(on_done));
  notify_callers(callers, Error{Errc::timed_out, "reading the CPUs' energy took too long"});
}

void CpuEnergyMonitor::notify_callers(const std::vector<OnRead>& callers,
                                      const Result<Energies>& result) {
  for (const OnRead& on_done : callers) on_done(result);
}

Subscription CpuEnergyMonitor::subscribe(OnEnergies on_energies) {
  const std::uint64_t number = next_subscriber_++;
  subscribers_[number] = std::move(on_energies);
  if (!poll_timer_) poll_timer_ = loop_.call_after(Duration::zero(), [this] { poll(); });
  return Subscription(lifetime_.guard([this, number] {
    subscribers_.erase(number);
    if (subscribers_.empty()) poll_timer_.reset();
  }));
}

void CpuEnergyMonitor::poll() {
  poll_timer_ = loop_.call_after(kPeriod, [this] { poll(); });
  if (reading_) return;  // the worker is behind; the next poll reads again
  read_fresh(lifetime_.guard([this](const Result<Energies>& read) {
    if (!read) return;
    std::vector<std::uint64_t> due;
    for (const auto& [number, _] : subscribers_) due.push_back(number);
    for (const std::uint64_t number : due) {
      // A subscriber called before this one may have ended its own subscription, or others'.
      const auto listener = subscribers_.find(number);
      if (listener == subscribers_.end()) continue;
      const OnEnergies on_energies = listener->second;
      on_energies(*read);
    }
  }));
}

namespace {

// More than any machine draws: a larger value is no power.
constexpr std::int64_t kMaxMilliwatts = 1'000'000'000;

Result<std::int64_t> power_of(const Result<std::int64_t>& earlier,
                              const Result<std::int64_t>& later, std::int64_t microseconds) {
  if (!later) return later.error();
  if (!earlier) return earlier.error();
  if (microseconds <= 0) return Error{Errc::unavailable, "no time has passed between two readings"};
  if (*later < *earlier) {
    return Error{Errc::unavailable, "its energy counter was reset between two readings"};
  }
  const std::int64_t milliwatts = (*later - *earlier) / microseconds * 1000 +
                                  (*later - *earlier) % microseconds * 1000 / microseconds;
  if (milliwatts > kMaxMilliwatts) {
    return Error{Errc::internal, "its energy grew by more than a CPU can use"};
  }
  return milliwatts;
}

}  // namespace

std::vector<PackagePower> power_between(const Energies& earlier, const Energies& later) {
  const auto microseconds =
      std::chrono::duration_cast<std::chrono::microseconds>(later.taken - earlier.taken).count();
  const Error unknown{Errc::unavailable, "it was not present at the previous reading"};
  std::vector<PackagePower> powers;
  for (const PackageEnergy& now : later.packages) {
    const auto before = std::ranges::find(earlier.packages, now.number, &PackageEnergy::number);
    const bool known = before != earlier.packages.end();
    PackagePower power{now.number,
                       power_of(known ? before->energy_uj : unknown, now.energy_uj, microseconds),
                       std::nullopt};
    if (now.dram_uj) {
      power.dram_milliwatts = power_of(known && before->dram_uj ? *before->dram_uj : unknown,
                                       *now.dram_uj, microseconds);
    }
    powers.push_back(std::move(power));
  }
  return powers;
}

}  // namespace gpuyard::cpu
