// Describes a type as JSON in a table made at compile time: its fields, its words, its contents.
// Reading, writing and schemas walk these tables, so they are compiled once and not once per type.
// Knows no JSON library.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <boost/json/fwd.hpp>

#include "base/clock.h"
#include "base/record.h"

namespace gpuyard::json {

// The form of a member in JSON, where its type does not say it.
enum class Unit : std::uint8_t {
  as_is,
  seconds,        // of a Duration, or of an optional one
  null_if_empty,  // of a text, or of a number: 0
};

// Adds to a field what the member list cannot say.
struct About {
  std::string_view field;
  std::string_view description = {};
  // The bounds of a value in a request: a number's value, a text's bytes, a list's entries.
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
  // The bounds of each entry of a list.
  double each_least = -std::numeric_limits<double>::infinity();
  double each_most = std::numeric_limits<double>::infinity();
  std::string_view key = {};  // in JSON; empty: the member's name
  Unit unit = Unit::as_is;
};
// The same for a member of a record that knows no JSON: {"took", "seconds", Unit::seconds}.
constexpr About keyed(std::string_view field, std::string_view key, Unit unit = Unit::as_is,
                      std::string_view description = {}) {
  return {.field = field, .description = description, .key = key, .unit = unit};
}
// Place it beside the struct's member list and name only the fields of that list that need it:
// GPUYARD_ABOUT(Reading, {"watts", "Drawn now."})
// A list may also name members of a base, in the place that JSON has for them.
#define GPUYARD_ABOUT(T, ...)                                    \
  constexpr auto about_fields(std::type_identity<T>) {           \
    return std::to_array<::gpuyard::json::About>({__VA_ARGS__}); \
  }
template <class T>
inline constexpr std::array<About, 0> about{};
template <class T>
  requires requires { about_fields(std::type_identity<T>{}); }
inline constexpr auto about<T> = about_fields(std::type_identity<T>{});

// True if other schemas refer to this record's schema by name: GPUYARD_SCHEMA.
template <class T>
inline constexpr bool has_schema = false;

// The name of a type without its namespaces.
template <class T>
constexpr std::string_view type_name() {
  std::string_view text = __PRETTY_FUNCTION__;  // "... [with T = gpuyard::Name; ...]"
  text.remove_prefix(text.find("T = ") + 4);
  text = text.substr(0, text.find_first_of(";]"));
  return text.substr(text.rfind(':') + 1);
}

// The name under which other schemas refer to a record's schema: the struct's own unless
// specialised.
template <class T>
inline constexpr std::string_view schema_name = has_schema<T> ? type_name<T>() : std::string_view();

class Problems;

// A type that writes itself: `void put_json(std::string&, const T&)`, found by its namespace.
template <class T>
concept WritesItself = requires(std::string& out, const T& value) { put_json(out, value); };

// A type that reads itself: `void read_json(const boost::json::value&, T&, const std::string& path,
// Problems&)`.
template <class T>
concept ReadsItself = requires(const boost::json::value& from, T& to, Problems& problems) {
  read_json(from, to, std::string(), problems);
};

// A type that describes itself: `void schema_of(std::type_identity<T>, boost::json::object& out)`.
template <class T>
concept DescribesItself =
    requires(boost::json::object& out) { schema_of(std::type_identity<T>{}, out); };

enum class Kind : std::uint8_t {
  boolean,
  integer,
  number,
  text,
  seconds,  // a Duration
  time,     // a WallTime, as RFC 3339
  word,     // an enum, written as the enumerator's name
  optional,
  list,
  map,  // with strings as keys
  record,
  own,  // reads, writes or describes itself
};

struct Shape;

struct Field {
  std::string_view name;
  About about;
  const Shape* shape;
  void* (*member_in)(void* record);
};

struct Word {
  std::string_view text;
  std::int64_t value;
};

// Each comment names the kinds for which the members under it are set.
struct Shape {
  Kind kind;
  // integer
  bool is_signed = false;
  std::uint8_t digits = 0;  // binary ones, without the sign
  // record
  std::string_view title = {};  // of its schema
  std::span<const Field> fields = {};
  // word
  std::span<const Word> words = {};
  // word, integer; a std::uint64_t by its bits
  void (*set_integer)(void* to, std::int64_t value) = nullptr;
  std::int64_t (*get_integer)(const void* from) = nullptr;
  // optional, list, map
  const Shape* inner = nullptr;
  void (*clear)(void* whole) = nullptr;
  // Adds and returns an optional's value, a list's next element, or a map's value under `name`.
  void* (*add)(void* whole, std::string_view name) = nullptr;
  const void* (*get_value)(const void* whole) = nullptr;  // an optional's value, or null
  // own, where the type has them; `put` also for list and map
  void (*put)(std::string& out, const void* from) = nullptr;
  void (*read)(const boost::json::value&, void* to, const std::string& path, Problems&) = nullptr;
  void (*describe)(boost::json::object& out) = nullptr;

  // The bounds of an integer's type.
  constexpr std::uint64_t max() const { return UINT64_MAX >> (64U - digits); }
  constexpr std::int64_t min() const {
    return is_signed ? -static_cast<std::int64_t>(max()) - 1 : 0;
  }
};

// Sets the integer that has this shape; returns false if its type cannot hold the value.
template <std::integral T>
bool assign_integer(const Shape& shape, void* to, T value) {
  if (std::cmp_less(value, shape.min()) || std::cmp_greater(value, shape.max())) return false;
  shape.set_integer(to, static_cast<std::int64_t>(value));
  return true;
}

template <class T>
constexpr Shape make_shape();

template <class T>
struct ShapeOf {
  static const Shape value;
};
template <class T>
constinit const Shape ShapeOf<T>::value = make_shape<T>();

template <class T>
inline constexpr const Shape& shape_of = ShapeOf<T>::value;

// Appends the value as JSON. `from` points to a value of the type that has this shape.
void put(std::string& out, const Shape&, const void* from);

// Appends `text` as a JSON string. Escapes control characters. Replaces bytes that are not UTF-8
// with U+FFFD, because names come from drivers and untrusted clients.
void put_string(std::string& out, std::string_view text);

namespace shapes {

// The functions that the shape of each type points to.
template <class T, auto Member>
void* field_in(void* record) {
  return &(static_cast<T*>(record)->*Member);
}

template <class T, class Member>
T owner_of(Member T::*);

template <class T>
void reset(void* whole) {
  static_cast<std::optional<T>*>(whole)->reset();
}
template <class T>
void* emplace(void* whole, std::string_view) {
  return &static_cast<std::optional<T>*>(whole)->emplace();
}
template <class T>
const void* get_value(const void* whole) {
  const auto& value = *static_cast<const std::optional<T>*>(whole);
  return value ? &*value : nullptr;
}
template <class T>
constexpr Shape optional_shape(const Shape& inner) {
  return {.kind = Kind::optional,
          .inner = &inner,
          .clear = &reset<T>,
          .add = &emplace<T>,
          .get_value = &get_value<T>};
}

template <class T>
void empty(void* whole) {
  *static_cast<T*>(whole) = T{};
}
inline void* itself(void* whole, std::string_view) {
  return whole;
}
template <class T>
const void* unless_empty(const void* whole) {
  return *static_cast<const T*>(whole) == T{} ? nullptr : whole;
}

inline constexpr Shape kSeconds{.kind = Kind::seconds};
inline constexpr Shape kOptionalSeconds = optional_shape<Duration>(kSeconds);
template <class T>
inline constexpr Shape kNullIfEmpty{.kind = Kind::optional,
                                    .inner = &shape_of<T>,
                                    .clear = &empty<T>,
                                    .add = &itself,
                                    .get_value = &unless_empty<T>};

template <class T, Unit unit>
constexpr const Shape& shape_in() {
  if constexpr (unit == Unit::as_is) {
    return shape_of<T>;
  } else if constexpr (unit == Unit::null_if_empty) {
    return kNullIfEmpty<T>;
  } else if constexpr (is_optional<T>) {
    static_assert(std::is_same_v<T, std::optional<Duration>>, "only a Duration has seconds");
    return kOptionalSeconds;
  } else {
    static_assert(std::is_same_v<T, Duration>, "only a Duration has seconds");
    return kSeconds;
  }
}

template <class T, template <class...> class List, class... Members>
constexpr bool has_all_fields(List<Members...>) {
  return std::ranges::all_of(
      about<T>, [](const About& one) { return ((one.field == Members::name) || ...); });
}
// Searches the table of the record, then those of its bases.
template <class T>
constexpr std::optional<About> find_about(std::string_view field) {
  static_assert(
      has_all_fields<T>(boost::describe::describe_members<T, boost::describe::mod_public>{}),
      "about<T> names a field that T has not");
  const auto* const own = std::ranges::find(about<T>, field, &About::field);
  if (own != std::ranges::end(about<T>)) return *own;
  std::optional<About> found;
  boost::mp11::mp_for_each<boost::describe::describe_bases<T, boost::describe::mod_public>>(
      [&](auto base) {
        if (!found) found = find_about<typename decltype(base)::type>(field);
      });
  return found;
}
template <class T, class Member>
constexpr About about_member() {
  using Owner = decltype(owner_of(Member::pointer));
  std::optional<About> found = find_about<T>(Member::name);
  if constexpr (Record<Owner>) {
    if (!found) found = find_about<Owner>(Member::name);
  }
  return found.value_or(About{Member::name});
}

template <class T, class Member>
constexpr Field field() {
  constexpr About kAbout = about_member<T, Member>();
  using Value = std::remove_cvref_t<decltype(std::declval<T&>().*Member::pointer)>;
  return {kAbout.key.empty() ? Member::name : kAbout.key, kAbout, &shape_in<Value, kAbout.unit>(),
          &field_in<T, Member::pointer>};
}

template <class T, template <class...> class List, class... Members>
constexpr auto fields(List<Members...>) {
  return std::array<Field, sizeof...(Members)>{field<T, Members>()...};
}
template <Record T>
inline constexpr auto fields_of =
    fields<T>(boost::describe::describe_members<T, boost::describe::mod_public |
                                                       boost::describe::mod_inherited>{});

template <template <class...> class List, class... Entries>
constexpr auto words(List<Entries...>) {
  return std::array<Word, sizeof...(Entries)>{
      Word{Entries::name, static_cast<std::int64_t>(Entries::value)}...};
}
template <DescribedEnum E>
inline constexpr auto words_of = words(boost::describe::describe_enumerators<E>{});

template <class T>
void set_integer(void* to, std::int64_t value) {
  *static_cast<T*>(to) = static_cast<T>(value);
}
template <class T>
std::int64_t get_integer(const void* from) {
  return static_cast<std::int64_t>(*static_cast<const T*>(from));
}

template <class Container>
void clear(void* whole) {
  static_cast<Container*>(whole)->clear();
}

template <class T>
void* add_element(void* whole, std::string_view) {
  return &static_cast<std::vector<T>*>(whole)->emplace_back();
}
template <class T>
void put_list(std::string& out, const void* from) {
  char separator = '[';
  for (const T& value : *static_cast<const std::vector<T>*>(from)) {
    out += separator;
    separator = ',';
    put(out, shape_of<T>, &value);
  }
  if (separator == '[') out += '[';
  out += ']';
}

template <class T>
void* add_named(void* whole, std::string_view name) {
  return &(*static_cast<std::map<std::string, T>*>(whole))[std::string(name)];
}
template <class T>
void put_map(std::string& out, const void* from) {
  char separator = '{';
  for (const auto& [name, value] : *static_cast<const std::map<std::string, T>*>(from)) {
    out += separator;
    separator = ',';
    put_string(out, name);
    out += ':';
    put(out, shape_of<T>, &value);
  }
  if (separator == '{') out += '{';
  out += '}';
}

template <class T>
void put_own(std::string& out, const void* from) {
  put_json(out, *static_cast<const T*>(from));
}
template <class T>
void read_own(const boost::json::value& from, void* to, const std::string& path,
              Problems& problems) {
  read_json(from, *static_cast<T*>(to), path, problems);
}
template <class T>
void describe_own(boost::json::object& out) {
  schema_of(std::type_identity<T>{}, out);
}

}  // namespace shapes

template <class T>
constexpr Shape make_shape() {
  if constexpr (WritesItself<T> || ReadsItself<T> || DescribesItself<T>) {
    Shape own{.kind = Kind::own};
    if constexpr (WritesItself<T>) own.put = &shapes::put_own<T>;
    if constexpr (ReadsItself<T>) own.read = &shapes::read_own<T>;
    if constexpr (DescribesItself<T>) own.describe = &shapes::describe_own<T>;
    return own;
  } else if constexpr (std::is_same_v<T, bool>) {
    return {.kind = Kind::boolean};
  } else if constexpr (std::is_integral_v<T>) {
    return {.kind = Kind::integer,
            .is_signed = std::is_signed_v<T>,
            .digits = std::numeric_limits<T>::digits,
            .set_integer = &shapes::set_integer<T>,
            .get_integer = &shapes::get_integer<T>};
  } else if constexpr (std::is_same_v<T, double>) {
    return {.kind = Kind::number};
  } else if constexpr (std::is_same_v<T, std::string>) {
    return {.kind = Kind::text};
  } else if constexpr (std::is_same_v<T, WallTime>) {
    return {.kind = Kind::time};
  } else if constexpr (DescribedEnum<T>) {
    return {.kind = Kind::word,
            .words = shapes::words_of<T>,
            .set_integer = &shapes::set_integer<T>,
            .get_integer = &shapes::get_integer<T>};
  } else if constexpr (is_optional<T>) {
    using Value = typename T::value_type;
    return shapes::optional_shape<Value>(shape_of<Value>);
  } else if constexpr (is_vector<T>) {
    using Value = typename T::value_type;
    Shape list{.kind = Kind::list, .inner = &shape_of<Value>, .put = &shapes::put_list<Value>};
    // No pointer can refer to an element of a vector<bool>, so such a list can be written but not
    // read.
    if constexpr (!std::is_same_v<Value, bool>) {
      list.clear = &shapes::clear<T>;
      list.add = &shapes::add_element<Value>;
    }
    return list;
  } else if constexpr (is_string_map<T>) {
    using Value = typename T::mapped_type;
    return {.kind = Kind::map,
            .inner = &shape_of<Value>,
            .clear = &shapes::clear<T>,
            .add = &shapes::add_named<Value>,
            .put = &shapes::put_map<Value>};
  } else {
    static_assert(Record<T>, "JSON has no form for this type");
    return {.kind = Kind::record, .title = schema_name<T>, .fields = shapes::fields_of<T>};
  }
}

}  // namespace gpuyard::json

// Compiles the shape of a record once instead of in every source that reads or writes it: place it
// in namespace gpuyard::json below the structs, in their order. The source that the shapes are
// compiled in defines GPUYARD_SHAPES_HERE before its first include, and is no part of a unity
// build.
#ifdef GPUYARD_SHAPES_HERE
#define GPUYARD_SHAPE(T) template struct ShapeOf<T>
#else
#define GPUYARD_SHAPE(T) extern template struct ShapeOf<T>
#endif

// The same for a record with a schema of its own.
#define GPUYARD_SCHEMA(T)                     \
  template <>                                 \
  inline constexpr bool has_schema<T> = true; \
  GPUYARD_SHAPE(T)
