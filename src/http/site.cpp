#include "http/site.h"

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

}  // namespace gpuyard::http
