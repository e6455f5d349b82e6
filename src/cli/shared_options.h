// Options that several verbs have.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "cli/options.h"
#include "cli/verbs.h"

namespace gpuyard::cli {

inline constexpr int kMaxGpus = 64;

// The global options: those that many verbs have, and the program's help describes.
Option add_color(Options verb, ColorMode& mode);
Option add_json(Options verb, bool& json);
Option add_socket(Options verb, std::string& socket);
// Adds what verbs have that show the daemon's answer: --socket, --json and --color.
void add_output_options(Options verb, AnswerOptions& answer);
void add_source(Options verb, SourceFlags& flags);

Option add_simulate(Options verb, std::optional<int>& gpus);
Option add_model(Options verb, std::string& model);

// Adds options for where in the recording `file` to begin, and how fast to play it.
void add_replay_position(Options verb, const char* from_name, std::string& from,
                         const char* speed_name, double& speed, Option file);

// Reads that position: `from` is "0s", "90s", "10m", the value of `option`. The replay begins now.
Result<recording::Replay> replay_from(const std::string& file, const std::string& from,
                                      double speed, std::string_view option);

// Adds the options for the GPUs of a lease: how many and of which kind, or all that a claim has.
void add_claim_options(Options verb, ClaimOptions& wanted);
void add_lease_filters(Options verb, ClaimOptions& wanted);
Option add_ttl(Options verb, ClaimOptions& wanted);
// Adds the GPUs as arguments and as --gpu, or as --gpu alone: indexes, UUIDs or PCI addresses with
// commas or blanks.
Option add_gpus(Options verb, std::string& gpus, const char* help);
Option add_gpus_option(Options verb, std::string& gpus, const char* help);
Option add_note(Options verb, ClaimOptions& wanted);
Option add_quiet(Options verb, bool& quiet);
// Adds --through, by which a user overrides [lease] through.
Option add_through(Options verb, Through& through, const char* help);
// The help of --through where it only selects whose answer is shown.
inline constexpr const char* kThroughHelp = "Source of the answer: daemon or slurm";

// Returns the parts between separators, trimmed of blanks. An empty text has one empty part.
std::vector<std::string> split(std::string_view text, char separator);
// Returns the parts of several texts with commas.
std::vector<std::string> split_all(const std::vector<std::string>& texts);

// Empty if the text is empty.
std::optional<std::string> non_empty(const std::string& text);

// Reads "500ms", "2s", "1m"; a bare number is seconds, "0.5" too. Errc::invalid outside of
// `shortest`..kMaxInterval.
inline constexpr Duration kMinInterval = std::chrono::milliseconds(100);
inline constexpr Duration kMaxInterval = std::chrono::hours(24);
Result<Duration> parse_interval(std::string_view text, Duration shortest = kMinInterval);

// Reads how long something lasts: "90s", "30m", "8h", "2d"; a bare number is seconds. Errc::invalid
// outside of `shortest`..`longest`.
inline constexpr Duration kMinLifetime = std::chrono::seconds(1);
inline constexpr Duration kMaxLifetime = std::chrono::days(365);
Result<Duration> parse_lifetime(std::string_view text, Duration shortest = kMinLifetime,
                                Duration longest = kMaxLifetime);

// A moment: the text of a length of time before now, or a time of the calendar.
struct Moment {
  WallTime at;
  std::string length = {};  // "90s", of the clock of the one who is asked; empty: `at` alone counts

  // As the API takes it: "90s" or "2026-01-31T12:00:00.000Z".
  std::string api_text() const;
};

// Reads "90s", "2h", "7d", "5m ago", "now", or what parse_time() reads; seconds since 1970 if they
// are too many for a length of time. Errc::invalid, with these forms, for anything else: a bare
// number, too.
Result<Moment> parse_moment(std::string_view text, WallTime now);

// Returns the seconds from that moment until now, for answers that are of so many seconds.
// Errc::invalid also outside of kMinLifetime..kMaxLifetime; names --since.
Result<double> seconds_since(std::string_view text);

}  // namespace gpuyard::cli
