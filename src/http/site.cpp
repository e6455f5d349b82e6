#include "http/site.h"

#include <algorithm>
#include <utility>

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

bool Site::make_room(const void* seat) {
  Connection* longest = nullptr;
  for (Connection* connection : connections) {
    const auto since = connection->waiting_since();
    if (!since || connection->seat() != seat) continue;
    if (longest == nullptr || *since < *longest->waiting_since()) longest = connection;
  }
  if (longest != nullptr) longest->abort();
  return longest != nullptr;
}

bool Site::may_stream(const void* seat) const {
  if (counters.streams >= limits.all_streams) return false;
  const auto here = std::ranges::count_if(connections, [&](const Connection* connection) {
    return connection->streams() && connection->seat() == seat;
  });
  return static_cast<std::size_t>(here) < limits.streams;
}

}  // namespace gpuyard::http
