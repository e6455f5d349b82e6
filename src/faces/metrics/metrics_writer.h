// Writes Prometheus's text format and OpenMetrics, piece by piece, with one piece of code for both.
#pragma once

#include <charconv>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "base/histogram.h"

namespace gpuyard::metrics {

// The two text formats that Prometheus reads, and which of them a scraper requests.
enum class Format {
  text,         // 0.0.4, which every scraper reads
  openmetrics,  // OpenMetrics 1.0
};

std::string_view content_type_of(Format);

// Returns the format that an Accept field requests: OpenMetrics if the field names it in a version
// that we write, with at least the weight of the text format; else, also for a malformed field,
// text.
Format negotiate_format(std::string_view accept);

class MetricsWriter {
 public:
  using Labels = std::initializer_list<std::pair<std::string_view, std::string_view>>;

  // Writes to the end of `out`. Every name begins with `stem`: "gpuyard_", say.
  MetricsWriter(std::string& out, std::string_view stem, Format format)
      : out_(out), stem_(stem), format_(format) {}

  // `name` names the samples; a counter's ends with "_total", unless another exporter chose it.
  void family(std::string_view name, std::string_view type, std::string_view help);
  void begin(std::string_view name) { add({stem_, name}); }
  void label(std::string_view name, std::string_view value) {
    out_ += in_labels_ ? ',' : '{';
    in_labels_ = true;
    add({name, "=\""});
    escape(value);
    out_ += '"';
  }
  void end(double value);
  void sample(std::string_view name, Labels labels, double value) {
    begin(name);
    for (const auto& [key, text] : labels) label(key, text);
    end(value);
  }
  // Writes a family whose only sample has no labels.
  void single(std::string_view name, std::string_view type, std::string_view help, double value) {
    family(name, type, help);
    sample(name, {}, value);
  }
  // Writes a whole histogram in seconds; `name` ends with "_seconds".
  void histogram(std::string_view name, std::string_view help, const Histogram& histogram);

 private:
  void add(std::initializer_list<std::string_view> parts) {
    for (const std::string_view part : parts) out_ += part;
  }
  void add_number(double value);
  void add_help(std::string_view help);
  void escape(std::string_view value);

  std::string& out_;
  std::string_view stem_;
  Format format_;
  bool in_labels_ = false;
};

// Returns the unit at the end of a name: "celsius" of "gpu_temperature_celsius"; "" if none.
std::string_view unit_suffix(std::string_view family);

}  // namespace gpuyard::metrics
