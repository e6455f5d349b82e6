// gpuyard free: the GPUs that could be leased now.
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/lease/lease_text.h"
#include "cli/read/source_access.h"
#include "cli/screen/output.h"
#include "cli/screen/reading_text.h"
#include "cli/shared_options.h"
#include "cli/slurm/cluster_verbs.h"
#include "cli/slurm/run_option.h"
#include "faces/client/daemon_client.h"
#include "faces/protocol/routes.h"

namespace gpuyard::cli {
namespace {

std::string waiting_claims(std::int64_t count) {
  if (count == 0) return "";
  return count == 1 ? ", and 1 claim is waiting"
                    : fmt::format(", and {} claims are waiting", count);
}

}  // namespace

Options add_free(Options program, FreeVerb& verb) {
  const Options free =
      program.verb("free", "List GPUs you could lease now; exit code 7 if too few");
  add_socket(free, verb.socket);
  add_json(free, verb.json);
  add_claim_options(free, verb.wanted);
  add_through(free, verb.through, kThroughHelp);
  free.example("gpuyard free")
      .example("gpuyard free -n 4 --min-free 40G")
      .example("gpuyard free -n 2 --model H100 && ./submit.sh")
      .exit_codes("Exit code 7: fewer GPUs are free than requested");
  return free;
}

int run(const FreeVerb& verb) {
  const auto of_slurm = slurm::answers_for_cluster(verb.through, verb.socket);
  if (!of_slurm) return print_error(of_slurm.error());
  if (*of_slurm) {
    return slurm::show_cluster_free(verb.wanted, verb.through, verb.json, ColorMode::automatic);
  }
  const auto daemon = require_daemon(verb.socket, "finding free GPUs needs");
  if (!daemon) return print_source_error(daemon.error());
  const auto reply = client::call_with_retry(*daemon, protocol::kFree, free_query_of(verb.wanted));
  if (!reply) return print_source_error(reply.error());
  std::vector<std::uint32_t> free;
  for (const protocol::FreeGpu& gpu : reply->gpus) free.push_back(gpu.index);
  if (verb.json) {
    print(json_line(*reply));
  } else if (!free.empty()) {
    print(formatted("{}\n", fmt::join(free, ",")));
  }
  if (reply->enough) return 0;
  // The daemon would refuse the claim that is advised below.
  if (const auto pods = client::call(*daemon, protocol::kPods); pods && pods->observes)
    return print_error({Errc::conflict, reply->why});
  if (const auto slurm = client::call(*daemon, protocol::kSlurm); slurm && slurm->observes) {
    return print_error(
        {.code = Errc::conflict,
         .message = "Slurm allocates the GPUs of this machine, and gpuyard only observes them",
         .hint = fmt::format("gpuyard run -n {} --through slurm -- COMMAND",
                             *verb.wanted.request.gpus)});
  }
  Error error{Errc::conflict,
              fmt::format("{} cannot be leased now: {} of {} are free{}",
                          number_of_gpus(*verb.wanted.request.gpus), free.size(),
                          number_of_gpus(reply->capacity), waiting_claims(reply->waiting)),
              reply->why};
  constexpr std::string_view kNoneMatches = "no GPU of this machine matches";
  if (reply->why.starts_with(kNoneMatches)) {
    error.cause = fmt::format("{}{}", kNoneMatches, filter_words(verb.wanted));
  } else if (reply->why.find(" requested, but ") == std::string::npos) {
    const std::string words = waiting_words(verb.wanted);
    error.hint = daemon->is_remote() ? fmt::format("gpuyard lease take -n {} --for 1h", words)
                                     : fmt::format("gpuyard run -n {} -- COMMAND", words);
  }
  return print_error(error);
}

}  // namespace gpuyard::cli
