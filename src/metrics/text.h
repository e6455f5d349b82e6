// Prometheus's text format, piece by piece.
#pragma once

#include <array>
#include <charconv>
#include <initializer_list>
#include <string>
#include <string_view>

namespace gpuyard::metrics {

class Text {
 public:
  explicit Text(std::string_view prefix) : prefix_(prefix) {}

  void family(std::string_view name, std::string_view type, std::string_view help) {
    add({"# HELP ", prefix_, "_", name, " ", help, "\n"});
    add({"# TYPE ", prefix_, "_", name, " ", type, "\n"});
  }
  void begin(std::string_view name) { add({prefix_, "_", name}); }
  void label(std::string_view name, std::string_view value) {
    out_ += in_labels_ ? ',' : '{';
    in_labels_ = true;
    add({name, "=\""});
    escape(value);
    out_ += '"';
  }
  void end(double value) {
    if (in_labels_) out_ += '}';
    in_labels_ = false;
    out_ += ' ';
    std::array<char, 32> digits{};
    const auto last = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
    out_.append(digits.data(), static_cast<std::size_t>(last - digits.data()));
    out_ += '\n';
  }
  void series(std::string_view name, std::string_view device, double value) {
    begin(name);
    label("device", device);
    end(value);
  }
  std::string take() && { return std::move(out_); }

 private:
  void add(std::initializer_list<std::string_view> parts) {
    for (const std::string_view part : parts) out_ += part;
  }

  void escape(std::string_view value);

  std::string_view prefix_;
  std::string out_;
  bool in_labels_ = false;
};

}  // namespace gpuyard::metrics
