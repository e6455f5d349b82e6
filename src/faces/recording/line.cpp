#include "recording/line.h"

#include <fmt/format.h>
#include <boost/json.hpp>

#include "base/json_reader.h"
#include "base/json_writer.h"
#include "device/catalog.h"

namespace gpuyard::recording {

void put_json(std::string& out, const SomeReadings& readings) {
  char separator = '{';
  for (const Row& row : catalog()) {
    const auto all = readings.sample.all(row.metric);
    if (all.empty()) continue;
    out += std::exchange(separator, ',');
    json::put_string(out, json_key(row));
    out += ':';
    protocol::put_row(out, row, all);
  }
  if (separator == '{') out += '{';
  out += '}';
}

void read_json(const boost::json::value& from, SomeReadings& to, const std::string& path,
               json::Problems& problems) {
  const auto* object = from.if_object();
  if (object == nullptr) return problems.add(path, "must be an object");
  to.sample = {};
  for (const Row& row : catalog()) {
    if (row.subject != Subject::device) continue;
    const std::string key = json_key(row);
    const auto* value = object->if_contains(key);
    std::string at = path;
    at.append("/").append(key);
    if (value != nullptr) protocol::read_row(*value, row, to.sample, at, problems);
  }
}

std::string text_of(const Header& header) {
  return json::to_json(header) + "\n";
}

std::string text_of(const Line& line) {
  std::string out;
  each_member<Line>([&](auto member) {
    using Field = std::remove_cvref_t<decltype(line.*member.pointer)>;
    if constexpr (is_optional<Field>) {
      if (!(line.*member.pointer)) return;
    }
    out += out.empty() ? '{' : ',';
    json::put_string(out, member.name);
    out += ':';
    json::put(out, line.*member.pointer);
  });
  return out + "}\n";
}

Result<Header> parse_header(std::string_view text) {
  auto header = json::from_json<Header>(text, json::UnknownFields::ignore);
  if (!header) return Error{Errc::invalid, "this is no recording of gpuyard's"};
  if (header->gpuyard_recording != kFormat) {
    return Error{Errc::unsupported,
                 fmt::format("this recording has format {}; this program reads format {}",
                             header->gpuyard_recording, kFormat)};
  }
  return header;
}

Result<Line> parse_line(std::string_view text) {
  auto line = json::from_json<Line>(text, json::UnknownFields::ignore);
  if (line && (line->t_ms < 0 || line->t_ms > kLongest.count())) {
    return Error{Errc::invalid, "/t_ms: out of range"};
  }
  return line;
}

}  // namespace gpuyard::recording
