// A notification: one message about an alert, as plain data that can be saved and read back. Knows
// no rule and no sink.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <boost/describe.hpp>

#include "base/clock.h"
#include "base/json_shape.h"

namespace gpuyard::notify {

enum class Status : std::uint8_t { firing, resolved };
BOOST_DESCRIBE_ENUM(Status, firing, resolved)

// In rising order: a sink takes notifications of at least its own level.
enum class NotificationLevel : std::uint8_t { info, warning, error, critical };
BOOST_DESCRIBE_ENUM(NotificationLevel, info, warning, error, critical)

// 0-39 info, 40-59 warning, 60-79 error, from 80 on critical.
NotificationLevel level_of(unsigned severity);

struct NotificationGpu {
  std::optional<std::uint32_t> index;  // none: another GPU has the index that it had
  std::string uuid;
  std::string pci_address;
  std::string name;

  friend bool operator==(const NotificationGpu&, const NotificationGpu&) = default;
};
BOOST_DESCRIBE_STRUCT(NotificationGpu, (), (index, uuid, pci_address, name))

// "3", or the UUID of a GPU without an index of its own.
std::string name_of(const NotificationGpu&);

struct Notification {
  std::string id;   // of this notification: the same at each try and after a restart
  std::string key;  // of the alert, "RULE/UUID": the same whatever is measured
  std::string rule;
  Status status = Status::firing;
  unsigned severity = 0;  // 0 to 100
  NotificationLevel level = NotificationLevel::info;
  std::string message;
  std::string advice;                  // "": there is none
  std::optional<NotificationGpu> gpu;  // none: the alert is about the node
  std::string host;
  WallTime started_at{};
  std::optional<WallTime> ended_at;  // if it is resolved
  bool simulated = false;
  bool test = false;  // a user tests whether alerts arrive

  friend bool operator==(const Notification&, const Notification&) = default;
};
BOOST_DESCRIBE_STRUCT(Notification, (),
                      (id, key, rule, status, severity, level, message, advice, gpu, host,
                       started_at, ended_at, simulated, test))

// "ALERT [severity 85]: GPU 3 is at 91 °C"; "RESOLVED [severity 85]: ..." of one that is resolved.
std::string log_line(const Notification&);

// Writes it at once, at the level of the alert.
void log_notification(const Notification&);

}  // namespace gpuyard::notify
