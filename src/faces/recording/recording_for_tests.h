// Snapshots for tests, and a file that is removed at the end of its test.
#pragma once

#include <string>

#include "base/scratch_directory_for_tests.h"
#include "faces/protocol/resources.h"

namespace gpuyard::recording {

class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& text = "") { write(text); }

  void write(const std::string& text) const { directory_.write("recording", text); }
  std::string path() const { return directory_.in("recording"); }

 private:
  const ScratchDirectory directory_;
};

inline protocol::Device device(std::uint32_t index, const std::string& uuid) {
  protocol::Device out;
  out.index = index;
  out.uuid = uuid;
  out.name = "H100";
  return out;
}

inline void set(protocol::Device& device, Metric metric, std::int64_t number,
                std::uint16_t element = 0) {
  device.readings.set({metric, element, {}, number});
}

inline protocol::Snapshot snapshot(std::vector<protocol::Device> devices) {
  protocol::Snapshot out;
  out.taken_at = "2026-01-31T12:00:00.000Z";
  out.driver_initialised = true;
  out.driver.driver_version = "535.104.05";
  out.devices = std::move(devices);
  return out;
}

}  // namespace gpuyard::recording
