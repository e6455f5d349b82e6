#include "cli/slurm/srun_line.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.h"
#include "base/try.h"
#include "cli/slurm/run_option.h"
#include "cli/slurm/sinfo_types.h"

namespace gpuyard::cli::slurm {
namespace {

// The same claim without the options that Slurm cannot fulfil.
RunVerb without_refused(RunVerb verb) {
  verb.wanted.typed.erase("--min-free");
  verb.wanted.typed.erase("--among");
  return verb;
}

// One line for each type, in which --model means that type alone.
std::string lines_with_types(const RunVerb& verb, const std::vector<std::string>& types) {
  std::vector<std::string> lines;
  for (const std::string& type : types) {
    RunVerb one = verb;
    one.wanted.typed["--model"] = type;
    lines.push_back(run_line(one));
  }
  return fmt::format("{}", fmt::join(lines, "\n"));
}

Error without_type_error(const RunVerb& verb, const std::vector<std::string>& types) {
  const std::string& model = *verb.wanted.request.model;
  if (types.empty()) {
    RunVerb without = verb;
    without.wanted.typed.erase("--model");
    return {Errc::invalid, fmt::format("--model: Slurm cannot select \"{}\"", model),
            "the GPUs of this cluster have no type in gres.conf", run_line(without)};
  }
  return {Errc::invalid, fmt::format("--model: no GPU type of this cluster matches \"{}\"", model),
          fmt::format("its types are {}", fmt::join(types, ", ")), lines_with_types(verb, types)};
}

// "gpu:2" or "gpu:h100:2"
Result<std::string> claimed_gres(const RunVerb& verb, const std::vector<std::string>& types) {
  const protocol::LeaseRequest& claim = verb.wanted.request;
  if (!claim.model) return fmt::format("gpu:{}", *claim.gpus);
  const auto matching = types_of_model(types, *claim.model);
  if (matching.empty()) return without_type_error(verb, types);
  if (matching.size() > 1) {
    return Error{Errc::invalid,
                 fmt::format("--model: \"{}\" matches {} GPU types of this cluster", *claim.model,
                             matching.size()),
                 "a job of Slurm has GPUs of one type", lines_with_types(verb, matching)};
  }
  return fmt::format("gpu:{}:{}", matching.front(), *claim.gpus);
}

// The options of the claim, which a job that exists has had already.
Result<std::vector<std::string>> claim_words(const RunVerb& verb, const SrunPlace& place) {
  std::vector<std::string> words;
  const auto gres = GPUYARD_TRY(claimed_gres(verb, place.gpu_types));
  words.push_back("--gres=" + gres);
  const protocol::LeaseRequest& claim = verb.wanted.request;
  if (claim.max_time_s) words.push_back(fmt::format("--time={}", limit_minutes(*claim.max_time_s)));
  if (claim.note) words.push_back("--comment=" + *claim.note);
  return words;
}

std::vector<std::string> wait_words(const std::optional<double>& wait_s) {
  if (!wait_s) return {};
  if (*wait_s == 0) return {"--immediate"};
  return {fmt::format("--immediate={:.0f}", std::ceil(*wait_s))};
}

}  // namespace

std::int64_t limit_minutes(double max_time_s) {
  constexpr double kMinute = 60;
  return static_cast<std::int64_t>(std::ceil(max_time_s / kMinute));
}

Result<void> check_for_slurm(const RunVerb& verb) {
  for (const RunOption& option : run_options()) {
    if (option.treatment != RunOption::Treatment::refused || option.words(verb).empty()) continue;
    return Error{Errc::invalid, fmt::format("{} cannot be used with Slurm", option.name),
                 std::string(option.remark), run_line(without_refused(verb))};
  }
  return {};
}

Result<std::vector<std::string>> srun_line(const RunVerb& verb, const SrunPlace& place) {
  GPUYARD_TRY(check_for_slurm(verb));
  std::vector<std::string> words = {"srun", "-N1", "-n1"};
  const auto append = [&](std::vector<std::string> more) {
    std::ranges::move(more, back_inserter(words));
  };
  if (!place.in_job) append(GPUYARD_TRY(claim_words(verb, place)));
  append(wait_words(verb.wanted.request.wait_s));
  const std::string& command = verb.command.front();
  words.push_back("--job-name=" + command.substr(command.rfind('/') + 1));
  // One Ctrl-C goes to the command; by default srun waits for a second one.
  words.emplace_back("--disable-status");
  if (place.terminal) words.emplace_back("--pty");
  if (verb.quiet) words.emplace_back("--quiet");
  append({place.program, "run", "--job-directory", place.directory});
  if (place.in_job) words.emplace_back("--in-job");
  append(node_words(verb));
  words.emplace_back("--");
  append(verb.command);
  return words;
}

}  // namespace gpuyard::cli::slurm
