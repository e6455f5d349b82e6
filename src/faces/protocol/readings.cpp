#include "protocol/readings.h"

#include <algorithm>
#include <utility>

#include <boost/json.hpp>

#include "base/json_writer.h"

namespace gpuyard::protocol {
namespace {

template <class Visit>
void each_device_row(Visit&& visit) {
  for (const Row& row : catalog()) {
    if (row.subject == Subject::device) visit(row);
  }
}

void put_words(std::string& out, const Row& row, std::int64_t flags) {
  out += '[';
  bool first = true;
  for (const Word& word : row.words) {
    if ((flags & word.value) == 0) continue;
    if (!std::exchange(first, false)) out += ',';
    json::put_string(out, word.text);
  }
  out += ']';
}

void put_number(std::string& out, const Row& row, std::int64_t number) {
  if (row.kind == Kind::flags) return put_words(out, row, number);
  if (row.kind == Kind::state) {
    const auto word = std::ranges::find(row.words, number, &Word::value);
    // A state that has no word yet: the driver is newer than we are.
    return json::put_string(
        out, word != row.words.end() ? std::string(word->text) : std::to_string(number));
  }
  const std::int64_t divisor = unit_info(row.unit).json_divisor;
  if (divisor == 1) return json::put(out, number);
  json::put_double(out, static_cast<double>(number) / static_cast<double>(divisor));
}

void put_value(std::string& out, const Row& row, const Reading& reading) {
  if (const std::string* text = reading.text()) return json::put_string(out, *text);
  if (const std::int64_t* number = reading.number()) return put_number(out, row, *number);
  out += "null";
}

void put_elements(std::string& out, const Row& row, std::span<const Reading> readings) {
  const bool by_place = row.dimension == Dimension::location;
  out += by_place ? '{' : '[';
  bool first = true;
  for (const Reading& reading : readings) {
    if (!std::exchange(first, false)) out += ',';
    if (by_place) {
      json::put_string(out, element_of(row.dimension, reading.index));
      out += ':';
    }
    put_value(out, row, reading);
  }
  out += by_place ? '}' : ']';
}

// One reason for all of them is no list.
bool is_missing_whole(std::span<const Reading> readings) {
  return readings.empty() || (readings.size() == 1 && readings.front().missing() != nullptr);
}

}  // namespace

std::optional<std::int64_t> Readings::get(Metric metric, std::uint16_t index) const {
  const std::int64_t* number = sample.number(metric, index);
  return number != nullptr ? std::optional(*number) : std::nullopt;
}

std::optional<std::int64_t> number_of(const Sample& sample, Metric metric) {
  const std::int64_t* number = sample.number(metric);
  return number != nullptr ? std::optional(*number) : std::nullopt;
}

Readings readings_of(const Sample& sample) {
  return {sample};
}

std::string json_key(const Row& row, std::uint16_t index) {
  std::string key = gpuyard::json_key(row);
  return index == 0 ? key : key + "/" + element_of(row.dimension, index);
}

void put_row(std::string& out, const Row& row, std::span<const Reading> readings) {
  if (is_missing_whole(readings)) {
    out += "null";
  } else if (row.dimension != Dimension::none) {
    put_elements(out, row, readings);
  } else {
    put_value(out, row, readings.front());
  }
}

void put_json(std::string& out, const Readings& readings) {
  char separator = '{';
  each_device_row([&](const Row& row) {
    out += std::exchange(separator, ',');
    out += '"';
    out += row.key;
    out += unit_info(row.unit).json_suffix;
    out += "\":";
    put_row(out, row, readings.sample.all(row.metric));
  });
  out += '}';
}

void schema_of(std::type_identity<Readings>, boost::json::object& out) {
  boost::json::object properties;
  boost::json::array required;
  each_device_row([&](const Row& row) {
    const bool whole = unit_info(row.unit).json_divisor == 1;
    const bool words = row.kind == Kind::state || row.kind == Kind::text;
    boost::json::object one = {{"type", {words ? "string" : whole ? "integer" : "number", "null"}}};
    if (row.kind == Kind::flags) {
      one = {{"type", {"array", "null"}}, {"items", {{"type", "string"}}}};
    } else if (row.dimension == Dimension::location) {
      one = {{"type", {"object", "null"}}, {"additionalProperties", std::move(one)}};
    } else if (row.dimension != Dimension::none) {
      one = {{"type", {"array", "null"}}, {"items", std::move(one)}};
    }
    one["description"] = row.help;
    const std::string key = gpuyard::json_key(row);
    properties[key] = std::move(one);
    required.emplace_back(key);
  });
  out = {
      {"type", "object"}, {"properties", std::move(properties)}, {"required", std::move(required)}};
}

}  // namespace gpuyard::protocol
