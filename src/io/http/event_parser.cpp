#include "io/http/event_parser.h"

#include <utility>

namespace gpuyard::http {

void EventParser::feed(std::string_view bytes) {
  while (!bytes.empty() && !overflowed_) {
    if (std::exchange(after_return_, false) && bytes.front() == '\n') {
      bytes.remove_prefix(1);
      continue;
    }
    const std::size_t end = bytes.find_first_of("\r\n");
    line_ += bytes.substr(0, end);
    overflowed_ = line_.size() + data_.size() > max_bytes_;
    if (end == bytes.npos || overflowed_) return;
    after_return_ = bytes[end] == '\r';
    bytes.remove_prefix(end + 1);
    parse_line(line_);
    line_.clear();
  }
}

std::optional<ServerEvent> EventParser::take() {
  if (events_.empty()) return std::nullopt;
  ServerEvent first = std::move(events_.front());
  events_.pop_front();
  return first;
}

void EventParser::parse_line(std::string_view line) {
  constexpr std::string_view kMark = "\xEF\xBB\xBF";  // UTF-8's byte order mark, before all else
  if (std::exchange(first_line_, false) && line.starts_with(kMark)) {
    line.remove_prefix(kMark.size());
  }
  if (line.empty()) return dispatch();
  const std::size_t colon = line.find(':');
  const std::string_view field = line.substr(0, colon);
  std::string_view value = colon == line.npos ? std::string_view() : line.substr(colon + 1);
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (field == "event") name_ = value;
  if (field == "data") data_.append(value).append("\n");
  if (field == "id" && value.find('\0') == value.npos) id_ = value;
}

void EventParser::dispatch() {
  std::string name = std::exchange(name_, {});
  std::string data = std::exchange(data_, {});
  if (data.empty()) return;
  data.pop_back();
  events_.push_back({name.empty() ? "message" : std::move(name), id_, std::move(data)});
}

}  // namespace gpuyard::http
