// The list of verbs. What each of them takes stands in its own file.
#include "cli/command_line.h"

#include <algorithm>
#include <deque>

#include "cli/options.h"

namespace gpuyard::cli {
namespace {

// In the order and the groups in which --help shows them, which are those of docs/overview.md.
class VerbList {
 public:
  explicit VerbList(Options program) : program_(program) {}

  void begin_group(const char* heading) { heading_ = heading; }

  template <class AnyVerb>
  void add(Options (*add_to)(Options, AnyVerb&)) {
    Verb& verb = verbs_.emplace_back(std::in_place_type<AnyVerb>);
    options_.push_back(add_to(program_, std::get<AnyVerb>(verb)).group(heading_));
  }

  // After parsing, which sees to it that there is exactly one.
  Verb& given() {
    const auto options = std::ranges::find_if(options_, &Options::given);
    return verbs_.at(static_cast<std::size_t>(options - options_.begin()));
  }

 private:
  Options program_;
  const char* heading_ = "";
  std::deque<Verb> verbs_;  // their addresses stay: the options write into them
  std::vector<Options> options_;
};

}  // namespace

std::variant<Verb, int> parse_command_line(int argc, const char* const* argv) {
  Program program("gpuyard", "Watches, controls, guards and shares the GPUs of a machine.");
  program.options().requires_verb();
  VerbList verbs(program.options());
  verbs.begin_group("First steps");
  verbs.add(add_devices);
  verbs.add(add_watch);
  verbs.add(add_run);
  verbs.add(add_leases);
  verbs.add(add_doctor);
  verbs.begin_group("Watching");
  verbs.add(add_query);
  verbs.add(add_processes);
  verbs.add(add_history);
  verbs.add(add_events);
  verbs.add(add_smi);
  verbs.add(add_record);
  verbs.add(add_replay);
  verbs.begin_group("Sharing");
  verbs.add(add_queue);
  verbs.add(add_lease);
  verbs.add(add_cordon);
  verbs.add(add_uncordon);
  verbs.begin_group("Accounting");
  verbs.add(add_energy);
  verbs.add(add_usage);
  verbs.begin_group("Setting");
  verbs.add(add_power);
  verbs.add(add_clocks);
  verbs.add(add_persistence);
  verbs.add(add_compute_mode);
  verbs.add(add_ecc);
  verbs.add(add_reset);
  verbs.add(add_restore);
  verbs.add(add_audit);
  verbs.add(add_operations);
  verbs.begin_group("Andon");
  verbs.add(add_alerts);
  verbs.begin_group("The daemon and the program");
  verbs.add(add_serve);
  verbs.add(add_config);
  verbs.add(add_driver);
  verbs.add(add_sim);
  verbs.add(add_version);
  verbs.add(add_schema);
  verbs.add(add_completion);
  if (const auto code = program.parse(argc, argv)) return *code;
  Verb& given = verbs.given();
  if (auto* completion = std::get_if<CompletionVerb>(&given)) {
    completion->script = completion_script(completion->shell, program.words());
  }
  return std::move(given);
}

}  // namespace gpuyard::cli
