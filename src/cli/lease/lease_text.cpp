#include "cli/lease/lease_text.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/files.h"
#include "base/identifiers.h"
#include "base/paths.h"
#include "base/saturated.h"
#include "base/text.h"
#include "base/try.h"
#include "cli/screen/reading_text.h"
#include "cli/shared_options.h"

namespace gpuyard::cli {
namespace {

using gpuyard::lease::EndReason;
using protocol::Lease;

constexpr double kMillijoules = 1000;

std::string gpus_wanted(const Lease& lease) {
  return lease.wanted_gpus == 1 ? "a GPU" : fmt::format("{} GPUs", lease.wanted_gpus);
}

std::string with_reason(const std::string& text, const std::string& why) {
  return why.empty() ? text : text + ": " + printable(why);
}

// Turns the daemon's sentence into a part of ours.
std::string clause(const std::string& sentence) {
  std::string text = printable(sentence);
  while (text.ends_with('.')) text.pop_back();
  return text;
}

std::string energy_text(const protocol::LeaseUsage& use) {
  if (!use.energy_mj) return "energy unknown";
  std::string text = joules_text(static_cast<double>(*use.energy_mj) / kMillijoules);
  if (use.estimated) text += " (estimated)";
  // Readings lag behind by their own duration anyway.
  constexpr Duration kMinUnknown = std::chrono::seconds(1);
  if (use.unknown >= kMinUnknown) {
    text += fmt::format(" ({} of GPU time not measured)", length_text(to_seconds(use.unknown)));
  }
  return text;
}

std::string option_words(const char* option, const ClaimOptions& wanted) {
  const std::string value = wanted.typed_value(option);
  return value.empty() ? "" : fmt::format(" {} {}", option, quote_shell_word(value));
}

}  // namespace

std::string index_text(const std::optional<std::uint32_t>& index) {
  return index ? std::to_string(*index) : std::string(kNothing);
}

std::string indexes_text(const std::vector<protocol::LeasedGpu>& gpus, std::string_view separator) {
  std::vector<std::string> indexes;
  for (const protocol::LeasedGpu& gpu : gpus)
    indexes.push_back(gpu.index ? index_text(gpu.index) : printable(gpu.uuid));
  return fmt::format("{}", fmt::join(indexes, separator));
}

std::string holder_text(const protocol::Lease& lease) {
  return lease.pod.empty() ? lease.user.value_or(std::to_string(lease.uid)) : lease.pod;
}

std::string gpus_text(const std::vector<protocol::LeasedGpu>& gpus) {
  std::set<std::string> names;
  for (const protocol::LeasedGpu& gpu : gpus) names.insert(short_name(printable(gpu.name)));
  return fmt::format("{} {} ({})", gpus.size() == 1 ? "GPU" : "GPUs", indexes_text(gpus, ", "),
                     fmt::join(names, ", "));
}

std::string length_text(double seconds) {
  constexpr std::int64_t kMinute = 60;
  constexpr std::int64_t kHour = 60 * kMinute;
  constexpr std::int64_t kDay = 24 * kHour;
  constexpr double kShort = 9.95;
  if (seconds < kShort) return fmt::format("{:.1f} s", std::max(seconds, 0.0));
  const auto whole = saturated_cast<std::int64_t>(std::round(seconds));
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
  text += fmt::format(": position {}, {}", lease.place->position, clause(lease.place->text));
  if (lease.place->expected_s) text += "; wait about " + length_text(*lease.place->expected_s);
  return text;
}

std::string number_of_gpus(std::int64_t count) {
  return fmt::format("{} GPU{}", count, count == 1 ? "" : "s");
}

std::string filter_words(const ClaimOptions& wanted) {
  return option_words("--min-free", wanted) + option_words("--model", wanted) +
         option_words("--among", wanted);
}

std::string waiting_words(const ClaimOptions& wanted) {
  return fmt::format("{}{}{} --wait 1h", *wanted.request.gpus, filter_words(wanted),
                     option_words("--max-time", wanted));
}

Error claim_error(const Lease& lease, const std::optional<protocol::QueuePosition>& position,
                  const std::string& queue_command) {
  const std::string why = !lease.detail.empty() ? lease.detail
                          : position            ? clause(position->text)
                                                : "";
  switch (lease.end_reason.value_or(EndReason::cancelled)) {
    case EndReason::none_free:
      return {Errc::conflict, gpus_wanted(lease) + " cannot be leased now", why, queue_command};
    case EndReason::gave_up:
      return {Errc::conflict, "timed out waiting for " + gpus_wanted(lease), why};
    case EndReason::node_reboot:
    case EndReason::unreachable:
      return {Errc::conflict, "the claim lost its position in the queue", why};
    default:
      return {Errc::conflict, "the claim was cancelled", why};
  }
}

std::string ending_text(const Lease& lease) {
  switch (lease.end_reason.value_or(EndReason::released)) {
    case EndReason::forced:
      return with_reason("an administrator ended the lease", lease.detail);
    case EndReason::expired:
      return with_reason("the lease expired", lease.detail);
    case EndReason::released:
    case EndReason::cancelled:
      return with_reason("the lease was released", lease.detail);
    default:
      return with_reason("the lease has ended", lease.detail);
  }
}

std::string summary_text(const Lease& lease, double seconds) {
  std::string text = fmt::format("{} on {}", length_text(seconds), gpus_text(lease.gpus));
  if (!lease.use) return text + "; usage unknown";
  text += ", " + energy_text(*lease.use);
  text += lease.use->peak_bytes ? ", peak " + bytes_text(*lease.use->peak_bytes)
                                : ", peak memory unknown";
  text += lease.use->mean_utilization_percent
              ? fmt::format(", mean utilisation {:.0f} %", *lease.use->mean_utilization_percent)
              : ", utilisation unknown";
  return text;
}

std::string note_of(std::string_view text) {
  std::string note;
  while (!text.empty()) {
    const std::size_t length = utf8_sequence_length(text);
    const std::string_view next = length > 0 ? text.substr(0, length) : kReplacementCharacter;
    if (note.size() + next.size() > protocol::kMaxNoteBytes) break;
    note += next;
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return note;
}

protocol::LeaseRequest new_claim(const ClaimOptions& wanted, const char* binding) {
  protocol::LeaseRequest request = wanted.request;
  request.id = new_id();
  request.binding = binding;
  return request;
}

protocol::FreeQuery free_query_of(const ClaimOptions& wanted) {
  return {wanted.request.gpus, wanted.request.min_free_bytes, wanted.request.model};
}

Result<NamedLease> named_lease(const std::string& id) {
  const std::string own(environment_variable("GPUYARD_LEASE"));
  NamedLease named{id.empty() ? own : id, std::nullopt};
  if (named.id.empty()) {
    return Error{Errc::invalid, "no lease given, and GPUYARD_LEASE is not set", "",
                 "gpuyard leases"};
  }
  GPUYARD_TRY(gpuyard::lease::check_name(named.id));
  if (named.id == own)
    named.fence = parse_number<std::uint64_t>(environment_variable("GPUYARD_FENCE"));
  return named;
}

std::optional<gpuyard::usage::UsageGrouping> usage_grouping_of(std::string by) {
  if (by == "namespace") return gpuyard::usage::UsageGrouping::pod_namespace;
  std::ranges::replace(by, '-', '_');
  return enum_from_name<gpuyard::usage::UsageGrouping>(by);
}

}  // namespace gpuyard::cli
