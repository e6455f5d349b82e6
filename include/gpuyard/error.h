/// @file
/// Errors, named by how a caller reacts. Errors are values, not exceptions.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#include "gpuyard/export.h"

namespace gpuyard {
inline namespace v0 {

/// One enumerator for each distinct reaction of a caller, not for each cause: Error has the cause.
enum class Errc {
  unsupported,  ///< this GPU, driver or platform cannot do it; a retry will not help
  not_found,    ///< the thing named is not there
  denied,       ///< a permission is missing; the message says which
  conflict,     ///< another user or program has it
  invalid,      ///< the request itself is wrong
  busy,         ///< a bounded queue is full; a later retry helps
  unavailable,  ///< no driver, no GPU, no daemon, or shutting down
  device_lost,  ///< the GPU no longer answers
  timed_out,    ///< the deadline passed first
  internal,     ///< none of the above
};

/// The enumerator's own name, "not_found". Lives as long as the library.
GPUYARD_API std::string_view name_of(Errc);

/// An error: how to react, and what happened, why and what to do next, in words for people.
struct Error {
  Errc code = Errc::internal;  ///< how to react
  std::string message = {};    ///< what happened
  std::string cause = {};      ///< why; empty if it would say no more than the message
  /// The next steps: a command per line, to paste as it is. A remark stands behind "  # ".
  std::string hint = {};

  /// All of it as one string: "WHAT: WHY; try `COMMAND`". Several steps are "try `A`, then `B`",
  /// and a remark follows its command in parentheses.
  GPUYARD_API std::string text() const;

  /// Says where it happened: "reading power limits: <message>".
  Error in(std::string_view where) && {
    message.insert(0, std::string(where) + ": ");
    return std::move(*this);
  }

  /// Equal when code and message are; cause and hint may differ.
  friend bool operator==(const Error& a, const Error& b) {
    return a.code == b.code && a.message == b.message;
  }
};

/// A value or an Error. The compiler warns if it is discarded.
///
/// Reading the one that is not there throws std::bad_variant_access: check ok() first.
template <class T>
class [[nodiscard]] Result {
 public:
  /// From anything that converts to a value.
  template <class U = T>
    requires std::is_convertible_v<U&&, T>
  Result(U&& value) : state_(std::in_place_index<0>, std::forward<U>(value)) {}
  /// From an error.
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  /// Whether there is a value.
  bool ok() const { return state_.index() == 0; }
  /// Whether there is a value.
  explicit operator bool() const { return ok(); }

  /// The value.
  T& operator*() & { return std::get<0>(state_); }
  /// The value.
  const T& operator*() const& { return std::get<0>(state_); }
  /// The value, to be moved from.
  T&& operator*() && { return std::get<0>(std::move(state_)); }
  /// A member of the value.
  T* operator->() { return &std::get<0>(state_); }
  /// A member of the value.
  const T* operator->() const { return &std::get<0>(state_); }

  /// The error.
  const Error& error() const& { return std::get<1>(state_); }
  /// The error, to be moved from.
  Error&& error() && { return std::get<1>(std::move(state_)); }

 private:
  std::variant<T, Error> state_;
};

/// Done, or an Error.
template <>
class [[nodiscard]] Result<void> {
 public:
  /// Done.
  Result() = default;
  /// Not done, and why.
  Result(Error error) : error_(std::move(error)) {}

  /// Whether it is done.
  bool ok() const { return !error_; }
  /// Whether it is done.
  explicit operator bool() const { return ok(); }

  /// The error; undefined if there is none.
  const Error& error() const& { return *error_; }
  /// The error, to be moved from; undefined if there is none.
  Error&& error() && { return *std::move(error_); }

 private:
  std::optional<Error> error_;
};

}  // namespace v0
}  // namespace gpuyard
