#include "gpu/telemetry/roster.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

namespace gpuyard::telemetry {
namespace {

bool contains(const std::vector<DeviceInfo>& all, const DeviceId& id) {
  return std::ranges::find(all, id, &DeviceInfo::id) != all.end();
}

// If the number of GPUs is unchanged and some do not open now, these are the GPUs that were in the
// same places before: they keep their identity.
std::vector<DeviceInfo> with_identity(std::vector<DeviceInfo> counted,
                                      const std::vector<DeviceInfo>& before) {
  if (counted.size() != before.size()) return counted;
  const std::vector<DeviceInfo> said = counted;
  for (DeviceInfo& info : counted) {
    if (!info.uuid.empty()) continue;
    const auto place = std::ranges::find(before, info.index, &DeviceInfo::index);
    if (place == before.end() || place->uuid.empty() || contains(said, place->id)) continue;
    DeviceInfo known = *place;
    known.fault = info.fault;
    info = std::move(known);
  }
  return counted;
}

DeviceInfo info_of(const KnownBoard& board) {
  return {board.uuid, board.index, board.uuid, board.pci_address, board.name, {}};
}

}  // namespace

void Roster::restore(const std::vector<KnownBoard>& boards) {
  for (const KnownBoard& board : boards) {
    if (contains(counted_, board.uuid)) continue;
    if (board.listed && !has_inventory_) {
      restored_.push_back(board);
    } else {
      add_missing(info_of(board), board.last_seen);
    }
  }
}

void Roster::update(const std::vector<DeviceInfo>& counted, WallTime wall) {
  std::map<DeviceId, WallTime> last_seen;
  for (const KnownBoard& board : std::exchange(restored_, {})) {
    counted_.push_back(info_of(board));
    last_seen.emplace(board.uuid, board.last_seen);
  }
  const auto before = std::exchange(counted_, with_identity(counted, counted_));
  has_inventory_ = true;
  for (const DeviceInfo& info : before) {
    if (info.uuid.empty() || contains(counted_, info.id)) continue;
    const auto seen = last_seen.find(info.id);
    add_missing(info, seen != last_seen.end() ? seen->second : wall);
  }
  std::erase_if(missing_, [&](const MissingBoard& one) { return contains(counted_, one.info.id); });
}

void Roster::add_missing(const DeviceInfo& info, WallTime last_seen) {
  const auto is_same = [&](const MissingBoard& one) { return one.info.id == info.id; };
  if (std::ranges::any_of(missing_, is_same)) return;
  MissingBoard gone{info, last_seen};
  gone.info.former_index = info.index;
  gone.info.fault =
      Missing{MissingReason::device_lost,
              "not present since " + to_rfc3339(last_seen) + ": the driver does not list it"};
  if (missing_.size() == kMaxMissing) missing_.erase(missing_.begin());
  missing_.push_back(std::move(gone));
}

bool Roster::remove_missing(const DeviceId& id) {
  return std::erase_if(missing_, [&](const MissingBoard& one) { return one.info.id == id; }) > 0;
}

std::vector<DeviceInfo> Roster::list() const {
  std::vector<DeviceInfo> all = counted_;
  std::set<std::uint32_t> taken;
  for (const DeviceInfo& info : counted_) taken.insert(info.index);
  std::vector<DeviceInfo> displaced;
  for (const MissingBoard& one : missing_) {
    (taken.insert(one.info.index).second ? all : displaced).push_back(one.info);
  }
  for (DeviceInfo& info : displaced) {
    info.fault->detail += fmt::format("; it was GPU {}", info.index);
    info.index = *taken.rbegin() + 1;
    taken.insert(info.index);
    all.push_back(std::move(info));
  }
  std::ranges::sort(all, {}, &DeviceInfo::index);
  return all;
}

std::vector<KnownBoard> Roster::known_boards(WallTime now) const {
  std::vector<KnownBoard> boards;
  const auto add = [&](const DeviceInfo& info, bool listed, WallTime last_seen) {
    if (info.uuid.empty()) return;
    boards.push_back(
        {info.uuid, info.index, info.pci_address, info.name, listed, last_seen, last_seen});
  };
  for (const DeviceInfo& info : counted_) add(info, true, now);
  for (const MissingBoard& one : missing_) add(one.info, false, one.last_seen);
  return boards;
}

}  // namespace gpuyard::telemetry
