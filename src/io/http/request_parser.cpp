#include "io/http/request_parser.h"

#include <array>
#include <utility>

#include "base/text.h"
#include "io/http/asio.h"
#include "io/http/target.h"

#include <boost/beast/http/basic_parser.hpp>

#include <fmt/format.h>

namespace gpuyard::http {
namespace {

namespace beast = boost::beast::http;
using boost::beast::error_code;
using boost::beast::string_view;

std::string_view view(string_view text) {
  return {text.data(), text.size()};
}

constexpr auto kMethods = std::to_array<std::pair<beast::verb, Method>>({
    {beast::verb::get, Method::get},
    {beast::verb::head, Method::head},
    {beast::verb::post, Method::post},
    {beast::verb::put, Method::put},
    {beast::verb::delete_, Method::del},
    {beast::verb::patch, Method::patch},
    {beast::verb::options, Method::options},
});

Method method_from(beast::verb verb) {
  const auto known = std::ranges::find(kMethods, verb, &std::pair<beast::verb, Method>::first);
  return known == kMethods.end() ? Method::other : known->second;
}

Response bad_request(std::string_view why) {
  return error_response(400, "invalid", why);
}

}  // namespace

class RequestParser::Message final : public beast::basic_parser<true> {
 public:
  explicit Message(const Limits& limits) : limits_(limits) {
    eager(true);
    header_limit(static_cast<std::uint32_t>(limits.header_bytes));
    body_limit(limits.body_bytes);
  }

  std::size_t skip_empty_lines(std::string_view bytes) {
    constexpr std::string_view kLine = "\r\n";
    std::size_t skipped = 0;
    while (!got_some_ && !refusal_ && bytes.substr(skipped).starts_with(kLine)) {
      skipped += kLine.size();
      if (++empty_lines_ > limits_.empty_lines) refuse(bad_request("too many empty lines"));
    }
    got_some_ = got_some_ || !kLine.starts_with(bytes.substr(skipped));
    return skipped;
  }

  // `bytes` are those that were being parsed.
  void fail(const error_code& error, std::string_view bytes) {
    if (!error || error == beast::error::need_more || refusal_) return;
    // Beast may look for the header's end before it looks at the request line.
    got_line_ = got_line_ || bytes.find("\r\n") != bytes.npos;
    refuse(describe(error));
  }
  void overflow() {
    refuse(header_complete_ ? bad_request("a chunk header is too long") : header_too_long());
  }

  const Limits& limits_;
  Request request_;
  std::optional<Response> refusal_;
  std::size_t header_bytes_ = 0;
  std::size_t hosts_ = 0;
  std::size_t lengths_ = 0;
  std::size_t empty_lines_ = 0;
  bool got_some_ = false;  // of the request line
  bool got_line_ = false;
  bool header_complete_ = false;
  bool http_1_1_ = false;
  bool expects_continue_ = false;

 private:
  void refuse(Response response) {
    response.close = true;
    refusal_ = std::move(response);
  }
  // Stops Beast as well.
  void refuse(Response response, error_code& error) {
    refuse(std::move(response));
    error = beast::error::bad_field;
  }

  Response describe(const error_code& error) const {
    if (error == beast::error::header_limit)
      return got_line_ ? header_too_long() : target_too_long();
    if (error == beast::error::body_limit) {
      return error_response(413, "body_too_large",
                            fmt::format("the body exceeds {} bytes", limits_.body_bytes));
    }
    return bad_request("malformed request: " + error.message());
  }
  Response header_too_long() const {
    return error_response(431, "header_too_large",
                          fmt::format("the header exceeds {} bytes", limits_.header_bytes));
  }
  Response target_too_long() const {
    return error_response(414, "target_too_large",
                          fmt::format("the request target exceeds {} bytes", limits_.target_bytes));
  }

  void on_request_impl(beast::verb verb, string_view, string_view target, int version,
                       error_code& error) override {
    got_line_ = true;
    http_1_1_ = version == 11;
    if (target.size() > limits_.target_bytes) return refuse(target_too_long(), error);
    request_.method = method_from(verb);
    request_.target = view(target);
    header_bytes_ = target.size();
    const auto decoded = decode_target(request_);
    if (!decoded) refuse(error_response(decoded.error()), error);
  }

  void on_field_impl(beast::field field, string_view name, string_view value,
                     error_code& error) override {
    if (header_complete_) return;  // a trailer must not pass for a header
    // Beast's limit starts again with every piece of a header that it is fed.
    constexpr std::size_t kPunctuation = 4;  // ": " and the line's end
    header_bytes_ += name.size() + value.size() + kPunctuation;
    if (header_bytes_ > limits_.header_bytes) return refuse(header_too_long(), error);
    check_field(field, view(value), error);
    if (field == beast::field::host && request_.host.empty()) request_.host = view(value);
    request_.headers.push_back(Header{std::string(view(name)), std::string(view(value))});
  }

  void check_field(beast::field field, std::string_view value, error_code& error) {
    if (field == beast::field::host) {
      if (++hosts_ > 1) refuse(bad_request("more than one Host header"), error);
    } else if (field == beast::field::content_length) {
      // RFC 9112 would let us take equal ones for one; a proxy may read them otherwise.
      if (++lengths_ > 1 || value.find(',') != value.npos) {
        refuse(bad_request("more than one Content-Length"), error);
      }
    } else if (field == beast::field::transfer_encoding) {
      if (!http_1_1_) {
        // A proxy and a server may read this request differently: one of them would take its body
        // for another request.
        refuse(bad_request("HTTP/1.0 does not support transfer encodings"), error);
      } else if (!equals_ignoring_case(value, "chunked")) {
        refuse(
            error_response(501, "unsupported", "the only supported transfer encoding is chunked"),
            error);
      }
    } else if (field == beast::field::expect) {
      expects_continue_ = equals_ignoring_case(value, "100-continue");
      if (!expects_continue_) {
        refuse(error_response(417, "unsupported", "the only supported expectation is 100-continue"),
               error);
      }
    }
  }

  void on_header_impl(error_code& error) override {
    header_complete_ = true;
    if (http_1_1_ && hosts_ == 0) refuse(bad_request("the Host header is missing"), error);
  }

  void append(string_view text) { request_.body.append(text.data(), text.size()); }
  void on_body_init_impl(const boost::optional<std::uint64_t>&, error_code&) override {}
  std::size_t on_body_impl(string_view text, error_code&) override {
    append(text);
    return text.size();
  }
  void on_chunk_header_impl(std::uint64_t, string_view, error_code&) override {}
  std::size_t on_chunk_body_impl(std::uint64_t, string_view text, error_code&) override {
    append(text);
    return text.size();
  }
  void on_finish_impl(error_code&) override {}
  void on_response_impl(int, string_view, int, error_code&) override {}
};

RequestParser::RequestParser(const Limits& limits) : limits_(limits) {
  reset();
}
RequestParser::~RequestParser() = default;

void RequestParser::reset() {
  message_ = std::make_unique<Message>(limits_);
}

std::size_t RequestParser::skip_empty_lines(std::string_view bytes) {
  return message_->skip_empty_lines(bytes);
}

std::size_t RequestParser::feed(std::string_view bytes) {
  if (bytes.empty() || is_complete() || refusal()) return 0;
  error_code error;
  const std::size_t used =
      message_->put(boost::asio::const_buffer(bytes.data(), bytes.size()), error);
  message_->fail(error, bytes);
  return used;
}

void RequestParser::report_overflow() {
  message_->overflow();
}

bool RequestParser::is_header_complete() const {
  return message_->header_complete_;
}
bool RequestParser::is_complete() const {
  return !refusal() && message_->is_done();
}
const std::optional<Response>& RequestParser::refusal() const {
  return message_->refusal_;
}
bool RequestParser::should_keep_alive() const {
  return message_->keep_alive();
}
bool RequestParser::is_http_1_0() const {
  return !message_->http_1_1_;
}
bool RequestParser::expects_continue() const {
  return message_->expects_continue_ && message_->http_1_1_;
}
const Request& RequestParser::request() const {
  return message_->request_;
}
Request RequestParser::take() {
  return std::move(message_->request_);
}

}  // namespace gpuyard::http
