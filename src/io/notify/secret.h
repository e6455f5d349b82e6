// A text that nobody may read by accident: it cannot be printed, formatted, logged or written to
// JSON, and whoever needs it says so.
#pragma once

#include <string>
#include <utility>

namespace gpuyard::notify {

class Secret {
 public:
  Secret() = default;
  explicit Secret(std::string text) : text_(std::move(text)) {}

  // For what is sent to the receiver, and for nothing else.
  const std::string& reveal() const { return text_; }
  bool empty() const { return text_.empty(); }

  friend bool operator==(const Secret&, const Secret&) = default;

 private:
  std::string text_;
};

}  // namespace gpuyard::notify
