#include "base/json_reader.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include <fmt/format.h>
#include <boost/json.hpp>

#include "base/local_time.h"
#include "base/text.h"

// Boost.JSON's library part is compiled in third_party/json_impl.cpp.

namespace gpuyard::json {
namespace {

std::string value_text(const boost::json::value& value) {
  constexpr std::size_t kMaxTextBytes = 60;
  if (value.is_object()) return "an object";
  if (value.is_array()) return "an array";
  if (value.is_double()) return fmt::format("{:#}", value.get_double());
  if (value.is_string() && value.get_string().size() > kMaxTextBytes) {
    return fmt::format("a string of {} bytes", value.get_string().size());
  }
  return boost::json::serialize(value);
}

class Reader {
 public:
  explicit Reader(UnknownFields unknown) : unknown_(unknown) {}

  void read(const boost::json::value& from, const Shape&, void* to);
  const Problems& problems() const { return problems_; }

 private:
  // Extends the path of the current value by one step while this lives.
  class Step {
   public:
    Step(std::string& path, std::string_view name) : path_(path), length_(path.size()) {
      path_.append("/").append(name);
    }
    ~Step() { path_.resize(length_); }
    Step(const Step&) = delete;
    Step& operator=(const Step&) = delete;

   private:
    std::string& path_;
    std::size_t length_;
  };

  void add_problem(std::string_view what) { problems_.add(path_, what); }
  void add_problem(std::string_view expected, const boost::json::value& got) {
    add_problem(fmt::format("expected {}; got {}", expected, value_text(got)));
  }

  void read_integer(const boost::json::value& from, const Shape&, void* to);
  void read_boolean(const boost::json::value& from, bool& to);
  void read_number(const boost::json::value& from, double& to);
  void read_text(const boost::json::value& from, std::string& to);
  void read_seconds(const boost::json::value& from, Duration& to);
  void read_time(const boost::json::value& from, WallTime& to);
  void read_word(const boost::json::value& from, const Shape&, void* to);
  void read_optional(const boost::json::value& from, const Shape&, void* to);
  void read_list(const boost::json::value& from, const Shape&, void* to);
  void read_map(const boost::json::value& from, const Shape&, void* to);
  void read_record(const boost::json::value& from, const Shape&, void* to);
  void read_field(const boost::json::value& from, const Field&, void* to);
  void check_bounds(const boost::json::value& from, double min, double max);
  void refuse_unknown(const boost::json::object& from, const Shape&);

  UnknownFields unknown_;
  Problems problems_;
  std::string path_;
};

void Reader::read_boolean(const boost::json::value& from, bool& to) {
  if (const auto* value = from.if_bool()) {
    to = *value;
  } else {
    add_problem("true or false", from);
  }
}

void Reader::read_integer(const boost::json::value& from, const Shape& shape, void* to) {
  const auto take = [&](const auto* value) {
    return value != nullptr && assign_integer(shape, to, *value);
  };
  if (take(from.if_int64()) || take(from.if_uint64())) return;
  add_problem(from.is_number() && !from.is_double()
                  ? fmt::format("an integer from {} to {}", shape.min(), shape.max())
                  : "an integer",
              from);
}

void Reader::read_number(const boost::json::value& from, double& to) {
  // The parser turns a number that no double can hold into infinity.
  if (!from.is_number()) {
    add_problem("a number", from);
  } else if (to = from.to_number<double>(); !std::isfinite(to)) {
    add_problem("out of range");
  }
}

void Reader::read_text(const boost::json::value& from, std::string& to) {
  if (const auto* value = from.if_string()) {
    to = std::string_view(*value);
  } else {
    add_problem("a string", from);
  }
}

// To the nearest nanosecond, so that a Duration is the same after it was written and read.
void Reader::read_seconds(const boost::json::value& from, Duration& to) {
  double seconds_read = 0;
  read_number(from, seconds_read);
  constexpr double kLongest = 9e9;  // a Duration ends after 292 years
  if (std::abs(seconds_read) > kLongest) return add_problem("out of range");
  to = Duration(std::llround(static_cast<long double>(seconds_read) * 1e9L));
}

// Only what the writer writes, and the same without milliseconds.
void Reader::read_time(const boost::json::value& from, WallTime& to) {
  const auto* given = from.if_string();
  std::string text(given != nullptr ? std::string_view(*given) : "");
  constexpr std::size_t kWithoutMilliseconds = 20;  // "2026-01-31T12:00:00Z"
  if (text.size() == kWithoutMilliseconds) text.insert(kWithoutMilliseconds - 1, ".000");
  const auto time = parse_time(text, {});
  if (!time || to_rfc3339(*time) != text) {
    return add_problem("a time such as 2026-01-31T12:00:00.250Z", from);
  }
  to = *time;
}

void Reader::read_word(const boost::json::value& from, const Shape& shape, void* to) {
  const auto* text = from.if_string();
  const auto word = text == nullptr
                        ? shape.words.end()
                        : std::ranges::find(shape.words, std::string_view(*text), &Word::text);
  if (word != shape.words.end()) {
    shape.set_integer(to, word->value);
  } else {
    add_problem(allowed_words(shape), from);
  }
}

void Reader::read_optional(const boost::json::value& from, const Shape& shape, void* to) {
  if (from.is_null()) {
    shape.clear(to);
  } else {
    read(from, *shape.inner, shape.add(to, {}));
  }
}

void Reader::read_list(const boost::json::value& from, const Shape& shape, void* to) {
  const auto* values = from.if_array();
  if (values == nullptr) return add_problem("an array", from);
  if (shape.add == nullptr) throw std::logic_error("this list is write-only");
  shape.clear(to);
  std::size_t index = 0;
  for (const auto& value : *values) {
    const Step step(path_, std::to_string(index++));
    read(value, *shape.inner, shape.add(to, {}));
  }
}

void Reader::read_map(const boost::json::value& from, const Shape& shape, void* to) {
  const auto* object = from.if_object();
  if (object == nullptr) return add_problem("an object", from);
  shape.clear(to);
  for (const auto& entry : *object) {
    const Step step(path_, entry.key());
    read(entry.value(), *shape.inner, shape.add(to, entry.key()));
  }
}

void Reader::read_record(const boost::json::value& from, const Shape& shape, void* to) {
  const auto* object = from.if_object();
  if (object == nullptr) return add_problem("an object", from);
  std::size_t known = 0;
  for (const Field& field : shape.fields) {
    const Step step(path_, field.name);
    if (const auto* value = object->if_contains(field.name)) {
      ++known;
      read_field(*value, field, field.member_in(to));
    } else if (field.shape->kind != Kind::optional) {
      add_problem("required");
    }
  }
  if (unknown_ == UnknownFields::refuse && known < object->size()) refuse_unknown(*object, shape);
}

void Reader::read_field(const boost::json::value& from, const Field& field, void* to) {
  const std::size_t before = problems_.text().size();
  read(from, *field.shape, to);
  if (unknown_ == UnknownFields::ignore || problems_.text().size() > before) return;
  const About& about = field.about;
  check_bounds(from, about.least, about.most);
  const auto* entries = from.if_array();
  if (entries == nullptr) return;
  std::size_t index = 0;
  for (const auto& entry : *entries) {
    const Step step(path_, std::to_string(index++));
    check_bounds(entry, about.each_least, about.each_most);
  }
}

void Reader::check_bounds(const boost::json::value& from, double min, double max) {
  std::string fault;
  if (const auto* text = from.if_string()) {
    fault = bounds_violation(Kind::text, static_cast<double>(text->size()), min, max);
  } else if (const auto* list = from.if_array()) {
    fault = bounds_violation(Kind::list, static_cast<double>(list->size()), min, max);
  } else if (from.is_number()) {
    fault = bounds_violation(Kind::number, from.to_number<double>(), min, max);
  }
  if (!fault.empty()) add_problem(fault);
}

void Reader::refuse_unknown(const boost::json::object& from, const Shape& shape) {
  for (const auto& entry : from) {
    if (std::ranges::find(shape.fields, std::string_view(entry.key()), &Field::name) !=
        shape.fields.end()) {
      continue;
    }
    const Step step(path_, entry.key());
    add_problem("unknown field");
  }
}

void Reader::read(const boost::json::value& from, const Shape& shape, void* to) {
  switch (shape.kind) {
    case Kind::boolean:
      return read_boolean(from, *static_cast<bool*>(to));
    case Kind::integer:
      return read_integer(from, shape, to);
    case Kind::number:
      return read_number(from, *static_cast<double*>(to));
    case Kind::text:
      return read_text(from, *static_cast<std::string*>(to));
    case Kind::seconds:
      return read_seconds(from, *static_cast<Duration*>(to));
    case Kind::time:
      return read_time(from, *static_cast<WallTime*>(to));
    case Kind::word:
      return read_word(from, shape, to);
    case Kind::optional:
      return read_optional(from, shape, to);
    case Kind::list:
      return read_list(from, shape, to);
    case Kind::map:
      return read_map(from, shape, to);
    case Kind::record:
      return read_record(from, shape, to);
    case Kind::own:
      if (shape.read == nullptr) throw std::logic_error("this type is write-only");
      return shape.read(from, to, path_, problems_);
  }
}

Result<boost::json::value> parse_in(boost::json::storage_ptr memory, std::string_view text) {
  boost::json::parse_options options;
  options.max_depth = kMaxDepth;
  boost::json::error_code failed;
  auto document = boost::json::parse(boost::json::string_view(text.data(), text.size()), failed,
                                     std::move(memory), options);
  if (failed) return Error{Errc::invalid, "not valid JSON: " + failed.message()};
  return document;
}

}  // namespace

std::string bounds_violation(Kind kind, double measure, double min, double max) {
  if (measure >= min && measure <= max) return {};
  const bool length = kind == Kind::text || kind == Kind::list;
  const bool below = std::isfinite(min) && !(length && min <= 0);
  const std::string range = !below               ? fmt::format("at most {}", max)
                            : std::isfinite(max) ? fmt::format("{} to {}", min, max)
                                                 : fmt::format("at least {}", min);
  return fmt::format("expected {}{}; got {}", range,
                     kind == Kind::text   ? " bytes"
                     : kind == Kind::list ? " entries"
                                          : "",
                     measure);
}

std::string allowed_words(const Shape& shape) {
  std::vector<std::string_view> words;
  for (const Word& word : shape.words) words.push_back(word.text);
  return join_with_or(words);
}

void Problems::add(const std::string& path, std::string_view what) {
  if (text_.size() > kMaxText) return;
  if (!text_.empty()) text_ += "; ";
  text_ += path.empty() ? "/" : path.substr(0, kMaxPath);
  if (path.size() > kMaxPath) text_ += "...";
  text_ += ": ";
  text_ += what;
}

Result<boost::json::value> parse(std::string_view text) {
  return parse_in({}, text);
}

Result<void> read(std::string_view text, const Shape& shape, void* to, UnknownFields unknown) {
  boost::json::monotonic_resource memory;  // freed at once, not value by value
  const auto document = parse_in(&memory, text);
  return document ? read(*document, shape, to, unknown) : document.error();
}

Result<void> read(const boost::json::value& parsed, const Shape& shape, void* to,
                  UnknownFields unknown) {
  Reader reader(unknown);
  reader.read(parsed, shape, to);
  if (!reader.problems().empty()) return Error{Errc::invalid, reader.problems().text()};
  return {};
}

}  // namespace gpuyard::json
