// gpuyard events
#include <thread>

#include <fmt/format.h>

#include "base/json_reader.h"
#include "base/json_writer.h"
#include "base/text.h"
#include "cli/client/daemon_client.h"
#include "cli/read/answers.h"
#include "cli/read/reading.h"
#include "cli/screen/reading_text.h"
#include "cli/screen/terminal.h"
#include "cli/shared_options.h"
#include "protocol/routes.h"

namespace gpuyard::cli {
namespace {

constexpr Duration kRetry = std::chrono::seconds(1);
// How long a stream may be silent before the daemon counts as away. It writes every 15 s.
constexpr Duration kLongestSilence = std::chrono::seconds(40);

std::string json_line(const protocol::GpuEvent& event, const std::string& id) {
  const EventAnswer answer{
      protocol::kSchemaVersion, id,        event.at,  event.device, event.index, event.kind,
      event.severity,           event.xid, event.text};
  return json::to_json(answer) + "\n";
}

// Names the GPU, unless the sentence names it itself.
std::string sentence_of(const protocol::GpuEvent& event) {
  if (!event.index || event.text.starts_with("GPU ")) return printable(event.text);
  return fmt::format("GPU {}: {}", *event.index, printable(event.text));
}

std::string text_line(const protocol::GpuEvent& event, const Screen& screen) {
  const std::string what = fmt::format("{:<4}  {:<17} {}", enum_name(event.severity),
                                       printable(event.kind), sentence_of(event));
  return printable(event.at) + "  " + painted(screen, severity_tone(event.severity), what) + "\n";
}

// Prints the events of a daemon, and goes on after it restarts.
class Follower {
 public:
  Follower(const EventsVerb& verb, http::Endpoint daemon)
      : verb_(verb), daemon_(std::move(daemon)), last_(verb.since) {}

  // Runs until there is nothing more to tell; returns the exit code.
  int run() {
    for (;;) {
      auto reader = open();
      if (reader && reader->response().status != 200) {
        return complain(client::error_of(reader->response()));
      }
      const auto end = reader ? tell(*reader) : Result<void>(std::move(reader).error());
      if (end) continue;  // the stream is to be opened anew
      const bool told_all = end.error().code == Errc::not_found;
      if (!verb_.follow) return told_all ? 0 : complain(end.error());
      if (!listened_) return complain(end.error());  // a first failure is no interruption
      lament(end.error());
      std::this_thread::sleep_for(kRetry);
    }
  }

 private:
  Result<http::EventReader> open() const {
    protocol::EventsRequest request;
    request.samples = protocol::SampleDetail::none;
    request.follow = verb_.follow;
    request.since = last_.empty() ? std::string(protocol::kOldest) : last_;
    request.gpus = if_given(verb_.gpus);
    http::ClientRequest asked;
    asked.target = client::target_of(protocol::kEvents.pattern, named_values(request));
    return http::EventReader::open(daemon_, std::move(asked), client::kAnswerDeadline);
  }

  // Prints the events of one stream. Ok: open it anew.
  Result<void> tell(http::EventReader& reader) {
    if (std::exchange(lamented_, false)) {
      complain({Errc::unavailable, "the daemon at " + daemon_.text() + " is back"});
    }
    listened_ = true;
    for (;;) {
      auto event = reader.next(kRetry);
      if (!event) return std::move(event).error();
      if (!*event && reader.silence() > kLongestSilence) {
        return Error{Errc::timed_out, "nothing comes from the daemon at " + daemon_.text()};
      }
      if (*event && (*event)->name == protocol::kResyncEvent) return begin_anew();
      if (*event && (*event)->name == protocol::kDeviceEvent) {
        if (auto shown = show(**event); !shown) return shown;
      }
    }
  }

  // The daemon no longer knows what followed the last event: all that it knows is news.
  Result<void> begin_anew() {
    complain({Errc::not_found,
              fmt::format("the daemon does not know what followed event {}; all that it knows "
                          "comes now",
                          last_)});
    last_.clear();
    return {};
  }

  Result<void> show(const http::ServerEvent& told) {
    const auto event = json::from_json<protocol::GpuEvent>(told.data, json::UnknownFields::ignore);
    if (!event) return Error{Errc::internal, "an event: " + event.error().message};
    last_ = told.id;
    print(verb_.json ? json_line(*event, told.id)
                     : text_line(*event, Screen::of_stdout(verb_.color)));
    return {};
  }

  // Says once that the daemon is away.
  void lament(const Error& why) {
    if (std::exchange(lamented_, true)) return;
    const bool ended = why.code == Errc::not_found;
    complain({Errc::unavailable,
              (ended ? "the daemon at " + daemon_.text() + " has ended" : why.message) +
                  "; trying again"});
  }

  const EventsVerb& verb_;
  http::Endpoint daemon_;
  std::string last_;  // id of the last event; empty: none is known
  bool listened_ = false;
  bool lamented_ = false;
};

}  // namespace

Options add_events(Options program, EventsVerb& verb) {
  const Options events = program.verb("events", "Show what happened to the GPUs and their driver");
  add_socket(events, verb.source.socket);
  events.flag("--follow", verb.follow, "Go on with what happens");
  events.option("--since", verb.since, "Only what followed the event with this id").type_name("ID");
  add_gpus(events, verb.gpus, "These GPUs only: indexes, UUIDs or PCI addresses");
  events.flag("--json", verb.json, "Print a line of JSON for each event");
  add_color(events, verb.color);
  return events;
}

int run(const EventsVerb& verb) {
  auto daemon = daemon_at(verb.source.socket,
                          "no daemon runs here, and nobody else remembers events; `gpuyard serve` "
                          "starts one");
  if (!daemon) return complain(daemon.error());
  return Follower(verb, *std::move(daemon)).run();
}

}  // namespace gpuyard::cli
