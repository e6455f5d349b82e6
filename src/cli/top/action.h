// The changes that the user may make from the screen. A change is one of gpuyard's own verbs, which
// is shown, copied and run as it stands; only a signal is sent directly. An action is bound to its
// object - a UUID, a lease, a process with its start, an alert's number - and never to a row.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/top/keys.h"

namespace gpuyard::cli::top {

struct Model;

// Identifies a process: a pid alone may be reused.
struct ProcessKey {
  std::uint32_t pid = 0;
  std::optional<std::int64_t> started_after_boot_ms = {};  // exact to 10 ms
  std::optional<std::uint32_t> uid = {};
};

// A text that the user may type before the action runs.
struct DialogField {
  std::string label;
  std::string value = {};
  bool optional = false;
};

struct Action {
  Command command = Command::none;
  std::string title;
  std::string about = {};    // what it does to whom
  std::string done = {};     // the same once it is done; empty: the command's first line
  std::string subject = {};  // a UUID, the id of a lease, a pid, the number of an alert
  std::vector<DialogField> fields = {};
  // The text to type, because the action hits others or cannot be undone; empty: Enter is enough.
  std::string confirmation = {};
  // Members of single commands.
  std::string rule = {};                       // silence
  bool lifts = false;                          // cordon: the other way
  bool forced = false;                         // release: somebody else's
  ProcessKey process = {};                     // adopt, signal
  std::vector<std::string> undo_command = {};  // undo: the words to run

  const std::string& value(std::size_t field) const { return fields[field].value; }
};

// The action of a key for the chosen row. The error says, for people, why there is none.
Result<Action> action_for(const Model&, Command);
// Whether rows of the pane that is shown have this action.
bool is_applicable(const Model&, Command);

// The words behind `gpuyard`; for a signal, those of kill.
std::vector<std::string> words_of(const Action&);
// The words that only say what would happen; empty: the verb cannot say.
std::vector<std::string> dry_run_words(const Action&);
// The words that run it, without a question.
std::vector<std::string> command_words(const Action&);
// The words that undo it; empty: nothing does.
std::vector<std::string> undo_words(const Action&);
// The line for a shell. `host`: as -H has it; empty: this machine.
std::string shell_line(const Action&, const std::string& host);

}  // namespace gpuyard::cli::top
