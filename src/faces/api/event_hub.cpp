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
#include "faces/api/bound_route.h"
#include "faces/api/context.h"
#include "faces/api/gpu_names.h"
#include "faces/api/responder.h"
#include "io/http/event_parser.h"
#include "io/http/event_stream.h"

namespace gpuyard::api {

using protocol::EventId;
using protocol::ResyncReason;
using protocol::SampleDetail;

// The listeners hold it as well: their sessions may end after the hub.
struct EventHub::State {
  struct StoredEvent {
    http::Chunk chunk;
    DeviceId device;
    bool stops_work = false;
  };
  struct StopEvent {
    std::uint64_t sequence = 0;
    StoredEvent event;
  };
  using ViewKey = std::pair<SampleDetail, std::string>;

  std::string epoch;
  const ProcessDirectory* processes = nullptr;
  std::deque<StoredEvent> events;  // the newest events
  std::size_t event_bytes = 0;
  std::uint64_t last_sequence = 0;    // sequence of events.back()
  std::deque<StopEvent> stop_events;  // events that stop work, older than `events`
  std::shared_ptr<const Snapshot> snapshot;
  std::uint64_t snapshot_count = 0;  // snapshots so far
  http::Chunk newest_state;
  std::uint64_t state_count = 0;  // states so far
  std::map<ViewKey, std::weak_ptr<EventView>> views;
  std::set<Listener*> listeners;

  bool has_events_since(std::uint64_t sequence) const {
    return sequence <= last_sequence && last_sequence - sequence <= events.size();
  }
  const StoredEvent& event(std::uint64_t sequence) const {
    return events[events.size() - 1 - (last_sequence - sequence)];
  }

  void append(StoredEvent event) {
    event_bytes += event.chunk.framed().size();
    events.push_back(std::move(event));
    ++last_sequence;
    while (events.size() > kMaxEvents || event_bytes > kMaxEventBytes) {
      event_bytes -= events.front().chunk.framed().size();
      if (events.front().stops_work) append_stop({first_sequence(), std::move(events.front())});
      events.pop_front();
    }
  }

  std::uint64_t first_sequence() const { return last_sequence - events.size() + 1; }
  void append_stop(StopEvent stop) {
    if (stop_events.size() == kMaxStopEvents) stop_events.pop_front();
    stop_events.push_back(std::move(stop));
  }
  // Returns the next event that stops work after `sequence`, from before `end`; null if none.
  const StopEvent* find_stop_after(std::uint64_t sequence, std::uint64_t end) const {
    const auto found = std::ranges::upper_bound(stop_events, sequence, {}, &StopEvent::sequence);
    return found != stop_events.end() && found->sequence < end ? &*found : nullptr;
  }

  std::shared_ptr<EventView> view(SampleDetail detail, const std::string& gpus) {
    std::erase_if(views, [](const auto& entry) { return entry.second.expired(); });
    const std::string names = fmt::format("{}", fmt::join(EventView::parse_names(gpus), ","));
    auto& known = views[{detail, names}];
    auto view = known.lock();
    if (!view) {
      known = view = std::make_shared<EventView>(detail, names, processes);
      view->resolve_names(*snapshot);
    }
    return view;
  }
};

class EventHub::Listener final : public http::ResponseStream {
 public:
  Listener(std::shared_ptr<State> state, std::shared_ptr<EventView> view,
           const protocol::EventsRequest& request)
      : state_(std::move(state)),
        view_(std::move(view)),
        snapshot_number_(state_->snapshot_count),
        state_number_(state_->state_count),
        static_revision_(view_->static_revision()) {
    set_position(request);
    state_->listeners.insert(this);
  }
  ~Listener() override { state_->listeners.erase(this); }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  http::Chunk next() override {
    if (!state_->has_events_since(position_)) resync_ = ResyncReason::too_old;
    if (const auto reason = std::exchange(resync_, std::nullopt)) return resync(*reason);
    while (const State::StopEvent* stop = next_stop()) {
      stops_after_ = stop->sequence;
      if (view_->matches(stop->event.device)) return stop->event.chunk;
    }
    while (position_ < state_->last_sequence) {
      const State::StoredEvent& event = state_->event(++position_);
      if (view_->matches(event.device)) return event.chunk;
    }
    if (!view_->needs_samples()) return {};
    if (view_->needs_states() &&
        std::exchange(state_number_, state_->state_count) != state_->state_count) {
      return state_->newest_state;
    }
    if (snapshot_number_ == state_->snapshot_count) return {};
    if (static_revision_ != view_->static_revision()) return resync(ResyncReason::gpus_changed);
    const std::uint64_t skipped = state_->snapshot_count - snapshot_number_ - 1;
    snapshot_number_ = state_->snapshot_count;
    return view_->sample(*state_->snapshot, snapshot_number_, skipped);
  }

  bool is_over() const override { return !follows_; }

  void on_event() const { notify_more(); }
  void on_snapshot() const {
    if (view_->needs_samples()) notify_more();
  }

 private:
  void set_position(const protocol::EventsRequest& request) {
    follows_ = request.follow.value_or(true);
    if (!request.last_event_id && request.since == protocol::kOldest) {
      position_ = state_->last_sequence - state_->events.size();
      stops_after_ = 0;
      return;
    }
    const auto& text = request.last_event_id ? request.last_event_id : request.since;
    const auto id = protocol::parse_event_id(text.value_or(""));
    if (!text) {
      resync_ = ResyncReason::new_listener;
    } else if (!id || id->epoch != state_->epoch || id->sequence > state_->last_sequence) {
      resync_ = ResyncReason::unknown_id;
    }
    position_ = resync_ ? state_->last_sequence : id->sequence;
  }

  // The events that stop work from before those that are all kept, for a listener that wants the
  // oldest.
  const State::StopEvent* next_stop() {
    if (!stops_after_) return nullptr;
    const State::StopEvent* const stop = state_->find_stop_after(*stops_after_, position_ + 1);
    if (stop == nullptr) stops_after_.reset();
    return stop;
  }

  http::Chunk resync(ResyncReason reason) {
    position_ = state_->last_sequence;
    stops_after_.reset();
    snapshot_number_ = state_->snapshot_count;
    static_revision_ = view_->static_revision();
    const EventId id{state_->epoch, position_};
    return view_->resync(*state_->snapshot, snapshot_number_, reason, id);
  }

  std::shared_ptr<State> state_;
  std::shared_ptr<EventView> view_;
  std::uint64_t position_ = 0;                // the last event it has, or skips
  std::optional<std::uint64_t> stops_after_;  // empty: it has the earlier ones, or wants none
  std::uint64_t snapshot_number_;             // the last snapshot it has
  std::uint64_t state_number_;                // the last state it has
  std::uint64_t static_revision_;             // EventView::static_revision() at its last resync
  std::optional<ResyncReason> resync_;
  bool follows_ = true;
};

EventHub::EventHub(std::string epoch, std::shared_ptr<const Snapshot> known,
                   const ProcessDirectory* directory)
    : state_(std::make_shared<State>()) {
  state_->epoch = std::move(epoch);
  state_->snapshot = std::move(known);
  state_->processes = directory;
}
EventHub::~EventHub() = default;

void EventHub::publish(std::string_view name, std::string_view json, const DeviceId& device,
                       EventSeverity severity) {
  const EventId id{state_->epoch, state_->last_sequence + 1};
  state_->append(
      {http::event_chunk(name, json, id.text()), device, severity == EventSeverity::stop});
  for (const Listener* listener : state_->listeners) listener->on_event();
}

void EventHub::publish_state(std::string_view name, std::string_view json) {
  state_->newest_state = http::event_chunk(name, json);
  ++state_->state_count;
  for (const Listener* listener : state_->listeners) listener->on_snapshot();
}

void EventHub::set_snapshot(std::shared_ptr<const Snapshot> snapshot) {
  state_->snapshot = std::move(snapshot);
  ++state_->snapshot_count;
  for (const auto& [key, weak] : state_->views) {
    if (const auto view = weak.lock()) view->resolve_names(*state_->snapshot);
  }
  for (const Listener* listener : state_->listeners) listener->on_snapshot();
}

std::shared_ptr<http::ResponseStream> EventHub::open_stream(
    const protocol::EventsRequest& request) {
  auto view =
      state_->view(request.samples.value_or(SampleDetail::summary), request.gpus.value_or(""));
  return std::make_shared<Listener>(state_, std::move(view), request);
}

std::size_t EventHub::listeners() const {
  return state_->listeners.size();
}

EventView::EventView(SampleDetail detail, std::string_view gpus, const ProcessDirectory* directory)
    : detail_(detail), processes_(directory) {
  for (std::string& name : parse_names(gpus)) gpus_.push_back({std::move(name), {}});
}

std::vector<std::string> EventView::parse_names(std::string_view gpus) {
  std::set<std::string, std::less<>> names;
  while (!gpus.empty()) {
    const std::string_view name = take_until(',', gpus);
    if (!name.empty()) names.emplace(name);
  }
  return {names.begin(), names.end()};
}

bool EventView::matches(const DeviceId& device) const {
  return device.empty() || gpus_.empty() ||
         std::ranges::find(gpus_, device, &NamedGpu::id) != gpus_.end();
}

void EventView::resolve_names(const Snapshot& snapshot) {
  for (NamedGpu& wanted : gpus_) {
    if (const auto device = find_device(snapshot, wanted.name)) wanted.id = (*device)->info.id;
  }
  if (!is_columnar()) return;
  std::string columns = protocol::static_columns_of(snapshot, matching_devices(snapshot));
  if (columns == static_columns_) return;
  static_columns_ = std::move(columns);
  ++static_revision_;
}

http::Chunk EventView::sample(const Snapshot& snapshot, std::uint64_t number,
                              std::uint64_t skipped) {
  const std::string& body = body_of(snapshot, number);
  const auto event = [&] {
    if (is_columnar()) return http::event_chunk(protocol::kColumnsEvent, body);
    const std::string data = fmt::format(R"({{"skipped":{},"snapshot":{}}})", skipped, body);
    return http::event_chunk(protocol::kSnapshotEvent, data);
  };
  if (skipped > 0 && !is_columnar()) return event();
  if (!sample_) sample_ = event();
  return sample_;
}

http::Chunk EventView::resync(const Snapshot& snapshot, std::uint64_t number,
                              protocol::ResyncReason reason, const protocol::EventId& id) {
  if (is_columnar()) {
    auto all = protocol::columns_resync_of(snapshot, reason);
    std::vector<protocol::ColumnsDevice> devices;
    for (const std::size_t gpu : matching_devices(snapshot))
      devices.push_back(std::move(all.devices[gpu]));
    all.devices = std::move(devices);
    return http::event_chunk(protocol::kResyncEvent, json::to_json(all), id.text());
  }
  const std::string data = fmt::format(R"({{"reason":"{}","snapshot":{}}})", enum_name(reason),
                                       body_of(snapshot, number));
  return http::event_chunk(protocol::kResyncEvent, data, id.text());
}

const std::string& EventView::body_of(const Snapshot& snapshot, std::uint64_t number) {
  if (rendered_number_ != number) {
    body_ = render(snapshot);
    sample_ = {};
    rendered_number_ = number;
  }
  return body_;
}

std::vector<std::size_t> EventView::matching_devices(const Snapshot& snapshot) const {
  std::vector<std::size_t> gpus;
  for (std::size_t gpu = 0; gpu < snapshot.devices.size(); ++gpu) {
    if (matches(snapshot.devices[gpu].info.id)) gpus.push_back(gpu);
  }
  return gpus;
}

std::string EventView::render(const Snapshot& snapshot) const {
  if (is_columnar()) return protocol::columns_of(snapshot, matching_devices(snapshot));
  const auto only = [&]<class Picture>(Picture view) {
    std::size_t next = 0;
    std::erase_if(view.devices,
                  [&](const auto&) { return !matches(snapshot.devices[next++].info.id); });
    return json::to_json(view);
  };
  return detail_ == SampleDetail::full ? only(protocol::snapshot_of(snapshot, processes_))
                                       : only(protocol::summary_of(snapshot));
}

namespace {

void get_events(GpuApi& api, const protocol::EventsRequest& request,
                const Responder<Text>& respond) {
  const bool wants_oldest = request.since == protocol::kOldest;
  if (request.since && !wants_oldest && !protocol::parse_event_id(*request.since)) {
    return respond(Error{Errc::invalid,
                         fmt::format("parameter since: expected an event ID or oldest; got \"{}\"",
                                     printable(*request.since))});
  }
  if (EventView::parse_names(request.gpus.value_or("")).size() > EventView::kMaxNames) {
    return respond(
        Error{Errc::invalid, fmt::format("parameter gpus: at most {} GPUs", EventView::kMaxNames)});
  }
  // A name that no GPU has is most likely a mistake; without a driver a GPU may still appear.
  const Snapshot& snapshot = *api.telemetry.latest();
  if (snapshot.driver.initialised) {
    const auto known = resolve_gpus(snapshot, request.gpus.value_or(""));
    if (!known) return respond(known.error());
  }
  respond.send(http::event_stream(api.events.open_stream(request)));
}

}  // namespace

std::vector<BoundRoute> event_routes() {
  return {bind(protocol::kEvents, &get_events)};
}

}  // namespace gpuyard::api
