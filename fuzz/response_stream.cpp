#include "response_stream.h"

#include <charconv>
#include <optional>

#include "require.h"

namespace gpuyard::fuzz {
namespace {

std::string_view take_line(std::string_view& rest) {
  const std::size_t end = rest.find("\r\n");
  require(end != rest.npos, "a line of a head ends with CRLF");
  const std::string_view line = rest.substr(0, end);
  rest.remove_prefix(end + 2);
  return line;
}

int status_of(std::string_view line) {
  constexpr std::string_view kVersion = "HTTP/1.1 ";
  constexpr std::size_t kDigits = 3;
  require(line.starts_with(kVersion), "a response begins with its version");
  int status = 0;
  const char* digits = line.data() + kVersion.size();
  require(line.size() > kVersion.size() + kDigits, "a status line has a reason");
  const auto parsed = std::from_chars(digits, digits + kDigits, status);
  require(parsed.ptr == digits + kDigits && status >= 100 && status < 600, "a status is in range");
  return status;
}

bool is_token(std::string_view name) {
  constexpr std::string_view kMarks = "!#$%&'*+-.^_`|~";
  for (const char c : name) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!letter && kMarks.find(c) == kMarks.npos) return false;
  }
  return !name.empty();
}

struct Fields {
  std::optional<std::size_t> length;
  bool chunked = false;
  bool events = false;
  bool close = false;
};

Fields take_fields(std::string_view& rest) {
  Fields fields;
  for (;;) {
    const std::string_view line = take_line(rest);
    if (line.empty()) return fields;
    const std::size_t colon = line.find(": ");
    require(colon != line.npos && is_token(line.substr(0, colon)), "a field has a name");
    for (const char c : line) {
      require(static_cast<unsigned char>(c) >= ' ' && c != '\x7f',
              "a field has no control character");
    }
    const std::string_view value = line.substr(colon + 2);
    if (line.starts_with("Content-Length")) {
      std::size_t length = 0;
      const auto parsed = std::from_chars(value.data(), value.data() + value.size(), length);
      require(parsed.ptr == value.data() + value.size(), "a length is a number");
      require(!fields.length, "there is one length");
      fields.length = length;
    }
    fields.chunked = fields.chunked || line == "Transfer-Encoding: chunked";
    fields.events = fields.events || line == "Content-Type: text/event-stream";
    fields.close = fields.close || line == "Connection: close";
  }
}

// Takes chunks up to the last-chunk; a stream that was cut off may lack it.
void take_chunks(std::string_view& rest) {
  std::size_t size = 1;
  while (size > 0 && !rest.empty()) {
    const std::string_view line = take_line(rest);
    const auto parsed = std::from_chars(line.data(), line.data() + line.size(), size, 16);
    require(parsed.ptr == line.data() + line.size() && !line.empty(), "a chunk says its size");
    require(size + 2 <= rest.size() && rest.substr(size, 2) == "\r\n", "a chunk is there in full");
    rest.remove_prefix(size + 2);
  }
}

}  // namespace

ResponseStream read_responses(std::string_view rest) {
  ResponseStream read;
  while (!rest.empty()) {
    require(!read.closed, "nothing follows the last response");
    const int status = status_of(take_line(rest));
    const Fields fields = take_fields(rest);
    if (status < 200) {
      require(!fields.length, "an interim response has no body");
      continue;
    }
    ++read.responses;
    read.closed = fields.close;
    const bool bare = status == 204 || status == 304;
    const bool head_only = rest.empty() || rest.front() == 'H';
    if (fields.events) {
      require(fields.close && !fields.length && !bare, "a stream has no length, and is the last");
      if (fields.chunked) take_chunks(rest);
      if (!fields.chunked) rest = {};
      continue;
    }
    require(fields.length.has_value() != bare, "a response says how long its body is");
    if (bare || *fields.length == 0 || head_only) continue;
    require(*fields.length <= rest.size(), "a body is there in full");
    rest.remove_prefix(*fields.length);
  }
  return read;
}

}  // namespace gpuyard::fuzz
