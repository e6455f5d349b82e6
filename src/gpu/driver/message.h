// What the daemon and its driver-host say to each other: one message per SOCK_SEQPACKET datagram.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <variant>

#include "base/result.h"
#include "device/command.h"
#include "device/event.h"
#include "device/read.h"

namespace gpuyard::driver {

// The first message of a driver-host, and again whenever a GPU has opened or changed. After one
// without a fleet it ends.
struct Hello {
  std::optional<Fleet> fleet;
  Errc error_code = Errc::internal;  // of no fleet
  std::string error;
};
BOOST_DESCRIBE_STRUCT(Hello, (), (fleet, error_code, error))

using ToHost = std::variant<ReadRequest, CommandRequest>;
using FromHost = std::variant<Hello, ReadReply, DeviceEvent, CommandReply>;

// 64 GPUs fit well; a longer datagram is refused, not cut.
inline constexpr std::size_t kMaxMessage = std::size_t{64} * 1024;

// Blocks while the peer's buffer is full, unless told not to (then Errc::busy).
// Errc::unavailable when the peer is gone.
enum class Wait { yes, no };
Result<void> send_message(int socket, const ToHost&, Wait);
Result<void> send_message(int socket, const FromHost&, Wait);

// Errc::unavailable: the peer is gone. Errc::busy: nothing there (Wait::no).
// Errc::invalid: not a message of ours.
Result<ToHost> receive_to_host(int socket, Wait);
Result<FromHost> receive_from_host(int socket, Wait);

}  // namespace gpuyard::driver
