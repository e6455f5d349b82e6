#include "cli/lease/lease_text.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "base/printable.h"
#include "cli/screen/reading_text.h"

namespace gpuyard::cli {
namespace {

using gpuyard::lease::Ending;
using protocol::Lease;

constexpr double kMillijoules = 1000;
constexpr double kNoticeable = 1;  // readings lag behind the edges by their own duration anyway

std::string gpus_wanted(const Lease& lease) {
  return lease.wanted_gpus == 1 ? "a GPU" : fmt::format("{} GPUs", lease.wanted_gpus);
}

std::string with_why(const std::string& text, const std::string& why) {
  return why.empty() ? text : text + ": " + printable(why);
}

// A sentence of the daemon's as a part of ours.
std::string clause(const std::string& sentence) {
  std::string text = printable(sentence);
  while (text.ends_with('.')) text.pop_back();
  return text;
}

std::string energy_text(const protocol::LeaseUse& use) {
  if (!use.energy_mj) return "energy not known";
  std::string text = joules_text(static_cast<double>(*use.energy_mj) / kMillijoules);
  if (use.energy_estimated) text += " (estimated)";
  if (use.energy_unknown_s >= kNoticeable) {
    text += fmt::format(" ({} of GPU time not known)", length_text(use.energy_unknown_s));
  }
  return text;
}

}  // namespace

std::string index_text(const std::optional<std::uint32_t>& index) {
  return index ? std::to_string(*index) : std::string(kNothing);
}

std::string gpus_text(const std::vector<protocol::LeasedGpu>& gpus) {
  std::vector<std::string> indexes;
  std::set<std::string> names;
  for (const protocol::LeasedGpu& gpu : gpus) {
    indexes.push_back(index_text(gpu.index));
    names.insert(short_name(printable(gpu.name)));
  }
  return fmt::format("{} {} ({})", gpus.size() == 1 ? "GPU" : "GPUs", fmt::join(indexes, ", "),
                     fmt::join(names, ", "));
}

std::string length_text(double seconds) {
  constexpr std::int64_t kMinute = 60;
  constexpr std::int64_t kHour = 60 * kMinute;
  constexpr std::int64_t kDay = 24 * kHour;
  constexpr double kShort = 9.95;
  if (seconds < kShort) return fmt::format("{:.1f} s", std::max(seconds, 0.0));
  const auto whole = static_cast<std::int64_t>(std::llround(seconds));
  if (whole < 2 * kMinute) return fmt::format("{} s", whole);
  if (whole < 2 * kHour) return fmt::format("{} min", (whole + kMinute / 2) / kMinute);
  if (whole < 2 * kDay) {
    return fmt::format("{} h {:02} min", whole / kHour, whole % kHour / kMinute);
  }
  return fmt::format("{} d {} h", whole / kDay, whole % kDay / kHour);
}

std::string waiting_text(const Lease& lease) {
  std::string text = "waiting for " + gpus_wanted(lease);
  if (!lease.place) return text;
  text += fmt::format(": place {}, {}", lease.place->position, clause(lease.place->text));
  if (lease.place->expected_s) text += "; about " + length_text(*lease.place->expected_s);
  return text;
}

Error unmet(const Lease& lease, const std::optional<protocol::LeasePlace>& place) {
  const std::string why = !lease.why.empty() ? lease.why : place ? clause(place->text) : "";
  switch (lease.ending.value_or(Ending::cancelled)) {
    case Ending::none_free:
      return {Errc::conflict, with_why(gpus_wanted(lease) + " cannot be had now", why) +
                                  "; `gpuyard queue` and `gpuyard leases` say who has them"};
    case Ending::gave_up:
      return {Errc::conflict, with_why("waited in vain for " + gpus_wanted(lease), why)};
    case Ending::node_reboot:
    case Ending::unreachable:
      return {Errc::conflict, with_why("lost the place in the queue", why)};
    default:
      return {Errc::conflict, with_why("the place in the queue was given up by somebody", why)};
  }
}

std::string ending_text(const Lease& lease) {
  switch (lease.ending.value_or(Ending::released)) {
    case Ending::forced:
      return with_why("an administrator ended the lease", lease.why);
    case Ending::expired:
      return with_why("the lease has expired", lease.why);
    case Ending::released:
    case Ending::cancelled:
      return with_why("the lease was released", lease.why);
    default:
      return with_why("the lease has ended", lease.why);
  }
}

std::string summary_text(const Lease& lease, double seconds) {
  std::string text = fmt::format("{} on {}", length_text(seconds), gpus_text(lease.gpus));
  if (!lease.use) return text + "; what it used is not known";
  text += ", " + energy_text(*lease.use);
  text += lease.use->peak_memory_bytes ? ", peak " + bytes_text(*lease.use->peak_memory_bytes)
                                       : ", peak memory not known";
  text += lease.use->mean_utilization_percent
              ? fmt::format(", mean utilisation {:.0f} %", *lease.use->mean_utilization_percent)
              : ", utilisation not known";
  return text;
}

}  // namespace gpuyard::cli
