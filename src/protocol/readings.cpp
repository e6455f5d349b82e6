#include "protocol/readings.h"

#include <cmath>

#include "base/json_schema.h"
#include "device/catalog.h"

namespace gpuyard::protocol {
namespace {

template <class Visit>
void each_device_row(Visit&& visit) {
  for (const Row& row : catalog()) {
    if (row.subject == Subject::device) visit(row);
  }
}

void put_value(std::string& out, const Row& row, const std::optional<std::int64_t>& value) {
  const std::int64_t divisor = unit_info(row.unit).json_divisor;
  if (value && divisor != 1) {
    json::put_double(out, static_cast<double>(*value) / static_cast<double>(divisor));
  } else {
    json::put(out, value);
  }
}

}  // namespace

std::optional<std::int64_t> Readings::get(Metric metric) const {
  const auto value = values.find(metric);
  return value != values.end() ? value->second : std::nullopt;
}

Readings readings_of(const Sample& sample) {
  Readings readings;
  each_device_row([&](const Row& row) {
    const std::int64_t* number = sample.number(row.metric);
    readings.values[row.metric] = number != nullptr ? std::optional(*number) : std::nullopt;
  });
  return readings;
}

void put_json(std::string& out, const Readings& readings) {
  char separator = '{';
  each_device_row([&](const Row& row) {
    out += std::exchange(separator, ',');
    out += '"';
    out += row.key;
    out += unit_info(row.unit).json_suffix;
    out += "\":";
    put_value(out, row, readings.get(row.metric));
  });
  out += '}';
}

void read_json(const boost::json::value& from, Readings& to, const std::string& path,
               json::Problems& problems) {
  const auto* object = from.if_object();
  if (object == nullptr) return problems.add(path, "must be an object");
  each_device_row([&](const Row& row) {
    const std::string key = json_key(row);
    const auto* value = object->if_contains(key);
    auto& target = to.values[row.metric];
    target.reset();
    if (value == nullptr || value->is_null()) return;
    if (!value->is_number()) return problems.add(path + "/" + key, "must be a number or null");
    const auto divisor = static_cast<double>(unit_info(row.unit).json_divisor);
    const double native = value->to_number<double>() * divisor;
    constexpr double kExact = 9007199254740992.0;  // 2^53: what a double holds exactly
    if (std::abs(native) > kExact) return problems.add(path + "/" + key, "out of range");
    target = std::llround(native);
  });
}

boost::json::object schema_of(std::type_identity<Readings>) {
  boost::json::object properties;
  boost::json::array required;
  each_device_row([&](const Row& row) {
    const bool whole = unit_info(row.unit).json_divisor == 1;
    const std::string key = json_key(row);
    properties[key] = {{"type", {whole ? "integer" : "number", "null"}}, {"description", row.help}};
    required.emplace_back(key);
  });
  return {
      {"type", "object"}, {"properties", std::move(properties)}, {"required", std::move(required)}};
}

}  // namespace gpuyard::protocol
