// All that the screen shows: the newest data of the source, and the place in it. Plain values,
// changed by keys and by new data, and drawn by render().
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/filter.h"
#include "base/record.h"
#include "cli/top/dialog.h"
#include "cli/top/grid.h"
#include "cli/top/keys.h"
#include "cli/top/rows.h"
#include "cli/top/screen_data.h"

namespace gpuyard::cli::top {

// The rows of a list in order, and the chosen one: a name, so that it stays the same row wherever
// that goes.
struct List {
  std::vector<std::string> names;
  std::string selected;
  std::size_t position = 0;  // of the chosen one; where it was, once it is gone
};

struct Order {
  std::size_t field = 0;  // of kFields
  bool descending = false;
};

// A line that is being typed at the foot of the screen.
struct Prompt {
  enum class Kind : std::uint8_t { filter, time, verb };
  Kind what{};
  std::string text = {};
  std::string error = {};
};

// The lengths of the line of time. A step is a sixtieth of it.
inline constexpr std::array<std::chrono::seconds, 6> kTimeSpans = {
    std::chrono::minutes(15), std::chrono::hours(1),      std::chrono::hours(6),
    std::chrono::hours(24),   std::chrono::hours(24 * 7), std::chrono::hours(24 * 30)};

struct Model {
  ScreenData data;
  UtilizationHistory utilization;
  std::string host;
  std::string failure = {};  // why the data is old; "": it is not
  WallTime now = {};

  // The daemon and the rights of this session.
  std::string daemon = {};                // as -H has it; "" for none
  std::string remote_daemon = {};         // the same of another machine's daemon, for lines of it
  std::optional<std::uint32_t> uid = {};  // the user's, where the processes are this machine's
  std::string user = {};
  bool readonly = false;
  bool has_history = false;
  bool is_replay = false;

  Pane pane = Pane::overview;
  std::map<Pane, List> lists = {};
  std::size_t scrolled = 0;  // processes of the overview above the screen
  bool detailed = true;      // a line for each GPU while that fits
  std::string filter_text = {};
  Filter filter = {};
  Order gpu_order = {0, false};
  Order process_order = {field_index("sm"), true};
  bool frozen = false;               // the order stays
  WallTime order_frozen_until = {};  // it also stays for a moment after each move
  bool mouse = true;

  ScreenQuery query = {};
  std::size_t span = 1;  // of kTimeSpans

  std::optional<Prompt> prompt = {};
  std::optional<Dialog> dialog = {};
  std::vector<std::string> undo = {};  // the words that take the last change back
  std::string message = {};            // the result of the last change
  bool message_is_error = false;
};

// The action that a stroke requests of the session, beyond the model.
struct SessionAction {
  enum class Kind : std::uint8_t {
    none,
    leave,
    act,    // do what the dialog says
    verb,   // run `text` as a command line of gpuyard
    copy,   // `text`
    mouse,  // as the model now has it
  };
  Kind what = Kind::none;
  std::string text = {};
};

// The list of the pane that is shown; of one GPU's page: that of the GPUs.
const List& list_of(const Model&);
// The GPU that is pointed at; null: there is none.
const protocol::Device* device_of(const Model&);
// The GPUs of the list, in its order.
std::vector<const protocol::Device*> gpus_of(const Model&);
std::vector<ProcessRow> processes_of(const Model&);
// The lease that has a GPU; null: none, or not known.
const protocol::Lease* lease_of(const Model&, const protocol::Device&);
// The moment that is shown: now, a past one, or that of a recording.
WallTime shown_moment(const Model&);
// "history needs a daemon, and none is running on this machine"
std::string needs_daemon_text(std::string_view what);
// Whether this command may change something now; if not, why not.
Result<void> check_can_change(const Model&, Command);

// The panes that Tab goes through.
inline constexpr std::array kPanes = {Pane::overview, Pane::processes, Pane::queue, Pane::alerts,
                                      Pane::usage};
void select_row(List&, std::size_t position);

// Replaces the data by what the source returned.
void update(Model&, ScreenData);
// Puts the rows of all lists in order; after new data and keys.
void sort_lists(Model&);
SessionAction handle_key(Model&, const Stroke&, const Grid& shown);
// Shows the result of the dialog's action.
void finish_action(Model&, const Result<std::string>& done);

// A time as people type it: "02:10", "3h" (ago), or RFC 3339. Errc::invalid.
Result<WallTime> parse_time(std::string_view text, WallTime now);

}  // namespace gpuyard::cli::top
