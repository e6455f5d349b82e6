// Bytes of a text/event-stream to events, as the WHATWG standard reads them. Knows no connection.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <string_view>

namespace gpuyard::http {

struct ServerEvent {
  std::string name;  // "message" where the server gives none
  std::string id;    // the last one that the server gave, with this event or before
  std::string data;

  friend bool operator==(const ServerEvent&, const ServerEvent&) = default;
};

inline constexpr std::size_t kMaxEventBytes = std::size_t{8} * 1024 * 1024;

class EventParser {
 public:
  explicit EventParser(std::size_t max_bytes = kMaxEventBytes) : max_bytes_(max_bytes) {}

  void feed(std::string_view bytes);
  // The next event that has come in full.
  std::optional<ServerEvent> take();
  // Whether a line or the data of one event is longer than allowed; nothing more is read then.
  bool has_overflowed() const { return overflowed_; }

 private:
  void parse_line(std::string_view line);
  void dispatch();

  std::size_t max_bytes_;
  std::string line_;
  bool after_return_ = false;  // a line feed now belongs to the line before
  bool first_line_ = true;
  bool overflowed_ = false;
  std::string name_;
  std::string data_;
  std::string id_;
  std::deque<ServerEvent> events_;
};

}  // namespace gpuyard::http
