// The messages between the daemon and its driver-host: one per SOCK_SEQPACKET datagram. Reads of
// several GPUs are one message, and so are their replies. The setter answers in the same form;
// setter_record.h has what it receives.
//
// Converts records to bytes and back, for the socket between the daemon and its driver-host. Both
// ends are the same binary on the same machine, so there is no version and no byte order. Decoding
// trusts no length, because a child whose driver has corrupted its memory may send anything.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/record.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "gpu/device/backend.h"
#include "gpu/device/command.h"
#include "gpu/device/event.h"
#include "gpu/device/reading.h"

namespace gpuyard::driver {

// The first message of a driver-host, sent again whenever a GPU has opened or changed. After a
// Hello without a fleet the host ends.
// With a setter's first one come a descriptor of its process, and a socket for each GPU by index,
// on which that GPU's thread waits for changes.
struct Hello {
  std::optional<Inventory> fleet;
  Errc error_code = Errc::internal;  // set without a fleet
  std::string error;
  std::string version = {};  // of the setter's program
};
BOOST_DESCRIBE_STRUCT(Hello, (), (fleet, error_code, error, version))

// The setter's reply to a ping.
struct Pong {};
BOOST_DESCRIBE_STRUCT(Pong, (), ())

using ReadRequests = std::vector<ReadRequest>;
using ReadReplies = std::vector<ReadReply>;

using DriverHostRequest = std::variant<ReadRequests, CommandRequest>;
using DriverHostMessage = std::variant<Hello, ReadReplies, DeviceEvent, CommandReply, Pong>;

// The largest message in bytes; 64 GPUs fit well. A longer datagram is refused, not cut.
inline constexpr std::size_t kMaxMessage = std::size_t{64} * 1024;

// Sends a message. Blocks while the peer's buffer is full, unless Wait::no (then Errc::busy).
// Errc::unavailable: the peer is gone.
enum class Wait { yes, no };
Result<void> send_message(int socket, const DriverHostRequest&, Wait);
Result<void> send_message(int socket, const ReadRequests&, Wait);  // without a copy
Result<void> send_message(int socket, const DriverHostMessage&, Wait);
// Sends descriptors of ours with the message.
Result<void> send_message(int socket, const DriverHostMessage&, std::span<const int> descriptors,
                          Wait);

// Receives a message. Errc::unavailable: the peer is gone. Errc::busy: there is none (Wait::no).
// Errc::invalid: the datagram is not one of our messages.
Result<DriverHostRequest> receive_request(int socket, Wait);
// `descriptors`: where descriptors go that came with the message; else they are closed.
Result<DriverHostMessage> receive_message(int socket, Wait,
                                          std::vector<UniqueFd>* descriptors = nullptr);

// The datagrams themselves, with the errors above.
Result<void> send_bytes(int socket, std::string_view bytes, std::span<const int> descriptors, Wait);
// Returns the length of the datagram, which may be longer than the room for it.
Result<std::size_t> receive_bytes(int socket, char* bytes, std::size_t room,
                                  std::vector<UniqueFd>* descriptors, Wait);

template <class T>
inline constexpr bool is_variant = false;
template <class... Ts>
inline constexpr bool is_variant<std::variant<Ts...>> = true;

class Encoder {
 public:
  // Appends to `bytes`, which outlives it.
  explicit Encoder(std::string& bytes) : bytes_(bytes) {}

  template <class T>
  void put(const T& value) {
    if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
      bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
    } else if constexpr (std::is_same_v<T, std::string>) {
      put(static_cast<std::uint32_t>(value.size()));
      bytes_ += value;
    } else if constexpr (is_vector<T>) {
      put(static_cast<std::uint32_t>(value.size()));
      for (const auto& element : value) put(element);
    } else if constexpr (is_optional<T>) {
      put(value.has_value());
      if (value) put(*value);
    } else if constexpr (is_variant<T>) {
      put(static_cast<std::uint8_t>(value.index()));
      std::visit([&](const auto& alternative) { put(alternative); }, value);
    } else if constexpr (std::is_same_v<T, TimePoint>) {
      put(value.time_since_epoch().count());
    } else if constexpr (std::is_same_v<T, ProbeSet>) {
      put(value.bits());
    } else if constexpr (std::is_same_v<T, Sample>) {
      put(value.readings());
      put(value.processes());
    } else {
      each_member<T>([&](auto member) { put(value.*member.pointer); });
    }
  }

 private:
  std::string& bytes_;
};

// After a failure every further get() leaves its target unchanged; check is_complete() at the end.
class Decoder {
 public:
  explicit Decoder(std::string_view bytes) : bytes_(bytes) {}

  // True if all bytes were there and none is left over.
  bool is_complete() const { return ok_ && bytes_.empty(); }

  template <class T>
  void get(T& value) {
    if constexpr (DescribedEnum<T>) {
      get_enum(value);
    } else if constexpr (std::is_same_v<T, bool>) {
      std::uint8_t byte = 0;
      get(byte);
      ok_ = ok_ && byte <= 1;
      value = byte == 1;
    } else if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
      if (take(sizeof(value))) taken_.copy(reinterpret_cast<char*>(&value), sizeof(value));
    } else if constexpr (std::is_same_v<T, std::string>) {
      std::uint32_t length = 0;
      get(length);
      if (take(length)) value = taken_;
    } else if constexpr (is_vector<T>) {
      get_vector(value);
    } else if constexpr (is_optional<T>) {
      bool present = false;
      get(present);
      if (present) get(value.emplace());
    } else if constexpr (is_variant<T>) {
      get_variant(value);
    } else if constexpr (std::is_same_v<T, TimePoint>) {
      TimePoint::rep count = 0;
      get(count);
      value = TimePoint(TimePoint::duration(count));
    } else if constexpr (std::is_same_v<T, ProbeSet>) {
      std::uint64_t bits = 0;
      get(bits);
      value = ProbeSet::from_bits(bits);
    } else if constexpr (std::is_same_v<T, Sample>) {
      get_sample(value);
    } else {
      each_member<T>([&](auto member) { get(value.*member.pointer); });
    }
  }

 private:
  bool take(std::size_t length) {
    ok_ = ok_ && length <= bytes_.size();
    if (!ok_) return false;
    taken_ = bytes_.substr(0, length);
    bytes_.remove_prefix(length);
    return true;
  }

  template <class E>
  void get_enum(E& value) {
    std::underlying_type_t<E> number{};
    get(number);
    const E candidate{number};
    bool known = false;
    boost::mp11::mp_for_each<boost::describe::describe_enumerators<E>>(
        [&](auto entry) { known = known || entry.value == candidate; });
    ok_ = ok_ && known;
    if (ok_) value = candidate;
  }

  template <class T>
  void get_vector(std::vector<T>& values) {
    std::uint32_t count = 0;
    get(count);
    values.clear();
    // An element takes a byte at least: a false count runs out of bytes before it runs out of
    // memory.
    if (ok_) values.reserve(std::min<std::size_t>(count, bytes_.size()));
    for (std::uint32_t i = 0; ok_ && i < count; ++i) get(values.emplace_back());
  }

  template <class... Ts>
  void get_variant(std::variant<Ts...>& value) {
    std::uint8_t index = 0;
    get(index);
    ok_ = ok_ && index < sizeof...(Ts);
    if (!ok_) return;
    boost::mp11::mp_with_index<sizeof...(Ts)>(index, [&](auto i) {
      std::variant_alternative_t<i, std::variant<Ts...>> alternative{};
      get(alternative);
      value = std::move(alternative);
    });
  }

  void get_sample(Sample& sample) {
    std::vector<Reading> readings;
    get(readings);
    for (const Reading& reading : readings)
      ok_ = ok_ && static_cast<std::size_t>(reading.metric) < kMetricCount;
    if (ok_) sample = Sample(std::move(readings));
    std::optional<ProcessList> processes;
    get(processes);
    if (ok_ && processes) sample.set(*std::move(processes));
  }

  std::string_view bytes_;
  std::string_view taken_;
  bool ok_ = true;
};

}  // namespace gpuyard::driver
