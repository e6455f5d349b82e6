#include "cli/control/control_request.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/ascii.h"
#include "cli/control/control_asking.h"
#include "cli/control/control_words.h"
#include "cli/words.h"

namespace gpuyard::cli {
namespace {

using Requests = std::vector<ControlRequest>;
using ControlSubject = ControlVerb::Subject;

template <class Wish>
Result<Requests> set(SettingKind kind, const SetRoute<Wish>& route, const ControlVerb& verb,
                     Wish wish) {
  if (!verb.lifetime.empty()) {
    const auto length = parse_lifetime(verb.lifetime);
    if (!length) return Error(length.error()).in("--for");
    wish.for_s = std::chrono::duration<double>(*length).count();
  }
  return Requests{ask_for(words_of(kind), route, verb, std::move(wish))};
}

Result<Requests> power(const ControlVerb& verb) {
  if (verb.restore) {
    return Requests{give_up(SettingKind::power_limit, protocol::kRestorePowerLimit, verb)};
  }
  const auto limit = parse_watts(verb.value);
  if (!limit) return limit.error();
  protocol::PowerLimitWish wish;
  wish.power_limit_mw = *limit;
  return set(SettingKind::power_limit, protocol::kSetPowerLimit, verb, wish);
}

Result<Requests> lock(SettingKind kind, const SetRoute<protocol::ClocksWish>& route,
                      const ControlVerb& verb, const std::string& range) {
  const auto clocks = parse_clocks(range);
  if (!clocks) return clocks.error();
  protocol::ClocksWish wish;
  wish.min_clock_mhz = clocks->lowest_mhz;
  wish.max_clock_mhz = clocks->highest_mhz;
  return set(kind, route, verb, wish);
}

Result<Requests> unlock(const ControlVerb& verb) {
  const std::string& which = verb.restored_clocks;
  Requests requests;
  if (which != "memory") {
    requests.push_back(give_up(SettingKind::gpu_clocks, protocol::kRestoreGpuClocks, verb));
  }
  if (which != "gpu") {
    requests.push_back(give_up(SettingKind::memory_clocks, protocol::kRestoreMemoryClocks, verb));
  }
  return requests;
}

Result<Requests> clocks(const ControlVerb& verb) {
  if (!verb.restored_clocks.empty()) return unlock(verb);
  Requests requests;
  const auto add = [&](SettingKind kind, const SetRoute<protocol::ClocksWish>& route,
                       const std::string& range) -> Result<void> {
    if (range.empty()) return {};
    auto made = lock(kind, route, verb, range);
    if (!made) return std::move(made).error();
    requests.push_back(std::move(made->front()));
    return {};
  };
  if (auto added = add(SettingKind::gpu_clocks, protocol::kSetGpuClocks, verb.gpu_clocks); !added) {
    return std::move(added).error().in("--gpu");
  }
  if (auto added = add(SettingKind::memory_clocks, protocol::kSetMemoryClocks, verb.memory_clocks);
      !added) {
    return std::move(added).error().in("--memory");
  }
  if (requests.size() > 1 && verb.atomic) {
    return Error{Errc::invalid,
                 "--atomic is for one kind of clocks at a time: lock the GPU's and "
                 "the memory's with two commands"};
  }
  return requests;
}

Result<Requests> switched(SettingKind kind, const SetRoute<protocol::EnabledWish>& route,
                          const RestoreRoute& restore, const ControlVerb& verb) {
  if (verb.restore) return Requests{give_up(kind, restore, verb)};
  const auto enabled = parse_on_off(verb.value);
  if (!enabled) return Error(enabled.error()).in(std::string(words_of(kind)));
  protocol::EnabledWish wish;
  wish.enabled = *enabled;
  return set(kind, route, verb, wish);
}

Result<Requests> compute_mode(const ControlVerb& verb) {
  constexpr auto kKind = SettingKind::compute_mode;
  if (verb.restore) return Requests{give_up(kKind, protocol::kRestoreComputeMode, verb)};
  protocol::ComputeModeWish wish;
  wish.compute_mode = to_lower(verb.value);
  std::ranges::replace(wish.compute_mode, '-', '_');
  if (!protocol::setting_of(wish)) {
    return Error{Errc::invalid, fmt::format("a compute mode is default, prohibited or "
                                            "exclusive_process; \"{}\" is none",
                                            verb.value)};
  }
  return set(kKind, protocol::kSetComputeMode, verb, wish);
}

Result<Requests> ecc(const ControlVerb& verb) {
  if (verb.cleared_errors.empty()) {
    return switched(SettingKind::ecc, protocol::kSetEccMode, protocol::kRestoreEccMode, verb);
  }
  protocol::ClearEccWish wish;
  wish.counter = verb.cleared_errors;
  return Requests{ask_for(fmt::format("clear the {} counters of memory errors", wish.counter),
                          protocol::kClearEcc, verb, wish)};
}

bool wants_change(const ControlVerb& verb) {
  return verb.subject == ControlSubject::reset || verb.subject == ControlSubject::restore ||
         verb.restore || !verb.value.empty() || !verb.gpu_clocks.empty() ||
         !verb.memory_clocks.empty() || !verb.restored_clocks.empty() ||
         !verb.cleared_errors.empty();
}

// "300W" alone names no GPU; and a table is no place for --yes.
Result<void> check_nothing_wanted(const ControlVerb& verb) {
  const bool value = verb.subject == ControlSubject::power
                         ? verb.gpus.ends_with('W') || verb.gpus.ends_with('w')
                         : parse_on_off(verb.gpus).ok();
  if (value) {
    return Error{Errc::invalid, fmt::format("\"{}\" names no GPU; for all of them: gpuyard {} all "
                                            "{}",
                                            verb.gpus, name_of(verb.subject), verb.gpus)};
  }
  if (verb.atomic || verb.force || verb.dry_run || verb.yes || verb.no_wait ||
      !verb.lifetime.empty()) {
    return Error{Errc::invalid,
                 fmt::format("nothing was said that should be changed; gpuyard {} --help says how",
                             name_of(verb.subject))};
  }
  return {};
}

}  // namespace

Result<Requests> requests_of(const ControlVerb& verb) {
  if (!wants_change(verb)) {
    if (auto right = check_nothing_wanted(verb); !right) return std::move(right).error();
    return Requests{};
  }
  if (verb.gpus.empty()) {
    return Error{Errc::invalid,
                 "say which GPUs: indexes, UUIDs or PCI addresses with commas, or all"};
  }
  switch (verb.subject) {
    case ControlSubject::power:
      return power(verb);
    case ControlSubject::clocks:
      return clocks(verb);
    case ControlSubject::persistence:
      return switched(SettingKind::persistence, protocol::kSetPersistence,
                      protocol::kRestorePersistence, verb);
    case ControlSubject::compute_mode:
      return compute_mode(verb);
    case ControlSubject::ecc:
      return ecc(verb);
    case ControlSubject::reset:
      return Requests{reset_gpu(verb)};
    case ControlSubject::restore:
      break;
  }
  return Requests{ask_for("settings", protocol::kRestoreAll, verb, protocol::ChangeWish{})};
}

std::vector<SettingKind> settings_of(ControlSubject subject) {
  switch (subject) {
    case ControlSubject::power:
      return {SettingKind::power_limit};
    case ControlSubject::clocks:
      return {SettingKind::gpu_clocks, SettingKind::memory_clocks};
    case ControlSubject::persistence:
      return {SettingKind::persistence};
    case ControlSubject::compute_mode:
      return {SettingKind::compute_mode};
    case ControlSubject::ecc:
      return {SettingKind::ecc};
    case ControlSubject::reset:
    case ControlSubject::restore:
      break;
  }
  return {};
}

std::string_view name_of(ControlSubject subject) {
  switch (subject) {
    case ControlSubject::power:
      return "power";
    case ControlSubject::clocks:
      return "clocks";
    case ControlSubject::persistence:
      return "persistence";
    case ControlSubject::compute_mode:
      return "compute-mode";
    case ControlSubject::ecc:
      return "ecc";
    case ControlSubject::reset:
      return "reset";
    case ControlSubject::restore:
      break;
  }
  return "restore";
}

}  // namespace gpuyard::cli
