// The records that a daemon sends to its setter: datagrams of one fixed size, with no text but the
// UUID of a GPU. A daemon that was taken over can say no more than they can hold.
#pragma once

#include <array>
#include <cstdint>
#include <type_traits>

#include "base/result.h"
#include "gpu/device/command.h"
#include "gpu/driver/message.h"

namespace gpuyard::driver {

struct SetterRecord {
  enum class Action : std::uint8_t { ping, apply, clear_ecc };
  // Changes with the layout: a setter of another version refuses the record.
  static constexpr std::uint32_t kFormatVersion = 0x67'79'73'01;
  static constexpr std::size_t kMaxExpected = 4;

  std::uint32_t format_version = kFormatVersion;
  Action action = Action::ping;
  std::uint8_t setting = 0;    // SettingKind
  std::uint8_t counter = 0;    // EccCounter
  std::uint8_t puts_back = 0;  // CommandRequest::puts_back
  std::uint8_t has_value = 0;
  std::uint8_t expected_count = 0;
  std::array<std::uint8_t, 6> unused{};
  std::uint64_t id = 0;
  std::int64_t received_ns = 0;  // TimePoint
  std::int64_t lowest = 0;
  std::int64_t highest = 0;
  std::array<std::array<std::int64_t, 2>, kMaxExpected> expected{};
  std::array<char, 96> gpu{};  // padded with NUL
};
static_assert(std::has_unique_object_representations_v<SetterRecord>);

// Returns Errc::invalid for a command that only reads, or whose values do not fit.
Result<SetterRecord> record_of(const CommandRequest&);
// Returns Errc::invalid for a record that is no change.
Result<CommandRequest> request_of(const SetterRecord&);

Result<void> send_record(int socket, const SetterRecord&, Wait);
// Errc::unavailable: the daemon is gone. Errc::invalid: not a record of this version.
Result<SetterRecord> receive_record(int socket, Wait);

}  // namespace gpuyard::driver
