#include "cli/screen/pretty_json.h"

#include <utility>

#include <boost/json.hpp>

namespace gpuyard::cli {
namespace {

constexpr std::size_t kLine = 100;

void put(std::string& out, const boost::json::value& value, std::size_t depth);

template <class Items, class PutItem>
void put_items(std::string& out, const Items& items, const char* brackets, std::size_t depth,
               PutItem put_item) {
  const std::string indent(2 * (depth + 1), ' ');
  out += brackets[0];
  bool first = true;
  for (const auto& item : items) {
    out += std::exchange(first, false) ? "\n" : ",\n";
    out += indent;
    put_item(item);
  }
  out += "\n" + std::string(2 * depth, ' ') + brackets[1];
}

void put(std::string& out, const boost::json::value& value, std::size_t depth) {
  const std::string short_form = boost::json::serialize(value);
  const bool is_short = short_form.size() + 2 * depth < kLine / 2;
  if (is_short || value.is_primitive()) {
    out += short_form;
  } else if (const auto* object = value.if_object()) {
    put_items(out, *object, "{}", depth, [&](const auto& entry) {
      out += boost::json::serialize(entry.key()) + ": ";
      put(out, entry.value(), depth + 1);
    });
  } else {
    put_items(out, value.get_array(), "[]", depth,
              [&](const auto& item) { put(out, item, depth + 1); });
  }
}

}  // namespace

std::string pretty_json(const boost::json::value& value) {
  std::string out;
  put(out, value, 0);
  return out + '\n';
}

}  // namespace gpuyard::cli
