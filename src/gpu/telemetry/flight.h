// A fresh read under way: which rows, since when, and for whom.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "device/snapshot.h"
#include "telemetry/track.h"

namespace gpuyard::telemetry {

using SnapshotPtr = std::shared_ptr<const Snapshot>;
using FreshDone = std::function<void(const SnapshotPtr&)>;

// So long does a fresh read wait for a GPU.
inline constexpr Duration kFreshDeadline = std::chrono::milliseconds(250);

struct Flight {
  ProbeSet probes;
  TimePoint began;
  std::vector<FreshDone> callers;
};

// Every GPU worth waiting for has answered since the flight began. One that is unresponsive, or
// that cannot be read at all, is not worth waiting for.
bool has_landed(const Flight&, const std::vector<Track>&, TimePoint now);

// Of `all`, only the flight's rows and only those read since it began; the others are missing.
Snapshot only_fresh(Snapshot all, const Flight&);

}  // namespace gpuyard::telemetry
