#include "io/kubelet/grpc_response.h"

#include <array>
#include <cstdint>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"

namespace gpuyard::kubelet {
namespace {

// A message has a byte that says whether it is compressed, and its length in four.
constexpr std::size_t kPrefixBytes = 5;
// Of a header that is kept; the rest of it is cut off.
constexpr std::size_t kMaxHeaderBytes = 512;

std::size_t message_length(std::string_view prefix) {
  std::size_t length = 0;
  for (const char byte : prefix.substr(1, kPrefixBytes - 1)) {
    length = (length << 8U) | static_cast<unsigned char>(byte);
  }
  return length;
}

std::optional<unsigned> hexadecimal_digit(char c) {
  const char lower = to_lower(c);
  if (lower >= '0' && lower <= '9') return static_cast<unsigned>(lower - '0');
  if (lower >= 'a' && lower <= 'f') return static_cast<unsigned>(lower - 'a' + 10);
  return std::nullopt;
}

// A status message has each byte that is no printable ASCII as %XX. Anything else behind a percent
// sign stays as it is.
std::string percent_decoded(std::string_view text) {
  std::string decoded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool may_escape = text[i] == '%' && i + 2 < text.size();
    const auto high = may_escape ? hexadecimal_digit(text[i + 1]) : std::nullopt;
    const auto low = may_escape ? hexadecimal_digit(text[i + 2]) : std::nullopt;
    if (high && low) i += 2;
    decoded += high && low ? static_cast<char>((*high << 4U) | *low) : text[i];
  }
  return decoded;
}

}  // namespace

void GrpcResponse::add_header(std::string_view name, std::string_view value) {
  const std::string_view kept = value.substr(0, kMaxHeaderBytes);
  if (name == ":status") http_status_ = kept;
  if (name == "content-type") content_type_ = kept;
  if (name == "grpc-status") status_ = kept;
  if (name == "grpc-message") status_message_ = kept;
}

void GrpcResponse::add_data(std::string_view bytes) {
  status_.reset();
  if (is_done() || !check_head()) return;
  body_ += bytes;
  if (body_.size() < kPrefixBytes) return;
  if (body_[0] == 1) return fail_as_malformed("it is compressed, which was not asked for");
  if (body_[0] != 0) return fail_as_malformed("it does not begin as a gRPC message");
  const std::size_t length = message_length(body_);
  if (length > max_message_bytes_) {
    return fail(Errc::internal,
                fmt::format("the response is too large: {} bytes; the limit is {} bytes", length,
                            max_message_bytes_));
  }
  if (body_.size() - kPrefixBytes > length) fail_as_malformed("it is longer than its message");
}

bool GrpcResponse::check_head() {
  if (http_status_ != "200") {
    fail_as_malformed(fmt::format("HTTP status {}", printable(http_status_)));
  } else if (!content_type_.starts_with("application/grpc")) {
    fail_as_malformed(fmt::format("content type \"{}\"", printable(content_type_)));
  }
  return !is_done();
}

bool GrpcResponse::is_message_complete() const {
  return body_.size() >= kPrefixBytes && body_.size() - kPrefixBytes == message_length(body_);
}

void GrpcResponse::end() {
  if (is_done() || !check_head()) return;
  if (!status_) return fail_as_malformed("it has no gRPC status");
  const auto status = parse_number<std::uint16_t>(*status_);
  if (!status) return fail_as_malformed("its gRPC status is not a number");
  if (*status != 0) {
    result_ = GrpcReply{.status = *status, .status_message = percent_decoded(status_message_)};
    return;
  }
  if (!is_message_complete()) return fail_as_malformed("its message is incomplete");
  body_.erase(0, kPrefixBytes);
  result_ = GrpcReply{.message = std::move(body_)};
}

void GrpcResponse::fail(Errc code, std::string_view message, std::string_view cause) {
  if (!is_done()) result_ = Error{code, std::string(message), std::string(cause)};
}

void GrpcResponse::fail_as_malformed(std::string_view cause) {
  fail(Errc::invalid, "malformed response", cause);
}

std::string grpc_status_text(int status) {
  static constexpr std::array<std::string_view, 17> kNames = {"OK",
                                                              "CANCELLED",
                                                              "UNKNOWN",
                                                              "INVALID_ARGUMENT",
                                                              "DEADLINE_EXCEEDED",
                                                              "NOT_FOUND",
                                                              "ALREADY_EXISTS",
                                                              "PERMISSION_DENIED",
                                                              "RESOURCE_EXHAUSTED",
                                                              "FAILED_PRECONDITION",
                                                              "ABORTED",
                                                              "OUT_OF_RANGE",
                                                              "UNIMPLEMENTED",
                                                              "INTERNAL",
                                                              "UNAVAILABLE",
                                                              "DATA_LOSS",
                                                              "UNAUTHENTICATED"};
  const auto index = static_cast<std::size_t>(status);
  return index < kNames.size() ? fmt::format("{} ({})", kNames[index], status)
                               : fmt::format("status {}", status);
}

}  // namespace gpuyard::kubelet
