// The verbs that change GPUs: apart, because they are a family.
#include "cli/control_command_line.h"

#include <CLI/CLI.hpp>

#include "cli/color_option.h"
#include "cli/control_request.h"

namespace gpuyard::cli {
namespace {

using Subject = ControlVerb::Subject;

constexpr std::int64_t kMostAuditLines = 1000;

template <class AnyVerb>
void add_common(CLI::App* sub, AnyVerb& verb) {
  sub->add_option("--socket", verb.socket,
                  "Ask the daemon at PATH or ADDRESS:PORT, and nobody else");
  sub->add_flag("--json", verb.json, "Print JSON");
  add_color(sub, verb.color);
}

CLI::App* add_verb(CLI::App& app, Verb& chosen, ControlVerb& verb, Subject subject,
                   const char* summary) {
  verb.subject = subject;
  auto* sub = app.add_subcommand(std::string(name_of(subject)), summary);
  add_common(sub, verb);
  sub->add_option("gpus", verb.gpus, "Indexes, UUIDs or PCI addresses with commas, or all")
      ->type_name("GPU,...");
  sub->add_flag("--dry-run", verb.dry_run, "Only say what would be changed");
  sub->add_flag("--yes", verb.yes, "Do not ask");
  sub->add_flag("--no-wait", verb.no_wait, "Do not wait until it is done");
  sub->callback([&chosen, &verb] { chosen = verb; });
  return sub;
}

// Of what others may want too. Somebody must wait for the end to know whether it was all or none.
void add_manner(CLI::App* sub, ControlVerb& verb) {
  sub->add_flag("--force", verb.force, "Also against what others want; for administrators");
  sub->add_flag("--atomic", verb.atomic, "All of the GPUs or none")
      ->excludes(sub->get_option("--no-wait"));
}

CLI::Option* add_lifetime(CLI::App* sub, ControlVerb& verb) {
  return sub
      ->add_option("--for", verb.lifetime,
                   "Put it back after 90s, 30m, 8h, 2d; else when you restore it")
      ->type_name("TIME");
}

// Those of one value.
CLI::App* add_setting(CLI::App& app, Verb& chosen, ControlVerb& verb, Subject subject,
                      const char* summary, const char* value_name, const char* value_help) {
  auto* sub = add_verb(app, chosen, verb, subject, summary);
  auto* value = sub->add_option("value", verb.value, value_help)->type_name(value_name);
  add_lifetime(sub, verb)->needs(value);
  sub->add_flag("--restore", verb.restore, "Give up what you wanted of it")->excludes(value);
  add_manner(sub, verb);
  return sub;
}

void add_clocks(CLI::App& app, Verb& chosen, ControlVerb& verb) {
  auto* clocks = add_verb(app, chosen, verb, Subject::clocks,
                          "Show what the clocks are locked to, or lock them");
  auto* gpu = clocks->add_option("--gpu", verb.gpu_clocks, "Lock the GPU's to these MHz")
                  ->type_name("MIN,MAX");
  auto* memory =
      clocks->add_option("--memory", verb.memory_clocks, "Lock the memory's to these MHz")
          ->type_name("MIN,MAX");
  clocks
      ->add_option("--restore", verb.restored_clocks, "Give up what you wanted: gpu, memory or all")
      ->type_name("WHICH")
      ->check(CLI::IsMember({"gpu", "memory", "all"}))
      ->excludes(gpu)
      ->excludes(memory)
      ->excludes(add_lifetime(clocks, verb));
  add_manner(clocks, verb);
}

void add_ecc(CLI::App& app, Verb& chosen, ControlVerb& verb) {
  auto* ecc =
      add_setting(app, chosen, verb, Subject::ecc, "Show or set the error correction of the memory",
                  "on|off", "From the next reset or reboot on");
  ecc->add_option("--clear", verb.cleared_errors,
                  "Set counters of memory errors to 0: volatile (since the driver was loaded), "
                  "aggregate (ever)")
      ->type_name("WHICH")
      ->check(CLI::IsMember({"volatile", "aggregate"}))
      ->excludes(ecc->get_option("value"))
      ->excludes(ecc->get_option("--restore"));
}

void add_restore(CLI::App& app, Verb& chosen, ControlVerb& verb) {
  auto* restore = add_verb(app, chosen, verb, Subject::restore,
                           "Give up all that you wanted of GPUs; with --force what anybody did");
  add_manner(restore, verb);
  restore->add_flag_callback(
             "--all", [&verb] { verb.gpus = "all"; }, "Of all GPUs")
      ->excludes(restore->get_option("gpus"));
}

void add_logs(CLI::App& app, Verb& chosen, ControlVerbs& verbs) {
  auto* audit =
      app.add_subcommand("audit", "Show who changed what of the GPUs, and who was refused");
  add_common(audit, verbs.audit);
  audit->add_option("gpu", verbs.audit.gpu, "Index, UUID or PCI address; else all")
      ->type_name("GPU");
  audit->add_option("-n,--limit", verbs.audit.limit, "The newest N (50)")
      ->type_name("N")
      ->check(CLI::Range(std::int64_t{1}, kMostAuditLines));
  audit->callback([&] { chosen = verbs.audit; });

  auto* operations =
      app.add_subcommand("operations", "Show changes that wait or run, and the last that are over");
  add_common(operations, verbs.operations);
  operations->add_option("id", verbs.operations.id, "Only this one")->type_name("ID");
  operations->callback([&] { chosen = verbs.operations; });
}

}  // namespace

void add_control(CLI::App& app, Verb& chosen, ControlVerbs& verbs) {
  add_setting(app, chosen, verbs.power, Subject::power, "Show or set the power limit of GPUs",
              "WATTS", "300, 300W or 287.5");
  add_clocks(app, chosen, verbs.clocks);
  add_setting(app, chosen, verbs.persistence, Subject::persistence,
              "Show or set whether GPUs stay initialised while nobody uses them", "on|off",
              "on or off");
  add_setting(app, chosen, verbs.compute_mode, Subject::compute_mode,
              "Show or set who may compute on GPUs at the same time", "MODE",
              "default, prohibited or exclusive_process");
  add_ecc(app, chosen, verbs.ecc);
  add_verb(app, chosen, verbs.reset, Subject::reset, "Reset one GPU that nobody uses")
      ->get_option("gpus")
      ->description("Index, UUID or PCI address")
      ->type_name("GPU")
      ->required();
  add_restore(app, chosen, verbs.restore);
  add_logs(app, chosen, verbs);
}

}  // namespace gpuyard::cli
