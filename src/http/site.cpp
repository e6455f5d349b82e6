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

}  // namespace gpuyard::http
