// The changes that the user may make from the screen, and the dialog before each change. A change
// is one of gpuyard's own verbs, which is shown, copied and run as it stands; only a signal is sent
// directly. An action is bound to its object - a UUID, a lease, a process with its start, an
// alert's number - and never to a row.
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

// The dialog on the screen, and what has been typed into it.
struct Dialog {
  Action action;
  std::size_t field = 0;                // the one that is typed into; behind the last: the proof
  std::string typed_confirmation = {};  // as typed
  std::string planned = {};             // what would happen, in the daemon's words
  std::string error = {};
  bool in_progress = false;
};

// Types a sign at the end of a text, or takes one away.
void edit_text(std::string& text, const Stroke&);
// Takes a stroke. True: the user wants it done, and all that it needs is there.
bool handle_stroke(Dialog&, const Stroke&);

// The execution of a change.

// Runs a verb of this program, and returns what it says, or as the error why it failed. Ends it
// after 20 s.
Result<std::string> run_verb(const std::vector<std::string>& words);
// Without the program's name, with which the lines of a command's errors begin.
std::string without_program_name(std::string_view said);
// The words of a line, as a shell takes it apart: blanks, and quotes that keep them.
std::vector<std::string> split_words(std::string_view line);
// Sends a signal to a process of this machine, if it still is that process. `signal` is its name,
// without SIG. Errc::not_found: it has ended, or the pid is another's by now.
Result<void> send_signal(const ProcessKey&, const std::string& signal);
// Errc::not_found: the process has ended, or is not of this machine.
Result<void> check_process(const ProcessKey&);

}  // namespace gpuyard::cli::top
