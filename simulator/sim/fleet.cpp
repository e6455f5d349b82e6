#include "sim/fleet.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <vector>

#include <fmt/format.h>

namespace gpuyard::sim {
namespace {

constexpr int kMostGpus = static_cast<int>(kMaxGpus);

struct Part {
  const Model* model = nullptr;
  std::optional<int> count;
};

std::string known_models() {
  std::string names;
  for (const Model& model : all_models()) {
    names += (names.empty() ? "" : ", ") + std::string(model.key);
  }
  return names;
}

Error bad_count(std::string_view text) {
  return Error{Errc::invalid,
               fmt::format("\"{}\": a count is a number from 1 to {}", text, kMostGpus)};
}

Result<Part> parse_part(std::string_view text) {
  const std::size_t colon = text.find(':');
  const std::string_view key = text.substr(0, colon);
  Part part{.model = find_model(key), .count = std::nullopt};
  if (part.model == nullptr) {
    return Error{Errc::invalid,
                 fmt::format("no GPU model is called \"{}\"; there are {}", key, known_models())};
  }
  if (colon == std::string_view::npos) return part;
  const std::string_view digits = text.substr(colon + 1);
  int count = 0;
  const auto [end, failed] = std::from_chars(digits.data(), digits.data() + digits.size(), count);
  if (failed != std::errc{} || end != digits.data() + digits.size()) return bad_count(text);
  if (count < 1 || count > kMostGpus) return bad_count(text);
  part.count = count;
  return part;
}

Result<std::vector<Part>> parse_parts(std::string_view text) {
  std::vector<Part> parts;
  while (true) {
    const std::size_t comma = text.find(',');
    auto part = parse_part(text.substr(0, comma));
    if (!part) return std::move(part).error();
    if (std::ranges::find(parts, part->model, &Part::model) != parts.end()) {
      return Error{Errc::invalid, fmt::format("{0} is named twice; give it one count, as in {0}:2",
                                              part->model->key)};
    }
    parts.push_back(*part);
    if (comma == std::string_view::npos) return parts;
    text.remove_prefix(comma + 1);
  }
}

Error bad_size(int gpus) {
  return Error{Errc::invalid, fmt::format("a world has 1 to {} GPUs, not {}", kMostGpus, gpus)};
}

}  // namespace

Result<Fleet> parse_fleet(std::string_view models, std::optional<int> gpus) {
  if (gpus && (*gpus < 1 || *gpus > kMostGpus)) return bad_size(*gpus);
  auto parts = parse_parts(models);
  if (!parts) return std::move(parts).error();
  if (parts->size() == 1 && !parts->front().count) {
    return Fleet(static_cast<std::size_t>(gpus.value_or(kUsualGpus)), parts->front().model);
  }
  Fleet fleet;
  for (const Part& part : *parts) {
    fleet.insert(fleet.end(), static_cast<std::size_t>(part.count.value_or(1)), part.model);
  }
  const int total = static_cast<int>(fleet.size());
  if (total > kMostGpus) return bad_size(total);
  if (gpus && *gpus != total) {
    return Error{Errc::invalid, fmt::format("\"{}\" is {} GPUs, not {}", models, total, *gpus)};
  }
  return fleet;
}

}  // namespace gpuyard::sim
