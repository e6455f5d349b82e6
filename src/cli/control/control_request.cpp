#include "cli/control/control_request.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "base/text.h"
#include "base/try.h"
#include "cli/control/control_daemon.h"
#include "cli/shared_options.h"

namespace gpuyard::cli {
namespace {

using Requests = std::vector<ControlRequest>;
using ControlSubject = ControlVerb::Subject;

template <class Body>
Result<Requests> set(SettingKind kind, const SetRoute<Body>& route, const ControlVerb& verb,
                     Body request) {
  if (!verb.lifetime.empty()) {
    const auto length = parse_lifetime(verb.lifetime);
    if (!length) return Error(length.error()).in("--for");
    request.for_s = std::chrono::duration<double>(*length).count();
  }
  return Requests{make_set_request(display_name(kind), route, verb, std::move(request))};
}

Result<Requests> power(const ControlVerb& verb) {
  if (verb.restore) {
    return Requests{
        make_restore_request(SettingKind::power_limit, protocol::kRestorePowerLimit, verb)};
  }
  const auto limit = parse_watts(verb.value);
  if (!limit) return Error(limit.error()).in("WATTS");
  protocol::PowerLimitRequest request;
  request.power_limit_mw = *limit;
  return set(SettingKind::power_limit, protocol::kSetPowerLimit, verb, request);
}

Result<Requests> unlock(const ControlVerb& verb) {
  const std::string& which = verb.restored_clocks;
  Requests requests;
  if (which != "memory") {
    requests.push_back(
        make_restore_request(SettingKind::gpu_clocks, protocol::kRestoreGpuClocks, verb));
  }
  if (which != "gpu") {
    requests.push_back(
        make_restore_request(SettingKind::memory_clocks, protocol::kRestoreMemoryClocks, verb));
  }
  return requests;
}

Result<Requests> clocks(const ControlVerb& verb) {
  if (!verb.restored_clocks.empty()) return unlock(verb);
  Requests requests;
  const auto lock = [&](SettingKind kind, const SetRoute<protocol::LockedClocksRequest>& route,
                        const std::string& range, std::string_view flag) -> Result<void> {
    if (range.empty()) return {};
    const auto clocks = parse_clocks(range);
    if (!clocks) return Error(clocks.error()).in(flag);
    protocol::LockedClocksRequest request;
    request.min_clock_mhz = clocks->lowest;
    request.max_clock_mhz = clocks->highest;
    auto made = set(kind, route, verb, request);
    if (!made) return std::move(made).error().in(flag);
    requests.push_back(std::move(made->front()));
    return {};
  };
  using enum SettingKind;
  auto locked = lock(gpu_clocks, protocol::kSetGpuClocks, verb.gpu_clocks, "--gpu-clocks");
  if (locked) {
    locked = lock(memory_clocks, protocol::kSetMemoryClocks, verb.memory_clocks, "--memory-clocks");
  }
  if (!locked) return std::move(locked).error();
  if (requests.size() > 1 && verb.atomic) {
    return Error{Errc::invalid,
                 "--atomic cannot be used with both --gpu-clocks and --memory-clocks",
                 "it works for one kind of clocks at a time; lock them with two commands"};
  }
  return requests;
}

Result<Requests> on_off_requests(SettingKind kind, const SetRoute<protocol::EnableRequest>& route,
                                 const RestoreRoute& restore, const ControlVerb& verb) {
  if (verb.restore) return Requests{make_restore_request(kind, restore, verb)};
  const auto enabled = parse_on_off(verb.value);
  if (!enabled) return Error(enabled.error()).in("on|off");
  protocol::EnableRequest request;
  request.enabled = *enabled;
  return set(kind, route, verb, request);
}

Result<Requests> compute_mode(const ControlVerb& verb) {
  constexpr auto kKind = SettingKind::compute_mode;
  if (verb.restore)
    return Requests{make_restore_request(kKind, protocol::kRestoreComputeMode, verb)};
  protocol::ComputeModeRequest request;
  request.compute_mode = to_lower(verb.value);
  std::ranges::replace(request.compute_mode, '-', '_');
  if (!protocol::setting_of(request)) {
    return Error{Errc::invalid,
                 fmt::format("MODE: expected default, prohibited or exclusive_process; got \"{}\"",
                             verb.value)};
  }
  return set(kKind, protocol::kSetComputeMode, verb, request);
}

Result<Requests> ecc(const ControlVerb& verb) {
  if (verb.cleared_errors.empty()) {
    return on_off_requests(SettingKind::ecc, protocol::kSetEccMode, protocol::kRestoreEccMode,
                           verb);
  }
  protocol::ClearEccRequest request;
  request.counter = verb.cleared_errors;
  return Requests{make_set_request(fmt::format("clear {} ECC error counters", request.counter),
                                   protocol::kClearEcc, verb, request)};
}

struct SubjectInfo {
  std::string_view name;
  std::vector<SettingKind> settings;
  std::string_view value;  // the argument or the options with the value to set
};

const SubjectInfo& subject_info_of(ControlSubject subject) {
  using enum SettingKind;
  // In the order of the subjects.
  static const std::array kSubjects = {
      SubjectInfo{"power", {power_limit}, "WATTS"},
      SubjectInfo{"clocks", {gpu_clocks, memory_clocks}, "--gpu-clocks or --memory-clocks"},
      SubjectInfo{"persistence", {persistence}, "on|off"},
      SubjectInfo{"compute-mode", {compute_mode}, "MODE"},
      SubjectInfo{"ecc", {ecc}, "on|off"},
      SubjectInfo{"reset", {}, ""},
      SubjectInfo{"restore", {}, ""},
  };
  return kSubjects.at(static_cast<std::size_t>(subject));
}

bool has_change(const ControlVerb& verb) {
  return verb.subject == ControlSubject::reset || verb.subject == ControlSubject::restore ||
         verb.restore || !verb.value.empty() || !verb.gpu_clocks.empty() ||
         !verb.memory_clocks.empty() || !verb.restored_clocks.empty() ||
         !verb.cleared_errors.empty();
}

// "300W" alone names no GPU, and a verb that only shows takes no --yes.
Result<void> check_no_change(const ControlVerb& verb) {
  const std::string_view name = subject_info_of(verb.subject).name;
  const bool value = verb.subject == ControlSubject::power
                         ? verb.gpus.ends_with('W') || verb.gpus.ends_with('w')
                         : parse_on_off(verb.gpus).ok();
  if (value) {
    return Error{Errc::invalid, fmt::format("\"{}\" is a value, not a GPU", verb.gpus), "",
                 fmt::format("gpuyard {} all {}  # sets it on all GPUs", name, verb.gpus)};
  }
  const bool changes = verb.atomic || verb.force || verb.dry_run || verb.yes || verb.detach ||
                       !verb.lifetime.empty();
  if (!changes) return {};
  const bool watts = verb.subject == ControlSubject::power && parse_watts(verb.gpus);
  return Error{Errc::invalid,
               fmt::format("{} needs GPU,... and {}", name, subject_info_of(verb.subject).value),
               "",
               watts ? fmt::format("gpuyard power all {} --yes", verb.gpus)
                     : fmt::format("gpuyard {} --help", name)};
}

constexpr double kMaxWatts = 1e6;
constexpr std::int64_t kMaxMhz = 1'000'000;

// Reads the number before `unit`. The unit may be missing or stand apart.
template <class Number>
std::optional<Number> number_of(std::string_view text, std::string_view unit) {
  const auto number = take_number<Number>(text);
  while (text.starts_with(' ')) text.remove_prefix(1);
  return text.empty() || equals_ignoring_case(text, unit) ? number : std::nullopt;
}

std::optional<std::int64_t> megahertz_of(std::string_view text) {
  const auto clock = number_of<std::int64_t>(text, "MHz");
  return clock && *clock > 0 && *clock <= kMaxMhz ? clock : std::nullopt;
}

}  // namespace

Result<Requests> requests_of(const ControlVerb& verb) {
  if (!has_change(verb)) {
    GPUYARD_TRY(check_no_change(verb));
    return Requests{};
  }
  if (verb.gpus.empty()) {
    if (verb.subject == ControlSubject::restore) {
      return Error{Errc::invalid, "restore needs GPU,... or --all", "", "gpuyard restore --all"};
    }
    return Error{Errc::invalid, fmt::format("{} needs GPU,...", name_of(verb.subject)), "",
                 fmt::format("gpuyard {} --help", name_of(verb.subject))};
  }
  switch (verb.subject) {
    case ControlSubject::power:
      return power(verb);
    case ControlSubject::clocks:
      return clocks(verb);
    case ControlSubject::persistence:
      return on_off_requests(SettingKind::persistence, protocol::kSetPersistence,
                             protocol::kRestorePersistence, verb);
    case ControlSubject::compute_mode:
      return compute_mode(verb);
    case ControlSubject::ecc:
      return ecc(verb);
    case ControlSubject::reset:
      return Requests{make_reset_request(verb)};
    case ControlSubject::restore:
      break;
  }
  return Requests{
      make_set_request("settings", protocol::kRestoreAll, verb, protocol::ChangeOptions{})};
}

std::vector<SettingKind> settings_of(ControlSubject subject) {
  return subject_info_of(subject).settings;
}

std::string_view name_of(ControlSubject subject) {
  return subject_info_of(subject).name;
}

Result<std::int64_t> parse_watts(std::string_view text) {
  const auto watts = number_of<double>(text, "W");
  // The condition also refuses not-a-number.
  if (!watts || !(*watts > 0 && *watts <= kMaxWatts)) {
    return Error{
        Errc::invalid,
        fmt::format("expected a power limit in watts, such as 300, 300W or 287.5; got \"{}\"",
                    text)};
  }
  constexpr double kMilli = 1000;
  return static_cast<std::int64_t>(std::llround(*watts * kMilli));
}

Result<SettingValue> parse_clocks(std::string_view text) {
  const auto parts = split(text, ',');
  const auto lowest = megahertz_of(parts.front());
  const auto highest = megahertz_of(parts.back());
  if (parts.size() > 2 || !lowest || !highest) {
    return Error{Errc::invalid, fmt::format("expected clocks in MHz as MIN,MAX, such as 1200,1500, "
                                            "or one value for both; got \"{}\"",
                                            text)};
  }
  if (*lowest > *highest) {
    return Error{Errc::invalid, fmt::format("MIN is above MAX in {},{}", *lowest, *highest)};
  }
  return SettingValue{*lowest, *highest};
}

Result<bool> parse_on_off(std::string_view text) {
  if (equals_ignoring_case(text, "on")) return true;
  if (equals_ignoring_case(text, "off")) return false;
  return Error{Errc::invalid, fmt::format("expected on or off; got \"{}\"", text)};
}

}  // namespace gpuyard::cli
