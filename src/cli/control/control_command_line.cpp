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
enum class ValueArgument : bool { by_nothing, by_a_value };

constexpr const char* kChange = "Change";
constexpr const char* kGpus = "GPUs: indexes, UUIDs or PCI addresses, or all";

AddedVerb add_verb(Options program, ControlVerb& verb, ControlSubject subject, const char* summary,
                   ValueArgument followed = ValueArgument::by_nothing) {
  verb.subject = subject;
  const Options sub = program.verb(std::string(name_of(subject)), summary);
  add_output_options(sub, verb);
  // Beside --gpu-clocks, --gpu would invite mistakes: it is the former name of that.
  const bool clocks = subject == ControlSubject::clocks;
  const char* const names = clocks ? "gpus,--gpus" : "gpus,--gpu";
  const Option gpus = followed == ValueArgument::by_a_value
                          ? sub.option(names, verb.gpus, kGpus).metavar("GPU,...")
                          : sub.list(names, verb.gpus, kGpus).metavar("GPU,...");
  if (!clocks) gpus.formerly("--gpus");
  return {sub, gpus};
}

// Only a client that waits for the end learns whether all of a change was done or nothing.
void add_confirmation(Options change, ControlVerb& verb) {
  change.flag("--dry-run", verb.dry_run, "Show what would change, without changing it");
  change.flag("-y,--yes", verb.yes, "Do not ask for confirmation");
  const Option detach =
      change.flag("--detach", verb.detach, "Return without waiting for the change to finish");
  detach.formerly("--no-wait");
  if (verb.subject != ControlSubject::reset) detach.excludes(change.find("--atomic"));
}

// Flags for changes that others may oppose.
void add_change_options(
    Options change, ControlVerb& verb,
    const char* force = "Override other users' settings (administrators only)") {
  change.flag("--force", verb.force, force);
  change.flag("--atomic", verb.atomic, "Change all of the GPUs or none of them");
  add_confirmation(change, verb);
}

Option add_lifetime(Options change, ControlVerb& verb) {
  return change
      .option("--for", verb.lifetime, "Undo the setting after this time, e.g. 90s, 30m or 8h")
      .metavar("DURATION")
      .default_is("until restored");
}

constexpr const char* kPermission =
    "Your setting stays in effect until you withdraw it or --for has passed. Changes need "
    "[control] enabled = true in the daemon's configuration, and permission: root or the group "
    "gpuyard.";

// Adds a verb whose setting has one value.
Options add_setting(Options program, ControlVerb& verb, ControlSubject subject, const char* summary,
                    const char* value_name, const char* value_help) {
  const Options sub = add_verb(program, verb, subject, summary, ValueArgument::by_a_value).options;
  const Options change = sub.heading(kChange);
  const Option value = sub.option("value", verb.value, value_help).metavar(value_name);
  add_lifetime(change, verb).needs(value);
  change.flag("--restore", verb.restore, "Withdraw your setting").excludes(value);
  add_change_options(change, verb);
  return sub;
}

}  // namespace

Options add_power(Options program, ControlVerb& verb) {
  return add_setting(program, verb, ControlSubject::power, "Show or set power limits", "WATTS",
                     "Power limit in watts, e.g. 300, 300W or 287.5")
      .explain(
          "Your setting stays in effect until you withdraw it or --for has passed. If several "
          "users "
          "set a limit, the lowest is in effect. Changes need [control] enabled = true in the "
          "daemon's configuration, and permission: root or the group gpuyard.")
      .usage({"gpuyard power [GPU,...]\tShow limits, ranges and settings",
              "gpuyard power GPU,... WATTS [OPTIONS]\tSet a limit",
              "gpuyard power GPU,... --restore [OPTIONS]\tWithdraw your setting"})
      .example("gpuyard power 0 300 --for 30m", "Limit GPU 0 to 300 W for half an hour")
      .example("gpuyard power all --restore --yes", "Withdraw your limits on all GPUs");
}

Options add_clocks(Options program, ControlVerb& verb) {
  const Options clocks =
      add_verb(program, verb, ControlSubject::clocks, "Show or lock GPU and memory clocks").options;
  const Options change = clocks.heading(kChange);
  const Option gpu = change
                         .option("--gpu-clocks", verb.gpu_clocks,
                                 "Lock the GPU clocks to this range in MHz, or to one value")
                         .metavar("MIN,MAX")
                         .formerly("--gpu");
  const Option memory = change
                            .option("--memory-clocks", verb.memory_clocks,
                                    "Lock the memory clocks to this range in MHz, or to one value")
                            .metavar("MIN,MAX")
                            .formerly("--memory");
  const Option lifetime = add_lifetime(change, verb);
  change.option("--restore", verb.restored_clocks, "Withdraw your clock locks: gpu, memory or all")
      .metavar("NAME")
      .one_of({"gpu", "memory", "all"})
      .excludes(gpu)
      .excludes(memory)
      .excludes(lifetime);
  add_change_options(change, verb);
  return clocks.explain(kPermission)
      .usage({"gpuyard clocks [GPU,...]\tShow clocks, ranges and settings",
              "gpuyard clocks GPU,... --gpu-clocks MIN,MAX [OPTIONS]\tLock the clocks",
              "gpuyard clocks GPU,... --restore NAME [OPTIONS]\tWithdraw your clock locks"})
      .example("gpuyard clocks 0 --gpu-clocks 1200,1500 --for 30m")
      .example("gpuyard clocks 0,1 --memory-clocks 2619")
      .example("gpuyard clocks all --restore all");
}

Options add_persistence(Options program, ControlVerb& verb) {
  return add_setting(program, verb, ControlSubject::persistence,
                     "Show or set persistence mode (keep unused GPUs initialised)", "on|off",
                     "Persistence mode: on or off")
      .explain(kPermission)
      .usage({"gpuyard persistence [GPU,...]\tShow modes and settings",
              "gpuyard persistence GPU,... on|off [OPTIONS]\tSet the mode",
              "gpuyard persistence GPU,... --restore [OPTIONS]\tWithdraw your setting"})
      .example("gpuyard persistence all on")
      .example("gpuyard persistence 0 --restore");
}

Options add_compute_mode(Options program, ControlVerb& verb) {
  return add_setting(program, verb, ControlSubject::compute_mode, "Show or set the compute mode",
                     "MODE", "Compute mode: default, prohibited or exclusive_process")
      .explain(kPermission)
      .usage({"gpuyard compute-mode [GPU,...]\tShow modes and settings",
              "gpuyard compute-mode GPU,... MODE [OPTIONS]\tSet the mode",
              "gpuyard compute-mode GPU,... --restore [OPTIONS]\tWithdraw your setting"})
      .example("gpuyard compute-mode 0 exclusive_process --for 8h")
      .example("gpuyard compute-mode 0 --restore");
}

Options add_ecc(Options program, ControlVerb& verb) {
  const Options ecc = add_setting(program, verb, ControlSubject::ecc,
                                  "Show or set ECC mode, or clear ECC error counters", "on|off",
                                  "ECC mode: on or off; takes effect at the next reset or reboot");
  ecc.heading(kChange)
      .option("--clear", verb.cleared_errors,
              "Clear counters: volatile (since driver load) or aggregate (lifetime)")
      .metavar("NAME")
      .one_of({"volatile", "aggregate"})
      .excludes(ecc.find("value"))
      .excludes(ecc.find("--restore"));
  return ecc.explain(kPermission)
      .usage({"gpuyard ecc [GPU,...]\tShow modes and settings",
              "gpuyard ecc GPU,... on|off [OPTIONS]\tSet the mode",
              "gpuyard ecc GPU,... --restore [OPTIONS]\tWithdraw your setting",
              "gpuyard ecc GPU,... --clear NAME [OPTIONS]\tClear error counters"})
      .example("gpuyard ecc 0 on", "Enable ECC at the next reset or reboot")
      .example("gpuyard ecc 0 --clear volatile");
}

Options add_reset(Options program, ControlVerb& verb) {
  const auto [reset, gpus] =
      add_verb(program, verb, ControlSubject::reset, "Reset a GPU that no process is using");
  gpus.required();
  add_confirmation(reset, verb);
  return reset.example("gpuyard reset 3 --dry-run", "Check whether GPU 3 can be reset")
      .example("gpuyard reset 3");
}

Options add_restore(Options program, ControlVerb& verb) {
  const auto [restore, gpus] =
      add_verb(program, verb, ControlSubject::restore,
               "Withdraw all your settings; with --force, those of all users");
  restore.flag("--all", verb.gpus, "all", "Withdraw your settings on all GPUs").excludes(gpus);
  add_change_options(restore, verb, "Withdraw other users' settings, too (administrators only)");
  return restore
      .usage({"gpuyard restore GPU,... [OPTIONS]\tWithdraw your settings on these GPUs",
              "gpuyard restore --all [OPTIONS]\tWithdraw your settings on all GPUs"})
      .example("gpuyard restore 0", "Withdraw your settings on GPU 0")
      .example("gpuyard restore --all --force --yes");
}

}  // namespace gpuyard::cli
