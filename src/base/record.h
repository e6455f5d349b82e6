// A record is a plain struct whose members are listed once with BOOST_DESCRIBE_STRUCT. JSON,
// schemas and the driver-host's messages are derived from that list.
#pragma once

#include <concepts>
#include <map>
#include <optional>
#include <ranges>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <boost/describe.hpp>
#include <boost/mp11.hpp>

namespace gpuyard {

template <class T>
concept Record = boost::describe::has_describe_members<T>::value && !std::is_union_v<T>;

template <class T>
concept DescribedEnum = std::is_enum_v<T> && boost::describe::has_describe_enumerators<T>::value;

template <class T>
inline constexpr bool is_optional = false;
template <class T>
inline constexpr bool is_optional<std::optional<T>> = true;

template <class T>
inline constexpr bool is_vector = false;
template <class T>
inline constexpr bool is_vector<std::vector<T>> = true;

template <class T>
inline constexpr bool is_string_map = false;
template <class T>
inline constexpr bool is_string_map<std::map<std::string, T>> = true;

// Calls visit(descriptor) for each member in order, members of base classes first. A descriptor has
// `name` and `pointer`.
template <Record T, class Visit>
constexpr void each_member(Visit&& visit) {
  constexpr unsigned kAll = boost::describe::mod_public | boost::describe::mod_inherited;
  boost::mp11::mp_for_each<boost::describe::describe_members<T, kAll>>(std::forward<Visit>(visit));
}

template <DescribedEnum E>
constexpr std::string_view enum_name(E value) {
  std::string_view found = "unknown";
  boost::mp11::mp_for_each<boost::describe::describe_enumerators<E>>([&](auto entry) {
    if (entry.value == value) found = entry.name;
  });
  return found;
}

template <DescribedEnum E>
constexpr std::optional<E> enum_from_name(std::string_view name) {
  std::optional<E> found;
  boost::mp11::mp_for_each<boost::describe::describe_enumerators<E>>([&](auto entry) {
    if (entry.name == name) found = entry.value;
  });
  return found;
}

}  // namespace gpuyard
