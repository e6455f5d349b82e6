#include "cli/top/model.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <utility>

#include "device/catalog.h"

namespace gpuyard::cli::top {
namespace {

struct Sequence {
  std::string_view bytes;
  Key key;
};
// As xterm and its kin send them; longer ones first.
constexpr std::array kSequences = {
    Sequence{"\x1b[5~", Key::page_up}, Sequence{"\x1b[6~", Key::page_down},
    Sequence{"\x1b[1~", Key::top},     Sequence{"\x1b[4~", Key::bottom},
    Sequence{"\x1b[21~", Key::quit},   Sequence{"\x1b[A", Key::up},
    Sequence{"\x1b[B", Key::down},     Sequence{"\x1b[C", Key::down},
    Sequence{"\x1b[D", Key::up},       Sequence{"\x1b[H", Key::top},
    Sequence{"\x1b[F", Key::bottom},   Sequence{"\x1bOA", Key::up},
    Sequence{"\x1bOB", Key::down},     Sequence{"\x1bOH", Key::top},
    Sequence{"\x1bOF", Key::bottom},   Sequence{"\x1bOP", Key::help},
};

Key key_of(char letter) {
  switch (letter) {
    case 'k':
      return Key::up;
    case 'j':
      return Key::down;
    case 'g':
      return Key::top;
    case 'G':
      return Key::bottom;
    case '\x15':  // Ctrl-U
      return Key::page_up;
    case '\x04':  // Ctrl-D
    case ' ':
      return Key::page_down;
    case '\r':
    case '\n':
      return Key::enter;
    case '\x1b':
      return Key::back;
    case 'q':
    case '\x03':  // Ctrl-C
      return Key::quit;
    case '1':
      return Key::overview;
    case '2':
      return Key::processes;
    case '3':
      return Key::queue;
    case '4':
      return Key::alerts;
    case '\t':
      return Key::next_pane;
    case 'd':
      return Key::density;
    case '?':
      return Key::help;
    default:
      return Key::none;
  }
}

// The end of an escape sequence that means nothing here; npos: it has not all come yet.
std::size_t end_of_sequence(std::string_view bytes) {
  if (bytes.size() < 2) return bytes.npos;
  for (std::size_t i = 2; i < bytes.size(); ++i) {
    if (bytes[i] >= '@' && bytes[i] <= '~') return i + 1;
  }
  return bytes.npos;
}

// How many lines the list of the pane has.
std::size_t lines_of(const Model& model) {
  if (model.pane == Pane::queue && model.news.queue) {
    const protocol::Queue& queue = *model.news.queue;
    return queue.waiting.size() + queue.withheld.size() + queue.squatters.size() +
           queue.notes.size();
  }
  if (model.pane == Pane::alerts && model.news.alerts) {
    return 2 * model.news.alerts->alerts.size() + model.news.alerts->pending.size();
  }
  std::size_t processes = 0;
  for (const protocol::Device& device : model.news.snapshot.devices) {
    if (device.processes) processes += device.processes->size();
  }
  return processes;
}

// The last line stays on the screen.
void scroll(Model& model, std::int64_t by) {
  const auto now = static_cast<std::int64_t>(model.scrolled);
  const auto last = static_cast<std::int64_t>(std::max<std::size_t>(lines_of(model), 1)) - 1;
  model.scrolled = static_cast<std::size_t>(std::clamp<std::int64_t>(now + by, 0, last));
}

void point(Model& model, std::int64_t by) {
  const auto count = static_cast<std::int64_t>(model.news.snapshot.devices.size());
  const auto now = static_cast<std::int64_t>(model.gpu);
  model.gpu = static_cast<std::size_t>(
      std::clamp<std::int64_t>(now + by, 0, std::max<std::int64_t>(count - 1, 0)));
}

void show(Model& model, Pane pane) {
  model.pane = pane;
  model.scrolled = 0;
}

Pane after(Pane pane) {
  constexpr std::array kOrder = {Pane::overview, Pane::processes, Pane::queue, Pane::alerts};
  const auto* const now = std::ranges::find(kOrder, pane);
  if (now == kOrder.end() || now + 1 == kOrder.end()) return kOrder.front();
  return *(now + 1);
}

}  // namespace

void note(Recent& recent, const protocol::Snapshot& snapshot) {
  std::set<std::string> there;
  for (const protocol::Device& device : snapshot.devices) {
    there.insert(device.uuid);
    const auto use = device.condition == DeviceCondition::responsive
                         ? device.readings.get(Metric::utilization_gpu)
                         : std::nullopt;
    std::deque<double>& values = recent[device.uuid];
    values.push_back(use ? static_cast<double>(*use) / 100 : kNoValue);
    if (values.size() > kRecent) values.pop_front();
  }
  std::erase_if(recent, [&](const auto& one) { return !there.contains(one.first); });
}

Key take_key(std::string& bytes, bool ended) {
  if (bytes.empty()) return Key::none;
  // No key is pressed together with Alt: Escape and a letter are two keys, however fast.
  const bool alone = bytes.size() == 1 ? ended : bytes[1] != '[' && bytes[1] != 'O';
  if (bytes.front() != '\x1b' || alone) {
    const Key key = key_of(bytes.front());
    bytes.erase(0, 1);
    return key;
  }
  for (const Sequence& one : kSequences) {
    if (!bytes.starts_with(one.bytes)) continue;
    bytes.erase(0, one.bytes.size());
    return one.key;
  }
  const std::size_t end = end_of_sequence(bytes);
  bytes.erase(0, end != bytes.npos ? end : (ended ? bytes.size() : 0));
  return Key::none;
}

bool press(Model& model, Key key, Size size) {
  const auto page = static_cast<std::int64_t>(std::max<std::size_t>(size.rows / 2, 1));
  const bool points = model.pane == Pane::overview || model.pane == Pane::gpu;
  const auto move = [&](std::int64_t by) { points ? point(model, by) : scroll(model, by); };
  switch (key) {
    case Key::up:
      move(-1);
      break;
    case Key::down:
      move(1);
      break;
    case Key::page_up:
      points ? scroll(model, -page) : move(-page);
      break;
    case Key::page_down:
      points ? scroll(model, page) : move(page);
      break;
    case Key::top:
      points ? point(model, INT32_MIN) : scroll(model, INT32_MIN);
      break;
    case Key::bottom:
      move(INT32_MAX);
      break;
    case Key::enter:
      if (model.pane == Pane::overview) show(model, Pane::gpu);
      break;
    case Key::back:
      show(model, Pane::overview);
      break;
    case Key::quit:
      return false;
    case Key::overview:
      show(model, Pane::overview);
      break;
    case Key::processes:
      show(model, Pane::processes);
      break;
    case Key::queue:
      show(model, Pane::queue);
      break;
    case Key::alerts:
      show(model, Pane::alerts);
      break;
    case Key::next_pane:
      show(model, after(model.pane));
      break;
    case Key::density:
      model.detailed = !model.detailed;
      break;
    case Key::help:
      show(model, model.pane == Pane::help ? Pane::overview : Pane::help);
      break;
    case Key::none:
      break;
  }
  return true;
}

}  // namespace gpuyard::cli::top
