#include "base/json_reader.h"

// Boost.JSON's library part is compiled in third_party/json_impl.cpp.

namespace gpuyard::json {

void Problems::add(const std::string& path, std::string_view what) {
  if (text_.size() > kMaxText) return;
  if (!text_.empty()) text_ += "; ";
  text_ += path.empty() ? "/" : path.substr(0, kMaxPath);
  if (path.size() > kMaxPath) text_ += "...";
  text_ += ": ";
  text_ += what;
}

Result<boost::json::value> parse(std::string_view text) {
  boost::json::parse_options options;
  options.max_depth = kMaxDepth;
  boost::json::error_code failed;
  auto document =
      boost::json::parse(boost::json::string_view(text.data(), text.size()), failed, {}, options);
  if (failed) return Error{Errc::invalid, "not valid JSON: " + failed.message()};
  return document;
}

}  // namespace gpuyard::json
