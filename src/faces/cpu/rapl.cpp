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
#include "base/try.h"

namespace gpuyard::cpu {
namespace {

constexpr std::size_t kMaxSysfsBytes = 64;  // of a file in sysfs that holds a number or a name
constexpr std::string_view kPrefix = "intel-rapl:";

// Returns the N of "intel-rapl:N"; nothing for "intel-rapl:N:M", "intel-rapl-mmio:N" and all else.
std::optional<std::uint32_t> number_of(std::string_view name) {
  if (!take_prefix(name, kPrefix)) return std::nullopt;
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
    auto file = GPUYARD_TRY(open_counter(energy));
    zone.file = std::move(file);
  }
  const auto line = read_counter(zone.file, energy);
  if (!line && line.error().code == Errc::device_lost) zone.file.reset();
  const auto raw = GPUYARD_TRY(parse_microjoules(line, energy));
  const std::string limit = path + "/max_energy_range_uj";
  const auto range = parse_microjoules(read_line(limit), limit);
  return zone.counter.count(raw, range ? std::optional(*range) : std::nullopt);
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
