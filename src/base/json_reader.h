// JSON text to records, strictly: every problem is reported with the path to it.
#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <boost/json.hpp>

#include "base/record.h"
#include "base/result.h"

namespace gpuyard::json {

// A request from a stranger must not contain what we do not know; an answer from a newer daemon
// may.
enum class UnknownFields { refuse, ignore };

inline constexpr std::size_t kMaxDepth = 16;

class Problems {
 public:
  void add(const std::string& path, std::string_view what);
  bool empty() const { return text_.empty(); }
  // "/devices/3/power: out of range; /devices/5/typo: unknown field"
  const std::string& text() const { return text_; }

 private:
  static constexpr std::size_t kMaxText = 1000;
  static constexpr std::size_t kMaxPath = 200;  // a field's name is a stranger's, of any length
  std::string text_;
};

struct Reader {
  UnknownFields unknown = UnknownFields::refuse;
  Problems problems;

  template <class T>
  void read(const boost::json::value& from, T& to, const std::string& path);

 private:
  template <class T>
  void read_integer(const boost::json::value& from, T& to, const std::string& path);
  template <class T>
  void read_record(const boost::json::value& from, T& to, const std::string& path);
  template <class T>
  void read_map(const boost::json::value& from, std::map<std::string, T>& to,
                const std::string& path);
};

// A type that reads itself: `void read_json(const boost::json::value&, T&, const std::string& path,
// Problems&)`, found by its namespace.
template <class T>
concept ReadsItself = requires(const boost::json::value& from, T& to, Problems& problems) {
  read_json(from, to, std::string(), problems);
};

Result<boost::json::value> parse(std::string_view text);

template <class T>
Result<T> from_json(std::string_view text, UnknownFields unknown = UnknownFields::refuse) {
  auto document = parse(text);
  if (!document) return std::move(document).error();
  T value{};
  Reader reader{unknown, {}};
  reader.read(*document, value, "");
  if (!reader.problems.empty()) return Error{Errc::invalid, reader.problems.text()};
  return value;
}

template <class T>
void Reader::read_integer(const boost::json::value& from, T& to, const std::string& path) {
  boost::json::error_code failed;
  const T value = from.to_number<T>(failed);
  if (failed || from.is_double()) {
    problems.add(path, from.is_number() ? "not an integer in range" : "must be an integer");
  } else {
    to = value;
  }
}

template <class T>
void Reader::read_record(const boost::json::value& from, T& to, const std::string& path) {
  const auto* object = from.if_object();
  if (object == nullptr) return problems.add(path, "must be an object");
  std::size_t known = 0;
  each_member<T>([&](auto member) {
    using Field = std::remove_reference_t<decltype(to.*member.pointer)>;
    const std::string at = path + "/" + member.name;
    if (const auto* field = object->if_contains(member.name)) {
      ++known;
      read(*field, to.*member.pointer, at);
    } else if constexpr (!is_optional<Field>) {
      problems.add(at, "required");
    }
  });
  if (unknown == UnknownFields::ignore || known == object->size()) return;
  for (const auto& entry : *object) {
    bool found = false;
    each_member<T>([&](auto member) { found = found || entry.key() == member.name; });
    if (!found) problems.add(path + "/" + std::string(entry.key()), "unknown field");
  }
}

template <class T>
void Reader::read_map(const boost::json::value& from, std::map<std::string, T>& to,
                      const std::string& path) {
  const auto* object = from.if_object();
  if (object == nullptr) return problems.add(path, "must be an object");
  to.clear();
  for (const auto& entry : *object) {
    const std::string name(entry.key());
    std::string at = path;
    read(entry.value(), to[name], at.append("/").append(name));
  }
}

template <class T>
void Reader::read(const boost::json::value& from, T& to, const std::string& path) {
  if constexpr (ReadsItself<T>) {
    read_json(from, to, path, problems);
  } else if constexpr (is_optional<T>) {
    if (from.is_null()) {
      to.reset();
    } else {
      read(from, to.emplace(), path);
    }
  } else if constexpr (std::is_same_v<T, bool>) {
    if (const auto* value = from.if_bool()) {
      to = *value;
    } else {
      problems.add(path, "must be true or false");
    }
  } else if constexpr (std::is_integral_v<T>) {
    read_integer(from, to, path);
  } else if constexpr (std::is_floating_point_v<T>) {
    // The parser makes an infinity of what no double can hold.
    if (!from.is_number()) {
      problems.add(path, "must be a number");
    } else if (to = from.to_number<T>(); !std::isfinite(to)) {
      problems.add(path, "out of range");
    }
  } else if constexpr (std::is_same_v<T, std::string>) {
    if (const auto* value = from.if_string()) {
      to = std::string_view(*value);
    } else {
      problems.add(path, "must be a string");
    }
  } else if constexpr (DescribedEnum<T>) {
    const auto* name = from.if_string();
    const auto value = name != nullptr ? enum_from_name<T>(*name) : std::nullopt;
    if (value) {
      to = *value;
    } else {
      problems.add(path, "is not one of the known values");
    }
  } else if constexpr (is_vector<T>) {
    const auto* values = from.if_array();
    if (values == nullptr) return problems.add(path, "must be an array");
    to.clear();
    for (const auto& value : *values) {
      const std::string at = path + "/" + std::to_string(to.size());  // before the element is there
      read(value, to.emplace_back(), at);
    }
  } else if constexpr (is_string_map<T>) {
    read_map(from, to, path);
  } else {
    read_record(from, to, path);
  }
}

}  // namespace gpuyard::json
