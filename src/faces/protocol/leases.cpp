// What the bodies of leases mean: checked, in the units that leasing has.
#include "protocol/leases.h"

#include <algorithm>
#include <array>
#include <csignal>

#include <fmt/format.h>

namespace gpuyard::protocol {
namespace {

using std::chrono::hours;

// Nobody means more, and it is far from what a Duration holds.
constexpr Duration kYear = hours(366 * 24);

Result<Duration> duration_of(std::string_view field, double given, Duration most) {
  const double limit = std::chrono::duration<double>(most).count();
  if (!(given >= 0) || given > limit) {
    return Error{Errc::invalid, fmt::format("/{}: from 0 to {:.0f} seconds", field, limit)};
  }
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(given));
}

Result<std::optional<Duration>> optional_duration(std::string_view field,
                                                  const std::optional<double>& given) {
  if (!given) return std::optional<Duration>();
  auto duration = duration_of(field, *given, kYear);
  if (!duration) return std::move(duration).error();
  return std::optional(*duration);
}

Result<unsigned> count_of(const LeaseWish& wish) {
  const std::int64_t gpus = wish.gpus.value_or(1);
  if (gpus >= 1 && gpus <= static_cast<std::int64_t>(lease::kMostGpus)) {
    return static_cast<unsigned>(gpus);
  }
  return Error{Errc::invalid, fmt::format("/gpus: from 1 to {}", lease::kMostGpus)};
}

// In one order, so that the same claim made again is the same.
Result<std::vector<DeviceId>> among_of(const LeaseWish& wish, const gpuyard::Snapshot& snapshot,
                                       const lease::Wish* known) {
  std::vector<DeviceId> ids;
  if (!wish.among) return ids;
  if (wish.among->empty()) {
    return Error{Errc::invalid, "/among: names no GPU; leave it out for all"};
  }
  if (wish.among->size() > lease::kMostGpus) {
    return Error{Errc::invalid, fmt::format("/among: at most {} names", lease::kMostGpus)};
  }
  // An index may be another GPU's by now; a UUID is the same for ever.
  const auto may_be_of_known = [&](const GpuName& name) {
    const bool index = std::ranges::all_of(name.text, [](char c) { return c >= '0' && c <= '9'; });
    return index || std::ranges::find(known->among, name.text) != known->among.end();
  };
  if (known && wish.among->size() == known->among.size() &&
      std::ranges::all_of(*wish.among, may_be_of_known)) {
    return known->among;
  }
  if (!snapshot.driver.initialised) return Error{Errc::unavailable, snapshot.driver.why};
  for (const GpuName& name : *wish.among) {
    auto found = find_device(snapshot, name.text);
    if (!found) return std::move(found).error().in("/among");
    ids.push_back((*found)->info.id);
  }
  std::ranges::sort(ids);
  ids.erase(std::ranges::unique(ids).begin(), ids.end());
  return ids;
}

Result<lease::Binding> binding_of(const LeaseWish& wish) {
  const auto binding = wish.binding ? enum_from_name<lease::Binding>(*wish.binding)
                                    : std::optional(lease::Binding::process);
  if (binding) return *binding;
  return Error{Errc::invalid, "/binding: can be \"process\", \"run\" or \"detached\""};
}

Result<Duration> ttl_of(const LeaseWish& wish, lease::Binding binding) {
  const bool detached = binding == lease::Binding::detached;
  if (detached != wish.ttl_s.has_value()) {
    return Error{Errc::invalid, detached ? "/ttl_s: a detached lease needs one, in seconds"
                                         : "/ttl_s: only a detached lease has one"};
  }
  return duration_of("ttl_s", wish.ttl_s.value_or(0), kYear);
}

Result<void> check_texts(const LeaseWish& wish) {
  if (wish.id) {
    if (auto fits = lease::check_id(*wish.id); !fits) return std::move(fits).error().in("/id");
  }
  if (auto fits = check_length("/note", wish.note.value_or(""), kLongestNote); !fits) return fits;
  return check_length("/model", wish.model.value_or(""), kLongestModel);
}

// The rest of a wish, once its words are known to make sense.
Result<lease::Wish> with_times(lease::Wish wish, const LeaseWish& asked) {
  const auto longest = optional_duration("max_time_s", asked.max_time_s);
  if (!longest) return longest.error();
  const auto patience = optional_duration("wait_s", asked.wait_s);
  if (!patience) return patience.error();
  const auto ttl = ttl_of(asked, wish.binding);
  if (!ttl) return ttl.error();
  wish.longest = *longest;
  wish.patience = *patience;
  wish.ttl = *ttl;
  if (auto sensible = check(wish); !sensible) return std::move(sensible).error();
  return wish;
}

}  // namespace

Result<void> check_length(std::string_view field, std::string_view text, std::size_t most) {
  if (text.size() <= most) return {};
  return Error{Errc::invalid, fmt::format("{}: at most {} bytes", field, most)};
}

Result<lease::Wish> wish_of(const LeaseWish& asked, const gpuyard::Snapshot& snapshot,
                            const lease::Wish* known) {
  if (auto fits = check_texts(asked); !fits) return std::move(fits).error();
  const auto count = count_of(asked);
  if (!count) return count.error();
  const auto binding = binding_of(asked);
  if (!binding) return binding.error();
  auto among = among_of(asked, snapshot, known);
  if (!among) return std::move(among).error();
  lease::Wish wish;
  wish.gpus = *count;
  wish.min_free_bytes = asked.min_free_bytes.value_or(0);
  wish.model = asked.model.value_or("");
  wish.among = *std::move(among);
  wish.binding = *binding;
  wish.note = asked.note.value_or("");
  return with_times(std::move(wish), asked);
}

Result<Duration> answer_within_of(const LeaseWish& wish) {
  if (!wish.answer_within_s) return kUsualAnswer;
  return duration_of("answer_within_s", *wish.answer_within_s, kLatestAnswer);
}

Result<int> signal_of(std::string_view name) {
  struct Signal {
    std::string_view name;
    int number;
  };
  static constexpr std::array<Signal, 4> kSignals{
      {{"TERM", SIGTERM}, {"INT", SIGINT}, {"HUP", SIGHUP}, {"KILL", SIGKILL}}};
  for (const Signal& one : kSignals) {
    if (one.name == name) return one.number;
  }
  return Error{Errc::invalid, "a signal can be TERM, INT, HUP or KILL"};
}

Result<Duration> ttl_of(const RenewWish& wish) {
  return duration_of("ttl_s", wish.ttl_s, lease::kLongestTtl);
}

}  // namespace gpuyard::protocol
