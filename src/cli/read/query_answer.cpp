#include "cli/read/query_answer.h"

#include <algorithm>
#include <utility>

#include <boost/json.hpp>

#include "base/json_writer.h"

namespace gpuyard::cli {

using protocol::Device;
using What = Field::What;

void put_json(std::string& out, const Values& values) {
  char separator = '{';
  for (const auto& [name, value] : values.by_name) {
    out += std::exchange(separator, ',');
    json::put_string(out, name);
    out += ':';
    out += value;
  }
  if (separator == '{') out += '{';
  out += '}';
}

void schema_of(std::type_identity<Values>, boost::json::object& out) {
  out = {{"type", "object"},
         {"additionalProperties",
          {{"type", {"string", "number", "boolean", "array", "object", "null"}}}}};
}

namespace {

boost::json::value json_value(const Field& field, const Queried& queried, const Device& device,
                              const boost::json::object& readings) {
  const bool reading = field.what <= What::word && row_of(field.metric).subject == Subject::device;
  if (!reading) {
    if (field.what == What::index) return device.index;
    if (field.what == What::count) return queried.gpu_count;
    const std::string text = csv_cell(field, queried, device, false);
    return text.starts_with('[') ? boost::json::value(nullptr) : boost::json::value(text);
  }
  if (field.what == What::row) return readings.at(json_key(row_of(field.metric)));
  const auto number = device.readings.get(field.metric, field.of);
  if (!number) return nullptr;
  if (field.what == What::word) return (*number & field.bit) != 0;
  return *number;
}

// A row is called by its own key, which carries its unit.
std::string json_name(const Field& field) {
  return field.what == What::row ? json_key(row_of(field.metric)) : field.name;
}

std::string text_of(const boost::json::value& value) {
  return value.is_double() ? json::to_json(value.get_double()) : boost::json::serialize(value);
}

// A field that is asked for twice is there once.
void put(Values& values, const std::string& name, std::string text) {
  auto& all = values.by_name;
  const auto same = std::ranges::find(all, name, &std::pair<std::string, std::string>::first);
  if (same != all.end()) {
    same->second = std::move(text);
  } else {
    all.emplace_back(name, std::move(text));
  }
}

}  // namespace

QueryAnswer query_answer(const std::vector<Field>& fields, const Queried& queried) {
  const protocol::Snapshot& snapshot = queried.snapshot;
  QueryAnswer answer{protocol::kSchemaVersion, snapshot.simulated, snapshot.taken_at, {}};
  for (const Device& device : snapshot.devices) {
    QueriedDevice out{
        device.index, device.uuid, device.pci_address, device.condition, device.why, device.age_ms,
        {},           {}};
    const auto readings = readings_as_json(device);
    for (const Field& field : fields) {
      const std::string name = json_name(field);
      auto value = json_value(field, queried, device, readings);
      if (value.is_null()) {
        const std::string reason = field.what <= What::word ? reason_of(field, device) : "";
        out.missing[name] = reason.empty() ? "not known" : reason;
      }
      put(out.values, name, text_of(value));
    }
    answer.devices.push_back(std::move(out));
  }
  return answer;
}

std::string query_json(const std::vector<Field>& fields, const Queried& queried) {
  return json::to_json(query_answer(fields, queried));
}

}  // namespace gpuyard::cli
