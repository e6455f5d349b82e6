#include "faces/api/event_hub.h"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/json_writer.h"
#include "base/text.h"
#include "faces/api/context.h"
#include "faces/api/devices.h"
#include "faces/api/router.h"
#include "io/http/event_stream.h"

namespace gpuyard::api {

using protocol::EventId;
using protocol::ResyncReason;
using protocol::SampleDetail;

// The listeners hold it as well: their sessions may end after the hub.
struct EventHub::State {
  struct Kept {
    http::Chunk chunk;
    DeviceId device;
    bool stops_work = false;
  };
  struct Stop {
    std::uint64_t sequence = 0;
    Kept event;
  };
  using ViewKey = std::pair<SampleDetail, std::string>;

  std::string epoch;
  const ProcessDirectory* book = nullptr;
  std::deque<Kept> kept;  // the newest events
  std::size_t kept_bytes = 0;
  std::uint64_t last = 0;  // sequence of kept.back()
  std::deque<Stop> stops;  // events that stop work, older than `kept`
  std::shared_ptr<const Snapshot> newest;
  std::uint64_t shown = 0;  // snapshots so far
  http::Chunk report;
  std::uint64_t reported = 0;  // reports so far
  std::map<ViewKey, std::weak_ptr<EventView>> views;
  std::set<Listener*> listeners;

  bool remembers_since(std::uint64_t sequence) const {
    return sequence <= last && last - sequence <= kept.size();
  }
  const Kept& event(std::uint64_t sequence) const {
    return kept[kept.size() - 1 - (last - sequence)];
  }

  void keep(Kept event) {
    kept_bytes += event.chunk.framed().size();
    kept.push_back(std::move(event));
    ++last;
    while (kept.size() > kKept || kept_bytes > kKeptBytes) {
      kept_bytes -= kept.front().chunk.framed().size();
      if (kept.front().stops_work) keep_stop({first_kept(), std::move(kept.front())});
      kept.pop_front();
    }
  }

  std::uint64_t first_kept() const { return last - kept.size() + 1; }
  void keep_stop(Stop stop) {
    if (stops.size() == kKeptStops) stops.pop_front();
    stops.push_back(std::move(stop));
  }
  // Returns the next event that stops work after `sequence`, from before `end`; null if none.
  const Stop* stop_after(std::uint64_t sequence, std::uint64_t end) const {
    const auto found = std::ranges::upper_bound(stops, sequence, {}, &Stop::sequence);
    return found != stops.end() && found->sequence < end ? &*found : nullptr;
  }

  std::shared_ptr<EventView> view(SampleDetail detail, const std::string& gpus) {
    std::erase_if(views, [](const auto& entry) { return entry.second.expired(); });
    const std::string names = fmt::format("{}", fmt::join(EventView::names_in(gpus), ","));
    auto& known = views[{detail, names}];
    auto view = known.lock();
    if (!view) {
      known = view = std::make_shared<EventView>(detail, names, book);
      view->learn(*newest);
    }
    return view;
  }
};

class EventHub::Listener final : public http::Feed {
 public:
  Listener(std::shared_ptr<State> state, std::shared_ptr<EventView> view,
           const protocol::EventsRequest& request)
      : state_(std::move(state)),
        view_(std::move(view)),
        seen_(state_->shown),
        heard_(state_->reported),
        told_once_(view_->told_once()) {
    place(request);
    state_->listeners.insert(this);
  }
  ~Listener() override { state_->listeners.erase(this); }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  http::Chunk next() override {
    if (!state_->remembers_since(position_)) resync_ = ResyncReason::too_old;
    if (const auto reason = std::exchange(resync_, std::nullopt)) return resync(*reason);
    while (const State::Stop* stop = next_stop()) {
      stops_from_ = stop->sequence;
      if (view_->takes(stop->event.device)) return stop->event.chunk;
    }
    while (position_ < state_->last) {
      const State::Kept& event = state_->event(++position_);
      if (view_->takes(event.device)) return event.chunk;
    }
    if (!view_->wants_samples()) return {};
    if (view_->wants_reports() && std::exchange(heard_, state_->reported) != state_->reported) {
      return state_->report;
    }
    if (seen_ == state_->shown) return {};
    if (told_once_ != view_->told_once()) return resync(ResyncReason::gpus_changed);
    const std::uint64_t skipped = state_->shown - seen_ - 1;
    seen_ = state_->shown;
    return view_->sample(*state_->newest, seen_, skipped);
  }

  bool over() const override { return !follows_; }

  void happened() const { more(); }
  void shown() const {
    if (view_->wants_samples()) more();
  }

 private:
  void place(const protocol::EventsRequest& request) {
    follows_ = request.follow.value_or(true);
    if (!request.last_event_id && request.since == protocol::kOldest) {
      position_ = state_->last - state_->kept.size();
      stops_from_ = 0;
      return;
    }
    const auto& text = request.last_event_id ? request.last_event_id : request.since;
    const auto id = protocol::parse_event_id(text.value_or(""));
    if (!text) {
      resync_ = ResyncReason::new_listener;
    } else if (!id || id->epoch != state_->epoch || id->sequence > state_->last) {
      resync_ = ResyncReason::unknown_id;
    }
    position_ = resync_ ? state_->last : id->sequence;
  }

  // The events that stop work from before those that are all kept, for a listener that wants the
  // oldest.
  const State::Stop* next_stop() {
    if (!stops_from_) return nullptr;
    const State::Stop* const stop = state_->stop_after(*stops_from_, position_ + 1);
    if (stop == nullptr) stops_from_.reset();
    return stop;
  }

  http::Chunk resync(ResyncReason reason) {
    position_ = state_->last;
    stops_from_.reset();
    seen_ = state_->shown;
    told_once_ = view_->told_once();
    const EventId id{state_->epoch, position_};
    return view_->resync(*state_->newest, seen_, reason, id);
  }

  std::shared_ptr<State> state_;
  std::shared_ptr<EventView> view_;
  std::uint64_t position_ = 0;               // the last event it has, or skips
  std::optional<std::uint64_t> stops_from_;  // empty: it has those of before, or wants none
  std::uint64_t seen_;                       // the last snapshot it has
  std::uint64_t heard_;                      // the last report
  std::uint64_t told_once_;                  // EventView::told_once() at its last resync
  std::optional<ResyncReason> resync_;
  bool follows_ = true;
};

EventHub::EventHub(std::string epoch, std::shared_ptr<const Snapshot> known,
                   const ProcessDirectory* book)
    : state_(std::make_shared<State>()) {
  state_->epoch = std::move(epoch);
  state_->newest = std::move(known);
  state_->book = book;
}
EventHub::~EventHub() = default;

void EventHub::publish(std::string_view name, std::string_view json, const DeviceId& device,
                       Severity severity) {
  const EventId id{state_->epoch, state_->last + 1};
  state_->keep({http::event_chunk(name, json, id.text()), device, severity == Severity::stop});
  for (const Listener* listener : state_->listeners) listener->happened();
}

void EventHub::report(std::string_view name, std::string_view json) {
  state_->report = http::event_chunk(name, json);
  ++state_->reported;
  for (const Listener* listener : state_->listeners) listener->shown();
}

void EventHub::show(std::shared_ptr<const Snapshot> snapshot) {
  state_->newest = std::move(snapshot);
  ++state_->shown;
  for (const auto& [key, weak] : state_->views) {
    if (const auto view = weak.lock()) view->learn(*state_->newest);
  }
  for (const Listener* listener : state_->listeners) listener->shown();
}

std::shared_ptr<http::Feed> EventHub::listen(const protocol::EventsRequest& request) {
  auto view =
      state_->view(request.samples.value_or(SampleDetail::summary), request.gpus.value_or(""));
  return std::make_shared<Listener>(state_, std::move(view), request);
}

std::size_t EventHub::listeners() const {
  return state_->listeners.size();
}

EventView::EventView(SampleDetail detail, std::string_view gpus, const ProcessDirectory* book)
    : detail_(detail), book_(book) {
  for (std::string& name : names_in(gpus)) wanted_.push_back({std::move(name), {}});
}

std::vector<std::string> EventView::names_in(std::string_view gpus) {
  std::set<std::string, std::less<>> names;
  while (!gpus.empty()) {
    const std::string_view name = take_until(',', gpus);
    if (!name.empty()) names.emplace(name);
  }
  return {names.begin(), names.end()};
}

bool EventView::takes(const DeviceId& device) const {
  return device.empty() || wanted_.empty() ||
         std::ranges::find(wanted_, device, &Wanted::id) != wanted_.end();
}

void EventView::learn(const Snapshot& snapshot) {
  for (Wanted& wanted : wanted_) {
    if (const auto device = find_device(snapshot, wanted.name)) wanted.id = (*device)->info.id;
  }
  if (!in_columns()) return;
  std::string told = protocol::told_once_of(snapshot, in_view(snapshot));
  if (told == told_) return;
  told_ = std::move(told);
  ++told_once_;
}

http::Chunk EventView::sample(const Snapshot& snapshot, std::uint64_t number,
                              std::uint64_t skipped) {
  const std::string& body = body_of(snapshot, number);
  const auto event = [&] {
    if (in_columns()) return http::event_chunk(protocol::kColumnsEvent, body);
    const std::string data = fmt::format(R"({{"skipped":{},"snapshot":{}}})", skipped, body);
    return http::event_chunk(protocol::kSnapshotEvent, data);
  };
  if (skipped > 0 && !in_columns()) return event();
  if (!sample_) sample_ = event();
  return sample_;
}

http::Chunk EventView::resync(const Snapshot& snapshot, std::uint64_t number,
                              protocol::ResyncReason reason, const protocol::EventId& id) {
  if (in_columns()) {
    auto all = protocol::columns_resync_of(snapshot, reason);
    std::vector<protocol::ColumnsDevice> devices;
    for (const std::size_t gpu : in_view(snapshot)) devices.push_back(std::move(all.devices[gpu]));
    all.devices = std::move(devices);
    return http::event_chunk(protocol::kResyncEvent, json::to_json(all), id.text());
  }
  const std::string data = fmt::format(R"({{"reason":"{}","snapshot":{}}})", enum_name(reason),
                                       body_of(snapshot, number));
  return http::event_chunk(protocol::kResyncEvent, data, id.text());
}

const std::string& EventView::body_of(const Snapshot& snapshot, std::uint64_t number) {
  if (rendered_ != number) {
    body_ = render(snapshot);
    sample_ = {};
    rendered_ = number;
  }
  return body_;
}

std::vector<std::size_t> EventView::in_view(const Snapshot& snapshot) const {
  std::vector<std::size_t> gpus;
  for (std::size_t gpu = 0; gpu < snapshot.devices.size(); ++gpu) {
    if (takes(snapshot.devices[gpu].info.id)) gpus.push_back(gpu);
  }
  return gpus;
}

std::string EventView::render(const Snapshot& snapshot) const {
  if (in_columns()) return protocol::columns_of(snapshot, in_view(snapshot));
  const auto only = [&]<class Picture>(Picture picture) {
    std::size_t next = 0;
    std::erase_if(picture.devices,
                  [&](const auto&) { return !takes(snapshot.devices[next++].info.id); });
    return json::to_json(picture);
  };
  return detail_ == SampleDetail::full ? only(protocol::snapshot_of(snapshot, book_))
                                       : only(protocol::summary_of(snapshot));
}

// The route of the stream of events.
namespace {

void get_events(Context& context, const protocol::EventsRequest& request,
                const Responder<Text>& respond) {
  const bool wants_oldest = request.since == protocol::kOldest;
  if (request.since && !wants_oldest && !protocol::parse_event_id(*request.since)) {
    return respond(Error{Errc::invalid,
                         fmt::format("parameter since: expected an event ID or oldest; got \"{}\"",
                                     printable(*request.since))});
  }
  if (EventView::names_in(request.gpus.value_or("")).size() > EventView::kMostNames) {
    return respond(Error{Errc::invalid,
                         fmt::format("parameter gpus: at most {} GPUs", EventView::kMostNames)});
  }
  // A name that no GPU has is most likely a mistake; without a driver a GPU may still appear.
  const Snapshot& snapshot = *context.telemetry.latest();
  if (snapshot.driver.initialised) {
    const auto known = gpus_named(snapshot, request.gpus.value_or(""));
    if (!known) return respond(known.error());
  }
  respond.as_is(http::event_stream(context.events.listen(request)));
}

}  // namespace

std::vector<BoundRoute> event_routes() {
  return {bind(protocol::kEvents, &get_events)};
}

}  // namespace gpuyard::api
