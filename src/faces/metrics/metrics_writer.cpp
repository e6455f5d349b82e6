#include "faces/metrics/metrics_writer.h"

#include <algorithm>
#include <array>

#include "base/text.h"

namespace gpuyard::metrics {
namespace {

constexpr std::string_view kTotal = "_total";

// A unit that ends with another one comes before it.
constexpr std::array<std::string_view, 8> kUnits = {
    "bytes_per_second", "seconds", "bytes", "celsius", "watts", "joules", "hertz", "percent"};

// Returns the shortest text that reads as the same number, with a fraction even for whole numbers:
// both formats read "1", but only "1.0" names one bucket in both.
std::string bound_of(double seconds) {
  std::array<char, 32> digits{};
  const auto last = std::to_chars(digits.data(), digits.data() + digits.size(), seconds).ptr;
  std::string text(digits.data(), last);
  if (text.find_first_of(".e") == text.npos) text += ".0";
  return text;
}

// Parameters may stand in quotes.
std::string_view trim_quotes(std::string_view text) {
  return trim(text, " \t\"");
}

// One of the types that a client accepts: "text/plain;version=0.0.4;q=0.5".
struct MediaRange {
  std::string_view type;
  std::string_view version;  // "": any
  double weight = 1;         // 0: not at all
};

double parse_weight(std::string_view text) {
  const double weight = parse_number<double>(text).value_or(0);
  return weight >= 0 && weight <= 1 ? weight : 0;
}

MediaRange parse_media_range(std::string_view element) {
  MediaRange one;
  one.type = trim_quotes(take_until(';', element));
  while (!element.empty()) {
    std::string_view parameter = trim_quotes(take_until(';', element));
    const std::string_view name = trim_quotes(take_until('=', parameter));
    if (equals_ignoring_case(name, "q")) one.weight = parse_weight(trim_quotes(parameter));
    if (equals_ignoring_case(name, "version")) one.version = trim_quotes(parameter);
  }
  return one;
}

bool is_text(const MediaRange& one) {
  const bool plain = equals_ignoring_case(one.type, "text/plain") &&
                     (one.version.empty() || one.version == "0.0.4");
  return plain || one.type == "*/*" || equals_ignoring_case(one.type, "text/*");
}

bool is_openmetrics(const MediaRange& one) {
  return equals_ignoring_case(one.type, "application/openmetrics-text") &&
         (one.version.empty() || one.version == "1.0.0");
}

}  // namespace

std::string_view unit_suffix(std::string_view family) {
  for (const std::string_view unit : kUnits) {
    if (family.size() > unit.size() && family.ends_with(unit) &&
        family[family.size() - unit.size() - 1] == '_') {
      return unit;
    }
  }
  return {};
}

// In OpenMetrics a counter's samples are its family's name plus "_total"; a counter with any other
// name can only have the type "unknown" there.
void MetricsWriter::family(std::string_view name, std::string_view type, std::string_view help) {
  const bool open = format_ == Format::openmetrics;
  if (open && type == "counter") {
    if (name.ends_with(kTotal)) {
      name.remove_suffix(kTotal.size());
    } else {
      type = "unknown";
    }
  }
  add({"# HELP ", stem_, name, " "});
  add_help(help);
  add({"\n# TYPE ", stem_, name, " ", type, "\n"});
  if (!open) return;
  const std::string_view unit = unit_suffix(name);
  if (!unit.empty()) add({"# UNIT ", stem_, name, " ", unit, "\n"});
}

void MetricsWriter::end(double value) {
  if (in_labels_) out_ += '}';
  in_labels_ = false;
  out_ += ' ';
  add_number(value);
  out_ += '\n';
}

void MetricsWriter::histogram(std::string_view name, std::string_view help,
                              const Histogram& histogram) {
  const std::string bucket = std::string(name) + "_bucket";
  family(name, "histogram", help);
  for (std::size_t i = 0; i < Histogram::kBounds.size(); ++i) {
    sample(bucket, {{"le", bound_of(to_seconds(Histogram::kBounds.at(i)))}},
           static_cast<double>(histogram.cumulative_count(i)));
  }
  const auto count = static_cast<double>(histogram.count());
  sample(bucket, {{"le", "+Inf"}}, count);
  sample(std::string(name) + "_sum", {}, to_seconds(histogram.sum()));
  sample(std::string(name) + "_count", {}, count);
}

void MetricsWriter::add_number(double value) {
  std::array<char, 32> digits{};
  const auto last = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  out_.append(digits.data(), static_cast<std::size_t>(last - digits.data()));
}

// Escapes a quotation mark only in OpenMetrics: scrapers of the text format would show the
// backslash.
void MetricsWriter::add_help(std::string_view help) {
  for (const char c : help) {
    if (c == '\\' || (c == '"' && format_ == Format::openmetrics)) out_ += '\\';
    out_ += c;
  }
}

// Label values may be any UTF-8; bytes from the driver that are not UTF-8 become U+FFFD.
void MetricsWriter::escape(std::string_view value) {
  while (!value.empty()) {
    const char c = value.front();
    if (c == '\\' || c == '"') {
      out_ += '\\';
      out_ += c;
    } else if (c == '\n') {
      out_ += "\\n";
    } else if (const std::size_t length = utf8_sequence_length(value); length > 0) {
      out_ += value.substr(0, length);
      value.remove_prefix(length);
      continue;
    } else {
      out_ += kReplacementCharacter;
    }
    value.remove_prefix(1);
  }
}

std::string_view content_type_of(Format format) {
  return format == Format::text ? "text/plain; version=0.0.4; charset=utf-8"
                                : "application/openmetrics-text; version=1.0.0; charset=utf-8";
}

Format negotiate_format(std::string_view accept) {
  double text = 0;
  double openmetrics = 0;
  while (!accept.empty()) {
    const MediaRange one = parse_media_range(take_until(',', accept));
    if (is_text(one)) text = std::max(text, one.weight);
    if (is_openmetrics(one)) openmetrics = std::max(openmetrics, one.weight);
  }
  return openmetrics > 0 && openmetrics >= text ? Format::openmetrics : Format::text;
}

}  // namespace gpuyard::metrics
