#include "api/event_view.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "base/json_writer.h"
#include "http/event_stream.h"

namespace gpuyard::api {
namespace {

using protocol::SampleDetail;

}  // namespace

EventView::EventView(SampleDetail detail, std::string_view gpus, const ProcessBook* book)
    : detail_(detail), book_(book) {
  for (std::string& name : names_in(gpus)) wanted_.push_back({std::move(name), {}});
}

std::vector<std::string> EventView::names_in(std::string_view gpus) {
  std::set<std::string, std::less<>> names;
  while (!gpus.empty()) {
    const std::size_t comma = std::min(gpus.find(','), gpus.size());
    if (comma > 0) names.emplace(gpus.substr(0, comma));
    gpus.remove_prefix(std::min(comma + 1, gpus.size()));
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
}

http::Chunk EventView::sample(const Snapshot& snapshot, std::uint64_t number,
                              std::uint64_t skipped) {
  const std::string& body = body_of(snapshot, number);
  const auto event = [&] {
    const std::string data = fmt::format(R"({{"skipped":{},"snapshot":{}}})", skipped, body);
    return http::event_chunk(protocol::kSnapshotEvent, data);
  };
  if (skipped > 0) return event();
  if (!sample_) sample_ = event();
  return sample_;
}

http::Chunk EventView::resync(const Snapshot& snapshot, std::uint64_t number,
                              protocol::ResyncReason reason, const protocol::EventId& id) {
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

std::string EventView::render(const Snapshot& snapshot) const {
  const auto in_view = [&]<class Picture>(Picture picture) {
    std::size_t next = 0;
    std::erase_if(picture.devices,
                  [&](const auto&) { return !takes(snapshot.devices[next++].info.id); });
    return json::to_json(picture);
  };
  return detail_ == SampleDetail::full ? in_view(protocol::snapshot_of(snapshot, book_))
                                       : in_view(protocol::summary_of(snapshot));
}

}  // namespace gpuyard::api
