#include "cli/shared_options.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include <fmt/format.h>

#include "base/local_time.h"
#include "base/text.h"
#include "base/try.h"
#include "cli/help.h"
#include "sim/workload.h"

namespace gpuyard::cli {
namespace {

constexpr int kMaxLeaseGpus = 256;

struct UnitOfTime {
  std::string_view name;
  double seconds;
};
constexpr std::array kTimeUnits = {UnitOfTime{"", 1},     UnitOfTime{"ms", 1e-3},
                                   UnitOfTime{"s", 1},    UnitOfTime{"m", 60},
                                   UnitOfTime{"h", 3600}, UnitOfTime{"d", 86400}};

using Units = std::span<const UnitOfTime>;
constexpr Units kUnitsWithoutDays = Units(kTimeUnits).first(kTimeUnits.size() - 1);

// `what` begins the error for a text that is no time, or not from `shortest` to `longest`.
Result<Duration> parse_duration_within(std::string_view text, Units units, Duration shortest,
                                       Duration longest, std::string_view what) {
  std::string_view name = text;
  const auto value = take_number<double>(name);
  const auto unit = std::ranges::find(units, name, &UnitOfTime::name);
  const bool known = value && unit != units.end();
  const double seconds = known ? *value * unit->seconds : NAN;
  // The condition also refuses not-a-number.
  if (seconds >= to_seconds(shortest) && seconds <= to_seconds(longest)) {
    return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
  }
  return Error{Errc::invalid, fmt::format("{}; got \"{}\"", what, text)};
}

constexpr std::array kRelativeUnits = {UnitOfTime{"ms", 1e-3}, UnitOfTime{"s", 1},
                                       UnitOfTime{"m", 60},    UnitOfTime{"h", 3600},
                                       UnitOfTime{"d", 86400}, UnitOfTime{"w", 7 * 86400}};

// Reads "5m", "5m ago" or "-5m".
std::optional<Moment> parse_relative_moment(std::string_view text, WallTime now) {
  constexpr std::string_view kAgo = " ago";
  constexpr double kMaxSeconds = 100.0 * 365 * 86400;  // s
  if (text.ends_with(kAgo)) {
    text = trim(text.substr(0, text.size() - kAgo.size()), " ");
  } else if (text.starts_with('-')) {
    text.remove_prefix(1);
  }
  std::string_view unit_name = text;
  const auto value = take_number<double>(unit_name);
  const auto unit = std::ranges::find(kRelativeUnits, unit_name, &UnitOfTime::name);
  if (!value || unit == kRelativeUnits.end()) return std::nullopt;
  const double seconds = *value * unit->seconds;
  // The condition also refuses not-a-number.
  if (!(seconds >= 0 && seconds <= kMaxSeconds)) return std::nullopt;
  const std::chrono::duration<double> length(seconds);
  return Moment{now - std::chrono::duration_cast<std::chrono::milliseconds>(length),
                std::string(text)};
}

// A number of seconds since 1970 has ten digits since 2001. Fewer are most likely a length of time
// without its unit.
std::optional<Moment> parse_unix_moment(std::string_view text) {
  constexpr std::int64_t kMinUnixSeconds = 1'000'000'000;
  constexpr std::int64_t kMaxUnixSeconds = 9'999'999'999;
  const auto seconds = parse_number<std::int64_t>(text);
  if (!seconds || *seconds < kMinUnixSeconds || *seconds > kMaxUnixSeconds) return std::nullopt;
  return Moment{WallTime(std::chrono::seconds(*seconds))};
}

using protocol::LeaseRequest;

// Adds an option whose text `read` turns into a field of the claim.
template <class T, class Read>
Option add_claim_field(Options verb, const char* name, ClaimOptions& wanted,
                       std::optional<T> LeaseRequest::* field, Read read, const char* help) {
  return verb.option(name, wanted.typed[name], help)
      .reads([=, &wanted](const std::string& text) -> Result<void> {
        wanted.request.*field = GPUYARD_TRY(read(text));
        return {};
      });
}

Option add_length(Options verb, const char* name, ClaimOptions& wanted,
                  std::optional<double> LeaseRequest::* field, const char* help,
                  Duration shortest = kMinLifetime, Duration longest = kMaxLifetime) {
  const auto read = [=](const std::string& text) -> Result<double> {
    return to_seconds(GPUYARD_TRY(parse_lifetime(text, shortest, longest)));
  };
  return add_claim_field(verb, name, wanted, field, read, help).metavar("DURATION");
}

Result<std::int64_t> bytes_of(const std::string& text) {
  // Users copy what `gpuyard devices` shows, too: "20GiB", "20 GiB".
  std::string plain = text;
  if (plain.ends_with("iB")) plain.resize(plain.size() - 2);
  std::erase(plain, ' ');
  const auto bytes = sim::parse_bytes(plain);
  if (bytes && *bytes <= static_cast<std::uint64_t>(INT64_MAX)) {
    return static_cast<std::int64_t>(*bytes);
  }
  return Error{Errc::invalid,
               fmt::format("expected a size such as 512M, 20G or 20GiB; got \"{}\"", text)};
}

Result<std::string> as_typed(const std::string& text) {
  return text;
}

Result<std::vector<protocol::GpuName>> gpu_names_of(const std::string& text) {
  std::vector<protocol::GpuName> names;
  for (std::string& name : split(text, ',')) names.push_back({std::move(name)});
  return names;
}

}  // namespace

Option add_color(Options verb, ColorMode& mode) {
  return verb.heading(kGlobalOptions)
      .option("--color", mode,
              {{"auto", ColorMode::automatic},
               {"always", ColorMode::always},
               {"never", ColorMode::never}},
              "Coloured output: auto, always or never; auto honours NO_COLOR")
      .metavar("WHEN")
      .default_is("auto");
}

Option add_json(Options verb, bool& json) {
  return verb.heading(kGlobalOptions).flag("--json", json, "Print JSON; formats: gpuyard schema");
}

Option add_socket(Options verb, std::string& socket) {
  return verb.heading(kGlobalOptions)
      .option("--socket", socket, "Connect only to the daemon at PATH or ADDRESS:PORT")
      .metavar("ADDRESS")
      .environment("GPUYARD_SOCKET");
}

Option add_simulate(Options verb, std::optional<int>& gpus) {
  return verb.option("--simulate", gpus, "Use N simulated GPUs, 1 to 64")
      .metavar("N")
      .range(1, kMaxGpus);
}

Option add_model(Options verb, std::string& model) {
  return verb
      .option("--model", model,
              "Models to simulate, each with an optional count, e.g. a100:2,h100:4,t4")
      .metavar("NAME[:N],...")
      .default_is("h100");
}

void add_output_options(Options verb, AnswerOptions& answer) {
  add_socket(verb, answer.socket);
  add_json(verb, answer.json);
  add_color(verb, answer.color);
}

void add_source(Options verb, SourceFlags& flags) {
  const Options globals = verb.heading(kGlobalOptions);
  const Option socket = add_socket(verb, flags.socket);
  const Option local =
      globals.flag("--local", flags.local, "Read from the driver instead of a daemon");
  const Option nvml =
      globals.option("--nvml", flags.nvml, "Path of libnvidia-ml.so.1; implies --local")
          .metavar("PATH");
  const Option simulate = add_simulate(globals, flags.simulate);
  socket.excludes(local).excludes(nvml).excludes(simulate);
  nvml.excludes(simulate);
}

void add_replay_position(Options verb, const char* from_name, std::string& from,
                         const char* speed_name, double& speed, Option file) {
  verb.option(from_name, from, "Start this far into the recording, e.g. 90s or 10m")
      .metavar("DURATION")
      .default_is("0s")
      .needs(file);
  verb.option(speed_name, speed, "Playback speed factor, 0.01 to 1000")
      .metavar("FACTOR")
      .default_is("1")
      .range(recording::kMinSpeed, recording::kMaxSpeed)
      .needs(file);
}

void add_claim_options(Options verb, ClaimOptions& wanted) {
  const Options gpus = verb.heading("GPUs");
  gpus.option("-n,--num-gpus", wanted.request.gpus, "Number of GPUs, 1 to 256")
      .metavar("N")
      .default_is("1")
      .formerly("--gpus")
      .range(1, kMaxLeaseGpus);
  add_claim_field(gpus, "--min-free", wanted, &LeaseRequest::min_free_bytes, &bytes_of,
                  "Require this much free memory on each GPU, e.g. 20G")
      .metavar("SIZE");
  add_claim_field(gpus, "--model", wanted, &LeaseRequest::model, &as_typed,
                  "Require this text in the GPU name, e.g. H100")
      .metavar("TEXT");
}

void add_lease_filters(Options verb, ClaimOptions& wanted) {
  add_claim_options(verb, wanted);
  add_claim_field(verb.heading("GPUs"), "--among", wanted, &LeaseRequest::among, &gpu_names_of,
                  "Choose only from these GPUs: indexes, UUIDs or PCI addresses")
      .metavar("GPU,...");
  const Options queue = verb.heading("Queue");
  const Option wait = add_length(queue, "--wait", wanted, &LeaseRequest::wait_s,
                                 "Stop waiting after this time, e.g. 10m")
                          .default_is("no limit");
  queue.flag("--no-wait", wanted.request.wait_s, 0.0, "Fail if the GPUs are not available now")
      .excludes(wait);
  add_length(queue, "--max-time", wanted, &LeaseRequest::max_time_s,
             "Longest time you expect to hold the GPUs, e.g. 2h; short claims may start early");
}

Option add_gpus(Options verb, std::string& gpus, const char* help) {
  return verb.list("gpus,--gpu", gpus, help).metavar("GPU,...").formerly("--gpus");
}

Option add_gpus_option(Options verb, std::string& gpus, const char* help) {
  return verb.list("--gpu", gpus, help).metavar("GPU,...").formerly("--gpus");
}

Option add_ttl(Options verb, ClaimOptions& wanted) {
  return add_length(verb, "--for", wanted, &LeaseRequest::ttl_s,
                    "Time until the lease expires unless renewed, e.g. 30m, 8h or 2d",
                    gpuyard::lease::kMinTtl, gpuyard::lease::kMaxTtl)
      .formerly("--ttl")
      .required();
}

Option add_note(Options verb, ClaimOptions& wanted) {
  return add_claim_field(verb, "--note", wanted, &LeaseRequest::note, &as_typed,
                         "Purpose of the lease; only you and administrators see it")
      .metavar("TEXT");
}

Option add_through(Options verb, Through& through, const char* help) {
  return verb
      .option("--through", through, {{"daemon", Through::daemon}, {"slurm", Through::slurm}}, help)
      .metavar("NAME")
      .default_is("as configured, else daemon");
}

Option add_quiet(Options verb, bool& quiet) {
  return verb.flag("-q,--quiet", quiet, "Print only warnings and errors");
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (true) {
    const std::size_t end = std::min(text.find(separator), text.size());
    parts.emplace_back(trim(text.substr(0, end), " "));
    if (end == text.size()) return parts;
    text.remove_prefix(end + 1);
  }
}

std::vector<std::string> split_all(const std::vector<std::string>& texts) {
  std::vector<std::string> parts;
  for (const std::string& text : texts) std::ranges::move(split(text, ','), back_inserter(parts));
  return parts;
}

std::optional<std::string> non_empty(const std::string& text) {
  return text.empty() ? std::nullopt : std::optional(text);
}

Result<Duration> parse_interval(std::string_view text, Duration shortest) {
  return parse_duration_within(
      text, kUnitsWithoutDays, shortest, kMaxInterval,
      fmt::format("expected a duration such as 500ms, 2s or 1m, from {} to 24h",
                  shortest > Duration(0) ? "100ms" : "0s"));
}

Result<Duration> parse_lifetime(std::string_view text, Duration shortest, Duration longest) {
  const auto length = GPUYARD_TRY(
      parse_duration_within(text, kTimeUnits, kMinLifetime, kMaxLifetime,
                            "expected a duration such as 90s, 30m, 8h or 2d, from 1s to 365d"));
  if (length >= shortest && length <= longest) return length;
  return Error{
      Errc::invalid,
      fmt::format("expected a duration from {:.0f}s to {:.0f}d; got \"{}\"", to_seconds(shortest),
                  to_seconds(longest) / to_seconds(std::chrono::days(1)), printable(text))};
}

std::string Moment::api_text() const {
  return length.empty() ? to_rfc3339(at) : length;
}

Result<Moment> parse_moment(std::string_view text, WallTime now) {
  const std::string_view trimmed = trim(text);
  if (trimmed == "now") return Moment{now, "0s"};
  if (auto before = parse_relative_moment(trimmed, now)) return *std::move(before);
  if (const auto at = parse_time(trimmed, now)) return Moment{*at};
  if (auto at = parse_unix_moment(trimmed)) return *std::move(at);
  return Error{Errc::invalid,
               fmt::format("expected a time before now such as 90s, 2h or 7d, or a moment such as "
                           "02:10, 2026-01-31 12:00 or 2026-01-31T12:00:00Z; got \"{}\"",
                           printable(text))};
}

Result<double> seconds_since(std::string_view text) {
  const WallTime now = wall_now();
  const auto moment = parse_moment(text, now);
  if (!moment) return Error(moment.error()).in("--since");
  const double seconds = to_seconds(now - moment->at);
  if (seconds >= to_seconds(kMinLifetime) && seconds <= to_seconds(kMaxLifetime)) {
    return seconds;
  }
  return Error{Errc::invalid, fmt::format("--since: expected a time from 1s to 365d before now; "
                                          "got \"{}\"",
                                          printable(text))};
}

}  // namespace gpuyard::cli
