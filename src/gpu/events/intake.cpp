#include "events/intake.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "base/printable.h"
#include "base/record.h"
#include "device/pci.h"
#include "device/xid_table.h"

namespace gpuyard::events {
namespace {

constexpr std::size_t kMostWords = 256;
constexpr Duration kLookForRefused = std::chrono::seconds(1);

std::string_view meaning_of(EventKind kind) {
  switch (kind) {
    case EventKind::ecc_corrected:
      return "A memory error was corrected.";
    case EventKind::ecc_uncorrected:
      return "A memory error could not be corrected.";
    case EventKind::poison:
      return "Poisoned data was met and stopped.";
    case EventKind::fatal_poison:
      return "Poisoned data was met and could not be stopped.";
    case EventKind::unavailable:
      return "The GPU is not available.";
    case EventKind::recovery_action:
      return "What would bring the GPU back to order has changed.";
    case EventKind::xid:
    case EventKind::events_lost:
      break;
  }
  return "";
}

void log_it(const Event& event) {
  const std::string line =
      event.index ? fmt::format("GPU {}: {}", *event.index, event.text) : event.text;
  if (event.severity == Severity::note) {
    log::info("{}", line);
  } else {
    log::warning("{}", line);
  }
}

}  // namespace

Severity severity_of(const DeviceEvent& event) {
  switch (event.kind) {
    case EventKind::xid:
      return event.xid ? xid_row(*event.xid).severity : Severity::note;
    case EventKind::ecc_corrected:
      return Severity::note;
    case EventKind::poison:
    case EventKind::recovery_action:
    case EventKind::events_lost:
      return Severity::warn;
    case EventKind::ecc_uncorrected:
    case EventKind::fatal_poison:
    case EventKind::unavailable:
      return Severity::stop;
  }
  return Severity::warn;
}

std::string sentence_of(const DeviceEvent& event) {
  std::string text(meaning_of(event.kind));
  if (event.xid) text = fmt::format("Xid {}: {}", *event.xid, xid_row(*event.xid).meaning);
  const std::string words = printable(std::string_view(event.text).substr(0, kMostWords));
  if (words.empty() || text.find(words) != text.npos) return text;
  return text.empty() ? words : fmt::format("{} ({})", text, words);
}

Intake::Intake(Loop& loop, Journal& journal, Listener listener)
    : loop_(loop), journal_(journal), listener_(std::move(listener)) {
  for (const EventSource source : {EventSource::driver, EventSource::kernel_log}) {
    limits_.emplace(source, EventLimit(kBurst, kEachSecond));
  }
}

void Intake::on_fleet(const Fleet& fleet) {
  for (const DeviceInfo& info : fleet.devices) {
    if (info.uuid.empty()) continue;  // nothing can be told of it yet
    if (!names_.contains(info.id) && names_.size() >= kMostGpus) continue;
    names_[info.id] = {info.index, info.pci_address};
  }
}

void Intake::on_driver_event(const DeviceEvent& event) {
  DeviceEvent named = event;
  if (!names_.contains(event.device)) named.device.clear();  // who says so may be out of its mind
  named.source = EventSource::driver;
  named.at = std::min(event.at, loop_.now());
  if (named.kind != EventKind::xid) named.xid.reset();
  take(named, "a GPU that is not listed");
}

void Intake::on_kernel_xid(const KernelXid& xid, TimePoint written) {
  DeviceEvent event{"",      EventKind::xid, EventSource::kernel_log, written, xid.xid,
                    xid.pid, xid.text};
  const auto gpu = std::ranges::find_if(names_, [&](const auto& one) {
    return same_pci_slot(one.second.pci_address, xid.pci_address);
  });
  if (gpu != names_.end()) event.device = gpu->first;
  take(event, "the GPU at " + xid.pci_address);
}

void Intake::on_lost(const std::string& what) {
  take({"", EventKind::events_lost, EventSource::kernel_log, loop_.now(), {}, {}, what}, "");
}

void Intake::take(const DeviceEvent& event, const std::string& where) {
  if (!limits_.at(event.source).admit(event.device, loop_.now())) {
    if (!refused_timer_) tell_refused();
    return;
  }
  if (!dedupe_.is_new(event, loop_.now())) return listener_.on_echo(event);
  tell(event, where);
}

// Now and until all is told.
void Intake::tell_refused() {
  refused_timer_.reset();
  bool more = false;
  for (auto& [source, limit] : limits_) {
    for (const DeviceEvent& lost : limit.take_refused(source, loop_.now())) {
      tell(lost, "GPUs that are not listed");
    }
    more = more || limit.holds_back();
  }
  if (more) refused_timer_ = loop_.call_after(kLookForRefused, [this] { tell_refused(); });
}

void Intake::tell(const DeviceEvent& event, const std::string& where) {
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
  log_it(journal_.add(std::move(entry)));
  listener_.on_event(event);
}

}  // namespace gpuyard::events
