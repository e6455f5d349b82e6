// gpuyard events
#include <fmt/format.h>

#include "base/try.h"
#include "cli/read/json_output.h"
#include "cli/read/source_access.h"
#include "cli/screen/output.h"
#include "cli/screen/reading_text.h"
#include "cli/screen/screen.h"
#include "cli/shared_options.h"
#include "faces/client/event_follower.h"
#include "faces/client/forms.h"

namespace gpuyard::cli {
namespace {

constexpr Duration kEventPollTimeout = std::chrono::minutes(1);

Printable line_of(const protocol::GpuEvent& event, const std::string& id) {
  return json_line(EventAnswer{event, protocol::kSchemaVersion, id});
}

// Names the GPU, unless the sentence names it itself.
std::string sentence_of(const protocol::GpuEvent& event) {
  if (!event.index || event.text.starts_with("GPU ")) return event.text;
  return fmt::format("GPU {}: {}", *event.index, event.text);
}

// The words of alerts, which the JSON of events does not use.
std::string_view level_of(EventSeverity severity) {
  if (severity == EventSeverity::note) return "info";
  return severity == EventSeverity::warn ? "warning" : "critical";
}

Printable text_line(const protocol::GpuEvent& event, const Screen& screen) {
  const std::string what =
      fmt::format("{:<8}  {:<17} {}", level_of(event.severity), event.kind, sentence_of(event));
  return formatted("{}  {}\n", event.at, painted(screen, severity_tone(event.severity), what));
}

// The start of the output: behind an event, or at a time.
struct StartPoint {
  std::optional<std::string> event;
  std::optional<WallTime> time;
};

Result<StartPoint> start_point_of(const std::string& since) {
  if (since.empty()) return StartPoint{};
  const auto moment = parse_moment(since, wall_now());
  if (moment) return StartPoint{{}, moment->at};
  if (since == protocol::kOldest || protocol::parse_event_id(since)) return StartPoint{since, {}};
  return Error{
      Errc::invalid,
      fmt::format("--since: expected a time before now such as 90s, 2h or 7d, a moment such "
                  "as 02:10 or 2026-01-31 12:00, or an event ID; got \"{}\"",
                  printable(since))};
}

// Prints the events of a daemon, and goes on after it restarts.
class EventPrinter {
 public:
  EventPrinter(const EventsVerb& verb, const StartPoint& start, const http::Endpoint& daemon)
      : verb_(verb),
        from_(start.time),
        position_(daemon.text()),
        follower_(daemon, request_of(verb, start)) {}

  // Runs until there is nothing more to tell; returns the exit code.
  int run() {
    for (;;) {
      const std::string last = follower_.last_event_id();
      const auto event = follower_.next(kEventPollTimeout);
      if (!event) return print_error(event.error());
      if (!*event) continue;
      if ((*event)->kind == FollowerEventKind::ended) {
        if (!printed_ && !verb_.json) print("No events.\n");
        return 0;
      }
      if (auto handled = on_event(**event, last); !handled) return print_error(handled.error());
    }
  }

 private:
  using FollowerEventKind = client::FollowerEvent::Kind;

  static protocol::EventsRequest request_of(const EventsVerb& verb, const StartPoint& start) {
    protocol::EventsRequest request;
    request.samples = protocol::SampleDetail::none;
    request.follow = verb.follow;
    request.since = start.event.value_or(std::string(protocol::kOldest));
    request.gpus = non_empty(verb.gpus);
    return request;
  }

  Result<void> on_event(const client::FollowerEvent& follower_event, const std::string& last) {
    switch (follower_event.kind) {
      case FollowerEventKind::event:
        return follower_event.event.name == protocol::kDeviceEvent
                   ? print_event(follower_event.event)
                   : Result<void>();
      case FollowerEventKind::away:
        print_error({Errc::unavailable, follower_event.error.message + "; retrying",
                     follower_event.error.cause, follower_event.error.hint});
        return {};
      case FollowerEventKind::back:
        print_error({Errc::unavailable, "the daemon at " + position_ + " is reachable again"});
        return {};
      case FollowerEventKind::lost:
        print_error({Errc::not_found, fmt::format("the daemon no longer has the events after {}; "
                                                  "showing all events that it still has",
                                                  last)});
        return {};
      case FollowerEventKind::ended:
        break;
    }
    return {};
  }

  Result<void> print_event(const http::ServerEvent& message) {
    const auto event =
        GPUYARD_TRY(client::parse_reply<protocol::GpuEvent>(position_, message.data));
    const auto at = from_ ? from_rfc3339(event.at) : std::nullopt;
    if (at && *at < std::chrono::floor<std::chrono::seconds>(*from_)) return {};
    printed_ = true;
    print(verb_.json ? line_of(event, message.id)
                     : text_line(event, Screen::of_stdout(verb_.color)));
    return {};
  }

  const EventsVerb& verb_;
  std::optional<WallTime> from_;  // earlier events are not printed
  std::string position_;
  bool printed_ = false;
  client::EventFollower follower_;
};

}  // namespace

Options add_events(Options program, EventsVerb& verb) {
  const Options events = program.verb("events", "Show GPU and driver events");
  events.explain("Without --since, shows all events that the daemon has stored.");
  add_socket(events, verb.source.socket);
  events.flag("--follow", verb.follow, "Keep printing new events");
  events
      .option("--since", verb.since,
              "Only events after 2h (ago), 02:10, 2026-01-31 12:00 or an event ID")
      .metavar("TIME|ID")
      .details(
          "Only events since a moment, such as 2h, 7d, 02:10 or 2026-01-31 12:00, or after the "
          "event with this ID.");
  add_gpus(events, verb.gpus, "Only these GPUs: indexes, UUIDs or PCI addresses").default_is("all");
  events.flag("--json", verb.json, "Print one JSON object per event");
  add_color(events, verb.color);
  events.example("gpuyard events --follow")
      .example("gpuyard events 0 --since 7d", "Show the last week of GPU 0");
  return events;
}

int run(const EventsVerb& verb) {
  const auto start = start_point_of(verb.since);
  if (!start) return print_error(start.error());
  auto daemon = require_daemon(verb.source.socket, "events need");
  if (!daemon) return print_error(daemon.error());
  return EventPrinter(verb, *start, *daemon).run();
}

}  // namespace gpuyard::cli
