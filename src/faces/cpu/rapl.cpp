#include "cpu/rapl.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

#include "base/files.h"

namespace gpuyard::cpu {
namespace {

constexpr std::size_t kMostBytes = 64;  // of a file in sysfs that holds a number or a name
constexpr std::string_view kPrefix = "intel-rapl:";

// The N of "intel-rapl:N"; nothing for "intel-rapl:N:M", "intel-rapl-mmio:N" and all else.
std::optional<std::uint32_t> number_of(std::string_view name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  std::uint32_t number = 0;
  const auto parsed = std::from_chars(name.data(), name.data() + name.size(), number);
  const bool whole = parsed.ec == std::errc{} && parsed.ptr == name.data() + name.size();
  return whole && number < Rapl::kMostPackages ? std::optional(number) : std::nullopt;
}

Result<std::string> read_line(const std::string& path) {
  auto text = read_file(path, kMostBytes);
  if (!text) {
    Error error = std::move(text).error();
    if (error.code == Errc::denied) {
      error.message +=
          "; the kernel shows CPU energy to root alone, so run the daemon as root or "
          "give it CAP_DAC_READ_SEARCH";
    }
    return error;
  }
  if (text->ends_with('\n')) text->pop_back();
  return text;
}

Result<std::int64_t> read_microjoules(const std::string& path) {
  const auto line = read_line(path);
  if (!line) return line.error();
  std::int64_t number = 0;
  const auto parsed = std::from_chars(line->data(), line->data() + line->size(), number);
  const bool whole = parsed.ec == std::errc{} && parsed.ptr == line->data() + line->size();
  if (!whole || number < 0 || number > kMostMicrojoules) {
    return Error{Errc::internal, path + " holds no number of microjoules"};
  }
  return number;
}

}  // namespace

Energies Rapl::read() {
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
  if (failed) energies.why_none = fmt::format("reading {}: {}", root_, failed.message());
  std::ranges::sort(numbers);
  for (const std::uint32_t number : numbers) {
    const std::string zone = fmt::format("{}/{}{}", root_, kPrefix, number);
    const auto name = read_line(zone + "/name");
    energies.packages.push_back({number, name ? *name : "", count(zone), count_dram(zone)});
  }
  if (numbers.empty() && !failed) {
    energies.why_none = fmt::format("there is no {}N in {}", kPrefix, root_);
  }
  return energies;
}

Result<std::int64_t> Rapl::count(const std::string& zone) {
  const auto raw = read_microjoules(zone + "/energy_uj");
  if (!raw) return raw.error();
  const auto range = read_microjoules(zone + "/max_energy_range_uj");
  return counters_[zone].count(*raw, range ? std::optional(*range) : std::nullopt);
}

std::optional<Result<std::int64_t>> Rapl::count_dram(const std::string& package) {
  const std::string name = package.substr(package.rfind('/') + 1);
  for (std::uint32_t i = 0; i < kMostSubzones; ++i) {
    const std::string zone = fmt::format("{}/{}:{}", package, name, i);
    const auto kind = read_line(zone + "/name");
    if (kind && *kind == "dram") return count(zone);
    if (!kind && kind.error().code == Errc::not_found) return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace gpuyard::cpu
