#include "faces/protocol/readings.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <ranges>
#include <utility>

#include <boost/json.hpp>

#include "base/json_reader.h"
#include "base/json_writer.h"
#include "base/text.h"

namespace gpuyard::protocol {
namespace {

// The rows that are read of each GPU.
auto device_rows() {
  return catalog() | std::views::filter(
                         [](const MetricRow& row) { return row.subject == MetricSubject::device; });
}

void put_flag_names(std::string& out, const MetricRow& row, std::int64_t flags) {
  out += '[';
  bool first = true;
  for (const MetricWord& word : row.words) {
    if ((flags & word.value) == 0) continue;
    if (!std::exchange(first, false)) out += ',';
    json::put_string(out, word.text);
  }
  out += ']';
}

void put_number(std::string& out, const MetricRow& row, std::int64_t number) {
  if (row.kind == MetricKind::flags) return put_flag_names(out, row, number);
  if (row.kind == MetricKind::state) {
    const auto word = std::ranges::find(row.words, number, &MetricWord::value);
    // A state without a word: the driver is newer than gpuyard.
    return json::put_string(
        out, word != row.words.end() ? std::string(word->text) : std::to_string(number));
  }
  const std::int64_t divisor = unit_info(row.unit).json_divisor;
  if (divisor == 1) return json::put(out, number);
  json::put_double(out, static_cast<double>(number) / static_cast<double>(divisor));
}

void put_value(std::string& out, const MetricRow& row, const Reading& reading) {
  if (const std::string* text = reading.text()) return json::put_string(out, *text);
  if (const std::int64_t* number = reading.number()) return put_number(out, row, *number);
  out += "null";
}

void put_elements(std::string& out, const MetricRow& row, std::span<const Reading> readings) {
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

// A single reason for the whole row is no list.
bool is_missing_whole(std::span<const Reading> readings) {
  return readings.empty() || (readings.size() == 1 && readings.front().missing() != nullptr);
}

void put_row(std::string& out, const MetricRow& row, std::span<const Reading> readings) {
  if (is_missing_whole(readings)) {
    out += "null";
  } else if (row.dimension != Dimension::none) {
    put_elements(out, row, readings);
  } else {
    put_value(out, row, readings.front());
  }
}

// A value's row, its place in the document, and where its problems are reported.
struct ParseContext {
  const MetricRow& row;
  const std::string& path;  // of all readings
  json::Problems& problems;
  std::optional<std::uint16_t> element = {};

  void add_problem(const char* what) const {
    const std::string within = element ? "/" + element_of(row.dimension, *element) : "";
    problems.add(path + "/" + gpuyard::json_key(row) + within, what);
  }
};

std::int64_t highest_bit(std::int64_t bits) {
  return std::bit_cast<std::int64_t>(std::bit_floor(std::bit_cast<std::uint64_t>(bits)));
}

std::optional<std::int64_t> parse_flags(const ParseContext& context,
                                        const boost::json::value& from) {
  const auto* list = from.if_array();
  if (list == nullptr) {
    context.add_problem("must be a list of words or null");
    return std::nullopt;
  }
  std::int64_t flags = 0;
  for (const auto& item : *list) {
    const auto* text = item.if_string();
    if (text == nullptr) {
      context.add_problem("must be a list of words or null");
      continue;
    }
    const auto word =
        std::ranges::find(context.row.words, std::string_view(*text), &MetricWord::text);
    // The last word stands for all others, also for those of a newer daemon.
    const MetricWord& meant = word != context.row.words.end() ? *word : context.row.words.back();
    flags |= highest_bit(meant.value);
  }
  return flags;
}

std::optional<std::int64_t> parse_state(const ParseContext& context,
                                        const boost::json::value& from) {
  if (const auto* text = from.if_string()) {
    const auto word =
        std::ranges::find(context.row.words, std::string_view(*text), &MetricWord::text);
    if (word != context.row.words.end()) return word->value;
    if (const auto number = parse_number<std::int64_t>(*text)) return number;
  }
  context.add_problem("must be a word of this field or null");
  return std::nullopt;
}

std::optional<std::int64_t> scaled_number(const ParseContext& context,
                                          const boost::json::value& from) {
  if (!from.is_number()) {
    context.add_problem("must be a number or null");
    return std::nullopt;
  }
  const auto divisor = static_cast<double>(unit_info(context.row.unit).json_divisor);
  const double native = from.to_number<double>() * divisor;
  constexpr double kTooLarge = 9223372036854775808.0;  // 2^63
  if (!(std::abs(native) < kTooLarge)) {
    context.add_problem("out of range");
    return std::nullopt;
  }
  return std::llround(native);
}

std::variant<Missing, std::int64_t, std::string> value_of(const ParseContext& context,
                                                          const boost::json::value& from) {
  if (from.is_null()) return Missing{};
  if (context.row.kind == MetricKind::text) {
    if (const auto* text = from.if_string()) return std::string(*text);
    context.add_problem("must be a string or null");
    return Missing{};
  }
  const auto number = context.row.kind == MetricKind::flags   ? parse_flags(context, from)
                      : context.row.kind == MetricKind::state ? parse_state(context, from)
                                                              : scaled_number(context, from);
  if (number) return *number;
  return Missing{};
}

std::optional<std::uint16_t> index_of(Dimension dimension, std::string_view element) {
  for (std::uint16_t index = 0; index < extent_of(dimension); ++index) {
    if (element_of(dimension, index) == element) return index;
  }
  return std::nullopt;
}

void read_elements(const boost::json::value& from, const ParseContext& whole, Sample& to) {
  const auto read_one = [&](std::uint16_t index, const boost::json::value& value) {
    const ParseContext context{whole.row, whole.path, whole.problems, index};
    to.set({whole.row.metric, index, {}, value_of(context, value)});
  };
  if (const auto* object = from.if_object()) {
    for (const auto& [key, value] : *object) {
      if (const auto index = index_of(whole.row.dimension, key)) read_one(*index, value);
    }
  } else if (const auto* list = from.if_array()) {
    const std::size_t count = std::min<std::size_t>(list->size(), extent_of(whole.row.dimension));
    for (std::size_t i = 0; i < count; ++i) read_one(static_cast<std::uint16_t>(i), (*list)[i]);
  } else {
    whole.add_problem("must be a list, an object or null");
  }
}

void read_row(const boost::json::value& from, const ParseContext& context, Sample& to) {
  if (from.is_null()) {
    to.set({context.row.metric, 0, {}, Missing{}});
  } else if (context.row.dimension != Dimension::none) {
    read_elements(from, context, to);
  } else {
    to.set({context.row.metric, 0, {}, value_of(context, from)});
  }
}

}  // namespace

std::optional<std::int64_t> number_of(const Sample& sample, Metric metric, std::uint16_t index) {
  const std::int64_t* number = sample.number(metric, index);
  return number != nullptr ? std::optional(*number) : std::nullopt;
}

std::string json_key(const MetricRow& row, std::uint16_t index) {
  const std::string& key = gpuyard::json_key(row);
  return index == 0 ? key : key + "/" + element_of(row.dimension, index);
}

void put_rows(std::string& out, const Sample& sample, AbsentPolicy absent) {
  char separator = '{';
  for (const MetricRow& row : device_rows()) {
    const auto readings = sample.all(row.metric);
    if (readings.empty() && absent == AbsentPolicy::skip) continue;
    out += std::exchange(separator, ',');
    out += '"';
    out += gpuyard::json_key(row);
    out += "\":";
    put_row(out, row, readings);
  }
  if (separator == '{') out += '{';
  out += '}';
}

void read_rows(const boost::json::value& from, Sample& to, const std::string& path,
               json::Problems& problems, AbsentPolicy absent) {
  const auto* object = from.if_object();
  if (object == nullptr) return problems.add(path, "must be an object");
  to = {};
  const auto* next = object->begin();  // most often that of the next row
  for (const MetricRow& row : device_rows()) {
    const std::string& key = gpuyard::json_key(row);
    const bool is_next = next != object->end() && next->key() == key;
    const auto* const value = is_next ? &(next++)->value() : object->if_contains(key);
    if (value == nullptr && absent == AbsentPolicy::skip) continue;
    read_row(value != nullptr ? *value : boost::json::value(), {row, path, problems}, to);
  }
}

Sample with_reasons(const Sample& readings, const Reasons& reasons) {
  Sample out;
  for (Reading reading : readings.readings()) {
    if (reading.missing() != nullptr) {
      const auto why = reasons.find(json_key(row_of(reading.metric), reading.index));
      if (why != reasons.end()) reading.value = why->second;
    }
    out.set(std::move(reading));
  }
  return out;
}

}  // namespace gpuyard::protocol

namespace gpuyard {

void put_json(std::string& out, const Sample& sample) {
  protocol::put_rows(out, sample, protocol::AbsentPolicy::null);
}

void schema_of(std::type_identity<Sample>, boost::json::object& out) {
  boost::json::object properties;
  boost::json::array required;
  for (const MetricRow& row : protocol::device_rows()) {
    const std::string& key = json_key(row);
    const bool whole = unit_info(row.unit).json_divisor == 1;
    const bool words = row.kind == MetricKind::state || row.kind == MetricKind::text;
    boost::json::object one = {{"type", {words ? "string" : whole ? "integer" : "number", "null"}}};
    if (row.kind == MetricKind::flags) {
      one = {{"type", {"array", "null"}}, {"items", {{"type", "string"}}}};
    } else if (row.dimension == Dimension::location) {
      one = {{"type", {"object", "null"}}, {"additionalProperties", std::move(one)}};
    } else if (row.dimension != Dimension::none) {
      one = {{"type", {"array", "null"}}, {"items", std::move(one)}};
    }
    one["description"] = row.help;
    properties[key] = std::move(one);
    required.emplace_back(key);
  }
  out = {
      {"type", "object"}, {"properties", std::move(properties)}, {"required", std::move(required)}};
}

void read_json(const boost::json::value& from, Sample& to, const std::string& path,
               json::Problems& problems) {
  protocol::read_rows(from, to, path, problems, protocol::AbsentPolicy::null);
}

void put_json(std::string& out, const Missing& missing) {
  json::put_string(out, describe(missing));
}

void read_json(const boost::json::value& from, Missing& to, const std::string& path,
               json::Problems& problems) {
  const auto* words = from.if_string();
  if (words == nullptr) return problems.add(path, "expected a string");
  to = missing_from(std::string(*words));
}

void schema_of(std::type_identity<Missing>, boost::json::object& out) {
  out = {{"type", "string"}};
}

}  // namespace gpuyard
