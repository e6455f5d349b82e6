#include "metrics/format.h"

#include <algorithm>
#include <charconv>

#include "base/ascii.h"

namespace gpuyard::metrics {
namespace {

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\"");
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\"") - first + 1);
}

std::string_view take_until(char separator, std::string_view& rest) {
  const std::size_t end = std::min(rest.find(separator), rest.size());
  const std::string_view taken = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return trimmed(taken);
}

// One of the types that a client accepts: "text/plain;version=0.0.4;q=0.5".
struct Accepted {
  std::string_view type;
  std::string_view version;  // "": any
  double weight = 1;         // 0: not at all
};

double weight_from(std::string_view text) {
  double weight = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), weight);
  const bool is_weight =
      read.ec == std::errc{} && read.ptr == text.data() + text.size() && weight >= 0 && weight <= 1;
  return is_weight ? weight : 0;
}

Accepted accepted_from(std::string_view element) {
  Accepted one;
  one.type = take_until(';', element);
  while (!element.empty()) {
    std::string_view parameter = take_until(';', element);
    const std::string_view name = take_until('=', parameter);
    if (equals_ignoring_case(name, "q")) one.weight = weight_from(trimmed(parameter));
    if (equals_ignoring_case(name, "version")) one.version = trimmed(parameter);
  }
  return one;
}

bool is_text(const Accepted& one) {
  const bool plain = equals_ignoring_case(one.type, "text/plain") &&
                     (one.version.empty() || one.version == "0.0.4");
  return plain || one.type == "*/*" || equals_ignoring_case(one.type, "text/*");
}

bool is_openmetrics(const Accepted& one) {
  return equals_ignoring_case(one.type, "application/openmetrics-text") &&
         (one.version.empty() || one.version == "1.0.0");
}

}  // namespace

std::string_view content_type_of(Format format) {
  return format == Format::text ? "text/plain; version=0.0.4; charset=utf-8"
                                : "application/openmetrics-text; version=1.0.0; charset=utf-8";
}

Format format_for(std::string_view accept) {
  double text = 0;
  double openmetrics = 0;
  while (!accept.empty()) {
    const Accepted one = accepted_from(take_until(',', accept));
    if (is_text(one)) text = std::max(text, one.weight);
    if (is_openmetrics(one)) openmetrics = std::max(openmetrics, one.weight);
  }
  return openmetrics > 0 && openmetrics >= text ? Format::openmetrics : Format::text;
}

}  // namespace gpuyard::metrics
