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

}  // namespace gpuyard::http
