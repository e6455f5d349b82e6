// The options of the verbs that change GPUs.
#include "cli/control/control_request.h"
#include "cli/shared_options.h"

namespace gpuyard::cli {
namespace {

using ControlSubject = ControlVerb::Subject;

struct AddedVerb {
  Options options;
  Option gpus;
};

// If a value follows the GPUs, `power 0 1` is GPU 0 at 1 W: such verbs take only commas.
enum class Followed : bool { by_nothing, by_a_value };

AddedVerb add_verb(Options program, ControlVerb& verb, ControlSubject subject, const char* summary,
                   Followed followed = Followed::by_nothing) {
  verb.subject = subject;
  const Options sub = program.verb(std::string(name_of(subject)), summary);
  add_showing(sub, verb.socket, verb.json, verb.color);
  const Option gpus =
      followed == Followed::by_a_value
          ? sub.option("gpus,--gpus", verb.gpus,
                       "Comma-separated indexes, UUIDs or PCI addresses, or all")
                .type_name("GPU,...")
          : sub.list("gpus,--gpus", verb.gpus, "GPUs: indexes, UUIDs or PCI addresses, or all")
                .type_name("GPU ...");
  sub.flag("--dry-run", verb.dry_run, "Show what would change, without changing it");
  sub.flag("--yes", verb.yes, "Do not ask for confirmation");
  sub.flag("--no-wait", verb.no_wait, "Return without waiting for the change to finish");
  return {sub, gpus};
}

// Flags for changes that others may oppose. Only a client that waits for the end learns whether all
// of it was done or nothing.
void add_manner(Options sub, ControlVerb& verb) {
  sub.flag("--force", verb.force, "Override other users' settings (administrators only)");
  sub.flag("--atomic", verb.atomic, "Change all of the GPUs or none of them")
      .excludes(sub.find("--no-wait"));
}

Option add_lifetime(Options sub, ControlVerb& verb) {
  return sub
      .option("--for", verb.lifetime,
              "Undo the setting after this time, e.g. 90s, 30m or 8h [default: until restored]")
      .type_name("TIME");
}

// Adds a verb whose setting has one value.
Options add_setting(Options program, ControlVerb& verb, ControlSubject subject, const char* summary,
                    const char* value_name, const char* value_help) {
  const Options sub = add_verb(program, verb, subject, summary, Followed::by_a_value).options;
  const Option value = sub.option("value", verb.value, value_help).type_name(value_name);
  add_lifetime(sub, verb).needs(value);
  sub.flag("--restore", verb.restore, "Withdraw your setting").excludes(value);
  add_manner(sub, verb);
  return sub;
}

}  // namespace

Options add_power(Options program, ControlVerb& verb) {
  return add_setting(program, verb, ControlSubject::power, "Show or set power limits", "WATTS",
                     "Power limit in watts, e.g. 300, 300W or 287.5");
}

Options add_clocks(Options program, ControlVerb& verb) {
  const Options clocks =
      add_verb(program, verb, ControlSubject::clocks, "Show or lock GPU and memory clocks").options;
  const Option gpu = clocks
                         .option("--gpu", verb.gpu_clocks,
                                 "Lock the GPU clocks to this range in MHz, or to one value")
                         .type_name("MIN,MAX");
  const Option memory = clocks
                            .option("--memory", verb.memory_clocks,
                                    "Lock the memory clocks to this range in MHz, or to one value")
                            .type_name("MIN,MAX");
  clocks.option("--restore", verb.restored_clocks, "Withdraw your clock locks: gpu, memory or all")
      .type_name("WHICH")
      .one_of({"gpu", "memory", "all"})
      .excludes(gpu)
      .excludes(memory)
      .excludes(add_lifetime(clocks, verb));
  add_manner(clocks, verb);
  return clocks;
}

Options add_persistence(Options program, ControlVerb& verb) {
  return add_setting(program, verb, ControlSubject::persistence,
                     "Show or set persistence mode (keep unused GPUs initialised)", "on|off",
                     "Persistence mode: on or off");
}

Options add_compute_mode(Options program, ControlVerb& verb) {
  return add_setting(program, verb, ControlSubject::compute_mode, "Show or set the compute mode",
                     "MODE", "Compute mode: default, prohibited or exclusive_process");
}

Options add_ecc(Options program, ControlVerb& verb) {
  const Options ecc = add_setting(program, verb, ControlSubject::ecc,
                                  "Show or set ECC mode, or clear ECC error counters", "on|off",
                                  "ECC mode: on or off; takes effect at the next reset or reboot");
  ecc.option("--clear", verb.cleared_errors,
             "Clear ECC error counters: volatile (since driver load) or aggregate (lifetime)")
      .type_name("WHICH")
      .one_of({"volatile", "aggregate"})
      .excludes(ecc.find("value"))
      .excludes(ecc.find("--restore"));
  return ecc;
}

Options add_reset(Options program, ControlVerb& verb) {
  const auto [reset, gpus] =
      add_verb(program, verb, ControlSubject::reset, "Reset a GPU that no process is using");
  gpus.required();
  return reset;
}

Options add_restore(Options program, ControlVerb& verb) {
  const auto [restore, gpus] =
      add_verb(program, verb, ControlSubject::restore,
               "Withdraw all your settings; with --force, those of all users");
  add_manner(restore, verb);
  restore.flag("--all", verb.gpus, "all", "Restore all GPUs").excludes(gpus);
  return restore;
}

}  // namespace gpuyard::cli
