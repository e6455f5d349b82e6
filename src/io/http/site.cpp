#include "http/site.h"

#include <utility>

namespace gpuyard::http {

void Site::add(Connection& connection) {
  parties.add(connection);
  counters.active = parties.all().size();
}

void Site::remove(Connection& connection) {
  parties.remove(connection);
  counters.active = parties.all().size();
  counters.streams = parties.streams();
  if (!parties.all().empty()) return;
  if (auto done = std::exchange(drained, nullptr)) io.post(std::move(done));
}

void Site::begin_stream(Connection& connection) {
  parties.begin_stream(connection);
  counters.streams = parties.streams();
}

void Site::end_stream(Connection& connection) {
  parties.end_stream(connection);
  counters.streams = parties.streams();
}

}  // namespace gpuyard::http
