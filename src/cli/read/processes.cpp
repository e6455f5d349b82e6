// gpuyard processes
#include <algorithm>

#include "base/json_writer.h"
#include "cli/read/process_answer.h"
#include "cli/read/process_table.h"
#include "cli/read/reading.h"
#include "cli/screen/terminal.h"
#include "cli/shared_options.h"

namespace gpuyard::cli {
namespace {

Result<ProcessAnswer> ask(client::Source& source, const ProcessesVerb& verb) {
  const auto snapshot = look_at(source, verb.gpus, {Probe::processes}, client::Owners::looked_up);
  if (!snapshot) return snapshot.error();
  auto answer = ask_processes(source, *snapshot);
  if (answer && !verb.user.empty()) {
    std::erase_if(answer->processes, [&](const ListedProcess& process) {
      return process.user != verb.user && user_text(process) != verb.user &&
             (!process.uid || std::to_string(*process.uid) != verb.user);
    });
  }
  return answer;
}

// No driver is an answer too: scripts get valid JSON with an empty list.
int show_nothing(const ProcessesVerb& verb, const Error& error) {
  if (verb.json) {
    ProcessAnswer nothing;
    nothing.taken_at = to_rfc3339(wall_now());
    print(json::to_json(nothing) + "\n");
  }
  return complain_about_source(error);
}

}  // namespace

Options add_processes(Options program, ProcessesVerb& verb) {
  const Options processes = program.verb("processes", "Show who uses the GPUs");
  add_source(processes, verb.source);
  add_gpus(processes, verb.gpus, "These only: indexes, UUIDs or PCI addresses");
  processes.option("--user", verb.user, "Only this user's, by name or number").type_name("USER");
  processes.flag("--json", verb.json, "Print JSON");
  add_color(processes, verb.color);
  return processes;
}

int run(const ProcessesVerb& verb) {
  auto open = open_source(verb.source);
  if (!open) return show_nothing(verb, open.error());
  const auto answer = ask(*open->source, verb);
  if (!answer) return show_nothing(verb, answer.error());
  print(verb.json ? json::to_json(*answer) + "\n"
                  : process_table(*answer, Screen::of_stdout(verb.color)));
  return 0;
}

}  // namespace gpuyard::cli
