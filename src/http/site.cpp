#include "http/site.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

namespace gpuyard::http {

void Site::add(Connection& connection) {
  connections.insert(&connection);
  counters.active = connections.size();
}

void Site::remove(Connection& connection) {
  connections.erase(&connection);
  counters.active = connections.size();
  if (!connections.empty()) return;
  if (auto done = std::exchange(drained, nullptr)) io.post(std::move(done));
}

std::size_t Site::count(const Which& which) const {
  return static_cast<std::size_t>(
      std::ranges::count_if(connections, [&](const Connection* one) { return which(*one); }));
}

bool Site::end_idle(const Which& which) {
  Connection* longest = nullptr;
  for (Connection* one : connections) {
    if (one->doing() != Connection::Doing::waiting || !which(*one)) continue;
    if (longest == nullptr || one->waiting_since() < longest->waiting_since()) longest = one;
  }
  if (longest != nullptr) longest->abort();
  return longest != nullptr;
}

bool Site::take_from_most(const Which& which, std::size_t than) {
  std::map<std::string_view, std::vector<Connection*>> of_parties;
  for (Connection* one : connections) {
    const bool may_end = one->doing() != Connection::Doing::ending && !one->party().privileged;
    if (may_end && which(*one)) of_parties[one->party().name].push_back(one);
  }
  const auto most = std::ranges::max_element(of_parties, {},
                                             [](const auto& party) { return party.second.size(); });
  if (most == of_parties.end() || most->second.size() <= than) return false;
  const auto is_of = [&](const Connection& one) {
    return one.party().name == most->first && which(one);
  };
  if (!end_idle(is_of)) most->second.front()->abort();
  return true;
}

Site::Room Site::room_for(const Party& party, const void* seat, std::size_t taken) {
  const auto own = [&](const Connection& one) { return one.party().name == party.name; };
  const auto here = [&](const Connection& one) { return one.seat() == seat; };
  if (!party.privileged && connections.size() >= limits.connections_of_one &&
      count(own) >= limits.connections_of_one && !end_idle(own)) {
    return Room::own;
  }
  if (taken < limits.connections + (party.privileged ? limits.kept_places : 0)) return Room::there;
  const std::size_t own_here = count([&](const Connection& one) { return own(one) && here(one); });
  if (take_from_most(here, own_here + 1)) return Room::there;
  // An idle one of his own, or of somebody who has as many.
  const auto gives_way = [&](const Connection& one) {
    if (!here(one)) return false;
    if (own(one)) return true;
    if (one.party().privileged) return false;
    const auto of_party = [&](const Connection& other) {
      return here(other) && other.party().name == one.party().name;
    };
    return count(of_party) > own_here;
  };
  return end_idle(gives_way) ? Room::there : Room::nobody;
}

Site::Room Site::room_to_stream(const Connection& wants) {
  const auto streams = [](const Connection& one) {
    return one.doing() == Connection::Doing::streaming;
  };
  const auto own = [&](const Connection& one) {
    return streams(one) && one.party().name == wants.party().name;
  };
  const auto here = [&](const Connection& one) {
    return streams(one) && one.seat() == wants.seat();
  };
  const bool has_kept_places = wants.party().privileged;
  const std::size_t own_streams = count(own);
  if (!has_kept_places && own_streams >= limits.streams_of_one) return Room::own;
  const std::size_t more = has_kept_places ? limits.kept_places : 0;
  if (count(streams) >= limits.all_streams + more) {
    return take_from_most(streams, own_streams + 1) ? Room::there : Room::nobody;
  }
  if (count(here) >= limits.streams + more) {
    return take_from_most(here, own_streams + 1) ? Room::there : Room::nobody;
  }
  return Room::there;
}

}  // namespace gpuyard::http
