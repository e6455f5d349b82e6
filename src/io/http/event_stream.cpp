#include "io/http/event_stream.h"

#include <utility>

#include <fmt/format.h>

namespace gpuyard::http {

const Chunk& stream_opening() {
  static const Chunk opening(fmt::format("retry: {}\n\n", to_milliseconds(kClientRetryDelay)));
  return opening;
}

const Chunk& heartbeat() {
  static const Chunk beat(":\n\n");
  return beat;
}

Chunk event_chunk(std::string_view name, std::string_view data, std::string_view id) {
  std::string text;
  text.reserve(name.size() + data.size() + id.size() + 32);
  if (!id.empty()) text.append("id: ").append(id).append("\n");
  if (!name.empty()) text.append("event: ").append(name).append("\n");
  for (;;) {
    const std::size_t end = data.find_first_of("\r\n");
    text.append("data: ").append(data.substr(0, end)).append("\n");
    if (end == data.npos) break;
    const bool both = data.substr(end).starts_with("\r\n");
    data.remove_prefix(end + (both ? 2 : 1));
  }
  text += "\n";
  return Chunk(text);
}

Response event_stream(std::shared_ptr<ResponseStream> stream) {
  Response response;
  response.content_type = kEventStream;
  response.headers = {{"Cache-Control", "no-store"}, {"X-Accel-Buffering", "no"}};
  response.stream = std::move(stream);
  return response;
}

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
