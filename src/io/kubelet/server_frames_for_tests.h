// The frames of an HTTP/2 server that answers a gRPC call, byte by byte (RFC 9113, RFC 7541).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gpuyard::kubelet {

inline constexpr std::uint8_t kDataFrame = 0;
inline constexpr std::uint8_t kHeadersFrame = 1;
inline constexpr std::uint8_t kResetFrame = 3;
inline constexpr std::uint8_t kSettingsFrame = 4;
inline constexpr std::uint8_t kPingFrame = 6;
inline constexpr std::uint8_t kGoAwayFrame = 7;

inline constexpr std::uint8_t kEndStream = 1;
inline constexpr std::uint8_t kEndHeaders = 4;

// A number in network order.
inline std::string big_endian(std::uint64_t value, int length) {
  std::string bytes;
  for (int i = length - 1; i >= 0; --i) bytes += static_cast<char>(value >> (8 * i));
  return bytes;
}

inline std::string frame(std::uint8_t type, std::uint8_t flags, std::uint32_t stream,
                         std::string_view payload) {
  return big_endian(payload.size(), 3) + static_cast<char>(type) + static_cast<char>(flags) +
         big_endian(stream, 4) + std::string(payload);
}

using HeaderList = std::vector<std::pair<std::string, std::string>>;

// Each header as a literal that is not indexed and not packed; names and values below 127 bytes.
inline std::string headers_frame(std::uint8_t flags, const HeaderList& headers) {
  std::string block;
  for (const auto& [name, value] : headers) {
    block.append(1, '\0').append(big_endian(name.size(), 1)).append(name);
    block.append(big_endian(value.size(), 1)).append(value);
  }
  return frame(kHeadersFrame, static_cast<std::uint8_t>(flags | kEndHeaders), 1, block);
}

inline std::string settings_frame() {
  return frame(kSettingsFrame, 0, 0, {});
}
inline std::string response_headers() {
  return headers_frame(0, {{":status", "200"}, {"content-type", "application/grpc"}});
}
inline std::string grpc_message(std::string_view message) {
  return '\0' + big_endian(message.size(), 4) + std::string(message);
}
inline std::string data_frame(std::string_view payload, std::uint8_t flags = 0) {
  return frame(kDataFrame, flags, 1, payload);
}
inline std::string trailers(const HeaderList& headers) {
  return headers_frame(kEndStream, headers);
}
inline std::string reset_frame(std::uint32_t code) {
  return frame(kResetFrame, 0, 1, big_endian(code, 4));
}
inline std::string go_away_frame(std::uint32_t last_stream, std::uint32_t code) {
  return frame(kGoAwayFrame, 0, 0, big_endian(last_stream, 4) + big_endian(code, 4));
}

// The response of a server that carried the call out.
inline std::string response_with(std::string_view message) {
  return settings_frame() + response_headers() + data_frame(grpc_message(message)) +
         trailers({{"grpc-status", "0"}});
}

}  // namespace gpuyard::kubelet
