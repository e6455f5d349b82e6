// Readings back from JSON. What a newer daemon has beside is passed over.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include <boost/json.hpp>

#include "base/json_reader.h"
#include "protocol/readings.h"

namespace gpuyard::protocol {
namespace {

// Where a value stands and whom it is for.
struct Place {
  const Row& row;
  std::uint16_t index;
  std::string path;
  json::Problems& problems;

  void complain(const char* what) const { problems.add(path, what); }
};

std::optional<std::int64_t> number_of_words(const Place& place, const boost::json::value& from) {
  const auto* list = from.if_array();
  if (list == nullptr) {
    place.complain("must be a list of words or null");
    return std::nullopt;
  }
  std::int64_t flags = 0;
  for (const auto& item : *list) {
    const auto* text = item.if_string();
    const auto word = std::ranges::find_if(place.row.words, [&](const Word& candidate) {
      return text != nullptr && std::string_view(*text) == candidate.text;
    });
    if (text == nullptr) place.complain("must be a list of words or null");
    if (word != place.row.words.end()) flags |= word->value;
  }
  return flags;
}

std::optional<std::int64_t> number_of_word(const Place& place, const boost::json::value& from) {
  if (const auto* text = from.if_string()) {
    const auto word = std::ranges::find(place.row.words, std::string_view(*text), &Word::text);
    if (word != place.row.words.end()) return word->value;
    std::int64_t number = 0;
    const auto parsed = std::from_chars(text->data(), text->data() + text->size(), number);
    if (parsed.ec == std::errc{} && parsed.ptr == text->data() + text->size()) return number;
  }
  place.complain("must be a word of this field or null");
  return std::nullopt;
}

std::optional<std::int64_t> scaled_number(const Place& place, const boost::json::value& from) {
  if (!from.is_number()) {
    place.complain("must be a number or null");
    return std::nullopt;
  }
  const auto divisor = static_cast<double>(unit_info(place.row.unit).json_divisor);
  const double native = from.to_number<double>() * divisor;
  constexpr double kExact = 9007199254740992.0;  // 2^53: what a double holds exactly
  if (std::abs(native) > kExact) {
    place.complain("out of range");
    return std::nullopt;
  }
  return std::llround(native);
}

std::variant<Missing, std::int64_t, std::string> value_of(const Place& place,
                                                          const boost::json::value& from) {
  if (from.is_null()) return Missing{};
  if (place.row.kind == Kind::text) {
    if (const auto* text = from.if_string()) return std::string(*text);
    place.complain("must be a string or null");
    return Missing{};
  }
  const auto number = place.row.kind == Kind::flags   ? number_of_words(place, from)
                      : place.row.kind == Kind::state ? number_of_word(place, from)
                                                      : scaled_number(place, from);
  if (number) return *number;
  return Missing{};
}

std::optional<std::uint16_t> index_of(Dimension dimension, std::string_view element) {
  for (std::uint16_t index = 0; index < extent_of(dimension); ++index) {
    if (element_of(dimension, index) == element) return index;
  }
  return std::nullopt;
}

void read_elements(const boost::json::value& from, const Place& whole, Sample& to) {
  const auto read_one = [&](std::uint16_t index, const boost::json::value& value) {
    const Place place{whole.row, index, whole.path + "/" + element_of(whole.row.dimension, index),
                      whole.problems};
    to.set({whole.row.metric, index, {}, value_of(place, value)});
  };
  if (const auto* object = from.if_object()) {
    for (const auto& [key, value] : *object) {
      if (const auto index = index_of(whole.row.dimension, key)) read_one(*index, value);
    }
  } else if (const auto* list = from.if_array()) {
    const std::size_t count = std::min<std::size_t>(list->size(), extent_of(whole.row.dimension));
    for (std::size_t i = 0; i < count; ++i) read_one(static_cast<std::uint16_t>(i), (*list)[i]);
  } else {
    whole.complain("must be a list, an object or null");
  }
}

}  // namespace

void read_row(const boost::json::value& from, const Row& row, Sample& to, const std::string& path,
              json::Problems& problems) {
  const Place place{row, 0, path, problems};
  if (from.is_null()) {
    to.set({row.metric, 0, {}, Missing{}});
  } else if (row.dimension != Dimension::none) {
    read_elements(from, place, to);
  } else {
    to.set({row.metric, 0, {}, value_of(place, from)});
  }
}

void read_json(const boost::json::value& from, Readings& to, const std::string& path,
               json::Problems& problems) {
  const auto* object = from.if_object();
  if (object == nullptr) return problems.add(path, "must be an object");
  to.sample = {};
  for (const Row& row : catalog()) {
    if (row.subject != Subject::device) continue;
    const std::string key = gpuyard::json_key(row);
    const auto* value = object->if_contains(key);
    std::string at = path;
    at.append("/").append(key);
    read_row(value != nullptr ? *value : boost::json::value(), row, to.sample, at, problems);
  }
}

}  // namespace gpuyard::protocol
