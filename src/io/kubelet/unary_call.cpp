#include "io/kubelet/unary_call.h"

#include <sys/types.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <new>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>
#include <nghttp2/nghttp2.h>

namespace gpuyard::kubelet {
namespace {

// The first stream of a client, and the only one: the server may open none.
constexpr std::int32_t kStreamId = 1;
// An empty message: not compressed, and no bytes long.
constexpr std::size_t kRequestBytes = 5;
// The bytes that the server may send before it hears from us. The default of 64 KiB would make a
// large list wait for a hundred replies.
constexpr std::int32_t kWindowBytes = 1 << 20;

// nghttp2 fails only where no memory is left, or where it is called wrongly.
void check(int code) {
  if (code == NGHTTP2_ERR_NOMEM) throw std::bad_alloc();
  if (code < 0) throw std::logic_error(nghttp2_strerror(code));
}

GrpcResponse& response_of(void* user_data) {
  return *static_cast<GrpcResponse*>(user_data);
}

bool is_of_call(const nghttp2_frame& frame) {
  return frame.hd.stream_id == kStreamId &&
         (frame.hd.type == NGHTTP2_HEADERS || frame.hd.type == NGHTTP2_DATA);
}

std::string_view text_of(const std::uint8_t* bytes, std::size_t length) {
  return {reinterpret_cast<const char*>(bytes), length};
}

int on_begin_headers(nghttp2_session*, const nghttp2_frame* frame, void* user_data) {
  if (is_of_call(*frame)) response_of(user_data).begin_headers();
  return 0;
}

int on_header(nghttp2_session*, const nghttp2_frame* frame, const std::uint8_t* name,
              std::size_t name_length, const std::uint8_t* value, std::size_t value_length,
              std::uint8_t, void* user_data) {
  if (!is_of_call(*frame)) return 0;
  response_of(user_data).add_header(text_of(name, name_length), text_of(value, value_length));
  return 0;
}

int on_data(nghttp2_session*, std::uint8_t, std::int32_t stream, const std::uint8_t* bytes,
            std::size_t length, void* user_data) {
  if (stream == kStreamId) response_of(user_data).add_data(text_of(bytes, length));
  return 0;
}

int on_frame(nghttp2_session*, const nghttp2_frame* frame, void* user_data) {
  const bool ends = is_of_call(*frame) && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
  if (ends) response_of(user_data).end();
  return 0;
}

int on_invalid_frame(nghttp2_session*, const nghttp2_frame*, int code, void* user_data) {
  response_of(user_data).fail_as_malformed(fmt::format("HTTP/2: {}", nghttp2_strerror(code)));
  return 0;
}

// After a reset, or a GOAWAY that leaves the stream out.
int on_stream_close(nghttp2_session*, std::int32_t stream, std::uint32_t code, void* user_data) {
  if (stream != kStreamId) return 0;
  GrpcResponse& response = response_of(user_data);
  if (code == NGHTTP2_NO_ERROR) {
    response.end();
  } else {
    response.fail(Errc::unavailable, "the call was broken off",
                  fmt::format("HTTP/2: {}", nghttp2_http2_strerror(code)));
  }
  return 0;
}

struct DeleteCallbacks {
  void operator()(nghttp2_session_callbacks* callbacks) const {
    nghttp2_session_callbacks_del(callbacks);
  }
};

nghttp2_session* make_session(GrpcResponse& response) {
  nghttp2_session_callbacks* made = nullptr;
  check(nghttp2_session_callbacks_new(&made));
  const std::unique_ptr<nghttp2_session_callbacks, DeleteCallbacks> callbacks(made);
  nghttp2_session_callbacks_set_on_begin_headers_callback(made, on_begin_headers);
  nghttp2_session_callbacks_set_on_header_callback(made, on_header);
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(made, on_data);
  nghttp2_session_callbacks_set_on_frame_recv_callback(made, on_frame);
  nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(made, on_invalid_frame);
  nghttp2_session_callbacks_set_on_stream_close_callback(made, on_stream_close);
  nghttp2_session* session = nullptr;
  check(nghttp2_session_client_new(&session, made, &response));
  return session;
}

// Writes the request as far as the server's window allows.
ssize_t write_request(nghttp2_session*, std::int32_t, std::uint8_t* bytes, std::size_t room,
                      std::uint32_t* flags, nghttp2_data_source* source, void*) {
  auto& unsent = *static_cast<std::size_t*>(source->ptr);
  const std::size_t length = std::min(unsent, room);
  std::fill_n(bytes, length, std::uint8_t{0});
  unsent -= length;
  if (unsent == 0) *flags |= NGHTTP2_DATA_FLAG_EOF;
  return static_cast<ssize_t>(length);
}

// nghttp2 copies both.
nghttp2_nv to_header(std::string_view name, std::string_view value) {
  const auto bytes_of = [](std::string_view text) {
    return reinterpret_cast<std::uint8_t*>(const_cast<char*>(text.data()));
  };
  return {bytes_of(name), bytes_of(value), name.size(), value.size(), NGHTTP2_NV_FLAG_NONE};
}

}  // namespace

void UnaryCall::EndSession::operator()(nghttp2_session* session) const {
  nghttp2_session_del(session);
}

UnaryCall::UnaryCall(std::string_view method)
    : response_(kMaxMessageBytes),
      unsent_request_bytes_(kRequestBytes),
      session_(make_session(response_)) {
  submit_settings();
  submit_request(method);
}

UnaryCall::~UnaryCall() = default;

void UnaryCall::submit_settings() {
  const std::array<nghttp2_settings_entry, 2> settings{
      {{NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
       {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, static_cast<std::uint32_t>(kWindowBytes)}}};
  check(
      nghttp2_submit_settings(session_.get(), NGHTTP2_FLAG_NONE, settings.data(), settings.size()));
  check(nghttp2_session_set_local_window_size(session_.get(), NGHTTP2_FLAG_NONE, 0, kWindowBytes));
}

void UnaryCall::submit_request(std::string_view method) {
  const std::array headers{
      to_header(":method", "POST"),      to_header(":scheme", "http"),
      to_header(":path", method),        to_header(":authority", "localhost"),
      to_header("te", "trailers"),       to_header("content-type", "application/grpc"),
      to_header("user-agent", "gpuyard")};
  nghttp2_data_provider request{};
  request.source.ptr = &unsent_request_bytes_;
  request.read_callback = write_request;
  check(nghttp2_submit_request(session_.get(), nullptr, headers.data(), headers.size(), &request,
                               nullptr));
}

std::string UnaryCall::take_output() {
  std::string output;
  for (;;) {
    const std::uint8_t* bytes = nullptr;
    const ssize_t length = nghttp2_session_mem_send(session_.get(), &bytes);
    if (length < 0) check(static_cast<int>(length));
    if (length <= 0) break;
    output += text_of(bytes, static_cast<std::size_t>(length));
  }
  // nghttp2 has sent a GOAWAY: the server does not speak HTTP/2.
  if (nghttp2_session_want_read(session_.get()) == 0) response_.fail_as_malformed("not HTTP/2");
  return output;
}

void UnaryCall::receive(std::string_view bytes) {
  const auto* data = reinterpret_cast<const std::uint8_t*>(bytes.data());
  const ssize_t used = nghttp2_session_mem_recv(session_.get(), data, bytes.size());
  if (used == NGHTTP2_ERR_NOMEM) throw std::bad_alloc();
  if (used >= 0) return;
  response_.fail_as_malformed(fmt::format("HTTP/2: {}", nghttp2_strerror(static_cast<int>(used))));
}

void UnaryCall::receive_end() {
  response_.fail(Errc::unavailable, "the connection closed before the response");
}

}  // namespace gpuyard::kubelet
