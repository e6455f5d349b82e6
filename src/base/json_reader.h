// Reads JSON text into records, strictly: every problem is reported with its path.
#pragma once

#include <string>
#include <string_view>

#include "base/json_shape.h"
#include "base/result.h"
#include "base/try.h"

namespace gpuyard::json {

// A request from an untrusted client must have no unknown fields and stay within the bounds of its
// fields; a newer daemon's response may have unknown fields and exceed the bounds.
enum class UnknownFields { refuse, ignore };

// Returns how a value is out of its bounds, e.g. "expected 1 to 8; got 9", or "". `measure`: the
// number, the bytes of the text, or the entries of the list. This one function checks the bounds of
// both bodies and parameters.
std::string bounds_violation(Kind, double measure, double least, double most);

// Returns "user, day or gpu" for a shape of kind word.
std::string allowed_words(const Shape&);

inline constexpr std::size_t kMaxDepth = 16;

class Problems {
 public:
  void add(const std::string& path, std::string_view what);
  bool empty() const { return text_.empty(); }
  // "/devices/3/power: out of range; /devices/5/typo: unknown field"
  const std::string& text() const { return text_; }

 private:
  static constexpr std::size_t kMaxText = 1000;
  static constexpr std::size_t kMaxPath = 200;  // clients choose field names of any length
  std::string text_;
};

// For callers that include <boost/json.hpp> themselves.
Result<boost::json::value> parse(std::string_view text);

// `to` points to a new value of the type that has this shape.
Result<void> read(std::string_view text, const Shape&, void* to, UnknownFields);
Result<void> read(const boost::json::value& parsed, const Shape&, void* to, UnknownFields);

template <class T>
Result<T> from_json(std::string_view text, UnknownFields unknown = UnknownFields::refuse) {
  T value{};
  GPUYARD_TRY(read(text, shape_of<T>, &value, unknown));
  return value;
}

}  // namespace gpuyard::json
