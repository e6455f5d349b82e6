#include "cli/slurm/gres.h"

#include <algorithm>

#include "base/text.h"

namespace gpuyard::cli::slurm {
namespace {

constexpr std::int64_t kMaxGresCount = 100'000;  // of a job on many nodes

// Returns the parts between commas that are in no brackets: "gpu:2(S:0,1),shard:4" has two.
// Nothing: a bracket is open at the end, or closed too often.
std::optional<std::vector<std::string_view>> gres_parts(std::string_view list) {
  std::vector<std::string_view> parts;
  int depth = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i <= list.size(); ++i) {
    const char c = i < list.size() ? list[i] : ',';
    if (c == '(' || c == '[') ++depth;
    if ((c == ')' || c == ']') && --depth < 0) return std::nullopt;
    if (c != ',' || (depth > 0 && i < list.size())) continue;
    parts.push_back(trim(list.substr(begin, i - begin)));
    begin = i + 1;
  }
  if (depth != 0) return std::nullopt;
  return parts;
}

bool is_gres_type(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return is_alphanumeric(c) || c == '_' || c == '-' || c == '.';
  });
}

// The numbers of "0-1,3"; nothing if it is no list of numbers.
std::optional<std::vector<std::uint32_t>> parse_indexes(std::string_view text) {
  constexpr std::uint32_t kMaxIndex = 255;
  std::vector<std::uint32_t> indexes;
  while (!text.empty()) {
    std::string_view range = take_until(',', text);
    const auto first = parse_number<std::uint32_t>(take_until('-', range));
    const auto last = range.empty() ? first : parse_number<std::uint32_t>(range);
    if (!first || !last || *last < *first || *last > kMaxIndex) return std::nullopt;
    for (std::uint32_t index = *first; index <= *last; ++index) indexes.push_back(index);
  }
  return indexes;
}

// Reads what follows "gpu": ":h100:2(IDX:0-1)", ":2", ":h100", "=4" or nothing.
std::optional<GresGpus> parse_gpus(std::string_view rest) {
  take_prefix(rest, ":(null)");  // GPUs without a type, in some of Slurm's lists
  const std::string_view brackets = rest.substr(std::min(rest.find('('), rest.size()));
  rest.remove_suffix(brackets.size());
  GresGpus gpus{.type = "", .count = 1};
  std::string_view count;
  const std::size_t last = rest.find_last_of(":=");
  if (last != rest.npos && parse_number<std::int64_t>(rest.substr(last + 1))) {
    count = rest.substr(last + 1);
    rest = rest.substr(0, last);
  }
  if (!count.empty()) gpus.count = *parse_number<std::int64_t>(count);
  if (gpus.count < 0 || gpus.count > kMaxGresCount) return std::nullopt;
  if (!rest.empty()) {
    if (!take_prefix(rest, ":") || !is_gres_type(rest)) return std::nullopt;
    const bool is_number = rest.find_first_not_of("0123456789") == rest.npos;
    if (is_number && count.empty()) return std::nullopt;  // too large for a count
    gpus.type = rest;
  }
  std::string_view inside = brackets;
  if (!take_prefix(inside, "(IDX:") || !inside.ends_with(')')) return gpus;
  inside.remove_suffix(1);
  const auto indexes = parse_indexes(inside);
  if (indexes && std::ssize(*indexes) == gpus.count) gpus.indexes = *indexes;
  return gpus;
}

}  // namespace

std::optional<std::vector<GresGpus>> parse_gres_list(std::string_view list) {
  std::vector<GresGpus> found;
  list = trim(list);
  if (list.empty() || list == "(null)" || list == "N/A") return found;
  const auto parts = gres_parts(list);
  if (!parts) return std::nullopt;
  for (std::string_view part : *parts) {
    if (!take_prefix(part, "gres:")) take_prefix(part, "gres/");
    if (!take_prefix(part, "gpu")) continue;
    const bool is_gpu = part.empty() || part[0] == ':' || part[0] == '=' || part[0] == '(';
    if (!is_gpu) continue;  // "gpumem:4", a resource of another name
    const auto gpus = parse_gpus(part);
    if (!gpus) return std::nullopt;
    found.push_back(*gpus);
  }
  return found;
}

}  // namespace gpuyard::cli::slurm
