#include "gpu/events/event_collector.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "base/record.h"
#include "base/text.h"
#include "gpu/device/device.h"
#include "gpu/device/xid.h"
#include "gpu/events/event_log.h"

namespace gpuyard::events {
namespace {

constexpr std::size_t kMaxSourceTextBytes = 256;
constexpr Duration kDroppedPollInterval = std::chrono::seconds(1);

struct KindRow {
  EventKind kind;
  std::string_view meaning;
};

// The sentence of each kind; an Xid has its own.
constexpr std::array kKinds = {
    KindRow{EventKind::xid, ""},
    KindRow{EventKind::ecc_corrected, "A memory error was corrected."},
    KindRow{EventKind::ecc_uncorrected, "A memory error could not be corrected."},
    KindRow{EventKind::poison, "Poisoned data was detected and contained."},
    KindRow{EventKind::fatal_poison, "Poisoned data was detected and could not be contained."},
    KindRow{EventKind::unavailable, "The GPU is not available."},
    KindRow{EventKind::recovery_action, "The recommended recovery action for the GPU has changed."},
    KindRow{EventKind::events_lost, ""},
};

const KindRow& row_of(EventKind kind) {
  return *std::ranges::find(kKinds, kind, &KindRow::kind);
}

void log_event(const Event& event) {
  const std::string line = event.index ? fmt::format("GPU {}: {}", *event.index, event.text)
                           : event.device.empty()
                               ? event.text
                               : fmt::format("GPU {}: {}", event.device, event.text);
  if (event.severity == EventSeverity::note) {
    log::info("{}", line);
  } else {
    log::warning("{}", line);
  }
}

}  // namespace

std::string sentence_of(const DeviceEvent& event) {
  std::string text(row_of(event.kind).meaning);
  if (event.xid) text = fmt::format("Xid {}: {}", *event.xid, xid_row(*event.xid).meaning);
  const std::string source_text =
      printable(std::string_view(event.text).substr(0, kMaxSourceTextBytes));
  if (source_text.empty() || text.find(source_text) != text.npos) return text;
  return text.empty() ? source_text : fmt::format("{} ({})", text, source_text);
}

EventCollector::EventCollector(Loop& loop, EventLog& event_log, Listener listener)
    : loop_(loop), event_log_(event_log), listener_(std::move(listener)) {
  for (const EventSource source : {EventSource::driver, EventSource::kernel_log}) {
    rate_limiters_.emplace(source, EventRateLimiter(kBurst, kEventsPerSecond));
  }
}

void EventCollector::on_inventory(const Inventory& inventory) {
  for (const DeviceInfo& info : inventory.devices) {
    if (info.uuid.empty()) continue;  // it has no identity yet
    if (!names_.contains(info.id) && names_.size() >= kMaxGpus) continue;
    names_[info.id] = {own_index(info), info.pci_address};
  }
}

void EventCollector::on_driver_event(const DeviceEvent& event) {
  DeviceEvent named = event;
  if (!names_.contains(event.device)) named.device.clear();  // the driver-host may be corrupt
  named.source = EventSource::driver;
  named.at = std::min(event.at, loop_.now());
  if (named.kind != EventKind::xid) named.xid.reset();
  if (named.kind == EventKind::events_lost) drops_.driver += std::max<std::uint64_t>(named.lost, 1);
  accept(named, "a GPU that is not listed");
}

void EventCollector::on_kernel_xid(const KernelXid& xid, TimePoint written) {
  DeviceEvent event{"",      EventKind::xid, EventSource::kernel_log, written, xid.xid,
                    xid.pid, xid.text};
  const auto gpu = std::ranges::find_if(names_, [&](const auto& one) {
    return is_same_pci_slot(one.second.pci_address, xid.pci_address);
  });
  if (gpu != names_.end()) event.device = gpu->first;
  accept(event, "the GPU at " + xid.pci_address);
}

void EventCollector::on_events_lost(const std::string& what) {
  ++drops_.kernel_log;
  accept({"", EventKind::events_lost, EventSource::kernel_log, loop_.now(), {}, {}, what}, "");
}

std::uint64_t& EventCollector::drop_count(EventSource source) {
  return source == EventSource::driver ? drops_.driver : drops_.kernel_log;
}

void EventCollector::accept(const DeviceEvent& event, const std::string& where) {
  const TimePoint now = loop_.now();
  if (!rate_limiters_.at(event.source).admit(event, now)) {
    ++drop_count(event.source);
    if (!dropped_timer_) publish_dropped();
    return;
  }
  const auto other = deduplicator_.find_duplicate(event, now);
  if (!other) return publish(event, where);
  if (severity_of(event) > *other) record(event, where);
  listener_.on_duplicate_event(event);
}

// Publishes the counts of dropped events now, and again until none is left.
void EventCollector::publish_dropped() {
  dropped_timer_.reset();
  bool more = false;
  for (auto& [source, limit] : rate_limiters_) {
    for (const DeviceEvent& lost : limit.take_dropped(source, loop_.now())) {
      publish(lost, "GPUs that are not listed");
    }
    more = more || limit.has_dropped();
  }
  if (more) dropped_timer_ = loop_.call_after(kDroppedPollInterval, [this] { publish_dropped(); });
}

void EventCollector::publish(const DeviceEvent& event, const std::string& where) {
  record(event, where);
  listener_.on_event(event);
}

void EventCollector::record(const DeviceEvent& event, const std::string& where) {
  Event entry;
  entry.at = event.at;
  entry.wall =
      loop_.wall() - std::chrono::duration_cast<std::chrono::milliseconds>(loop_.now() - event.at);
  entry.device = event.device;
  entry.kind = enum_name(event.kind);
  entry.xid = event.xid;
  entry.severity = severity_of(event);
  entry.text = sentence_of(event);
  if (const auto name = names_.find(event.device); name != names_.end()) {
    entry.index = name->second.index;
  } else if (!where.empty()) {
    entry.text = fmt::format("{}: {}", where, entry.text);
  }
  log_event(event_log_.add(std::move(entry)));
}

}  // namespace gpuyard::events
