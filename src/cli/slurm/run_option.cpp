#include "cli/slurm/run_option.h"

#include <algorithm>
#include <array>
#include <ranges>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.h"

namespace gpuyard::cli::slurm {
namespace {

using Treatment = RunOption::Treatment;
using Words = std::vector<std::string>;

Words with_value(std::string_view name, const std::string& value) {
  return value.empty() ? Words() : Words{std::string(name), value};
}
Words if_given(const char* name, bool given) {
  return given ? Words{name} : Words();
}

// In the order of the help.
constexpr std::array kRunOptions = {
    RunOption{"COMMAND", Treatment::on_node, "`{uuids}` and `{indices}` are the GPUs of the job",
              [](const RunVerb&) { return Words(); }},
    RunOption{
        "--num-gpus", Treatment::passed_on, "`--gres=gpu:N`",
        [](const RunVerb& verb) { return Words{"-n", std::to_string(*verb.wanted.request.gpus)}; }},
    RunOption{"--min-free", Treatment::refused,
              "Slurm does not know how much memory is free; it allocates whole GPUs"},
    RunOption{"--model", Treatment::passed_on,
              "`--gres=gpu:TYPE:N`, with the one type of the cluster that it matches"},
    RunOption{"--among", Treatment::refused, "Slurm selects the GPUs of a job itself"},
    RunOption{"--wait", Treatment::passed_on, "`--immediate=SECONDS`; then exit code 7"},
    RunOption{
        "--no-wait", Treatment::passed_on, "`--immediate`; then exit code 7",
        [](const RunVerb& verb) { return if_given("--no-wait", verb.wanted.request.wait_s == 0); }},
    RunOption{"--max-time", Treatment::passed_on,
              "`--time=MINUTES`, rounded up. A limit: Slurm ends the job"},
    RunOption{"--power-limit", Treatment::on_node,
              "set before the command starts, restored when the job ends",
              [](const RunVerb& verb) { return with_value("--power-limit", verb.power_limit); }},
    RunOption{"--note", Treatment::passed_on,
              "`--comment=TEXT`, which other users of the cluster can read"},
    RunOption{"--report", Treatment::on_node, "the file is written there",
              [](const RunVerb& verb) { return with_value("--report", verb.report); }},
    RunOption{"--quiet", Treatment::on_node, "srun gets `--quiet` as well",
              [](const RunVerb& verb) { return if_given("--quiet", verb.quiet); }},
    RunOption{"--through", Treatment::here, "`daemon` or `slurm`",
              [](const RunVerb& verb) {
                using enum Through;
                return verb.through == configured
                           ? Words()
                           : Words{"--through", verb.through == slurm ? "slurm" : "daemon"};
              }},
    RunOption{"--socket", Treatment::on_node, "the daemon of that machine",
              [](const RunVerb& verb) { return with_value("--socket", verb.socket); }},
};

}  // namespace

Words RunOption::words(const RunVerb& verb) const {
  if (own_words != nullptr) return own_words(verb);
  return with_value(name, verb.wanted.typed_value(std::string(name)));
}

std::span<const RunOption> run_options() {
  return kRunOptions;
}

Words node_words(const RunVerb& verb) {
  Words all;
  for (const RunOption& option : kRunOptions) {
    if (option.treatment == Treatment::refused || option.treatment == Treatment::here) continue;
    std::ranges::move(option.words(verb), back_inserter(all));
  }
  return all;
}

std::string run_line(const RunVerb& verb) {
  Words all = {"gpuyard", "run"};
  for (const RunOption& option : kRunOptions)
    std::ranges::move(option.words(verb), back_inserter(all));
  all.emplace_back("--");
  std::ranges::copy(verb.command, back_inserter(all));
  return fmt::format("{}", fmt::join(all | std::views::transform(&quote_shell_word), " "));
}

}  // namespace gpuyard::cli::slurm
