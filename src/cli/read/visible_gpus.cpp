#include "cli/read/visible_gpus.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "base/text.h"

namespace gpuyard::cli {
namespace {

constexpr std::string_view kGpuPrefix = "GPU-";
constexpr std::string_view kInstancePrefix = "MIG-";

using Boards = std::span<const BoardName>;

const BoardName* board_with_uuid(std::string_view beginning, Boards boards) {
  const auto begins = [&](const BoardName& board) { return board.uuid.starts_with(beginning); };
  const auto found = std::ranges::find_if(boards, begins);
  if (found == boards.end() || std::ranges::count_if(boards, begins) > 1) return nullptr;
  return &*found;
}

const BoardName* board_with_index(std::string_view name, Boards boards) {
  const auto index = parse_number<std::uint32_t>(name);
  const auto found = std::ranges::find_if(
      boards, [&](const BoardName& board) { return index && board.index == *index; });
  return found != boards.end() ? &*found : nullptr;
}

// Older drivers name the GPU in an instance's name: MIG-GPU-<uuid>/<instance>/<compute instance>.
const BoardName* board_of_instance(std::string_view name, Boards boards) {
  name.remove_prefix(kInstancePrefix.size());
  if (name.starts_with(kGpuPrefix)) return board_with_uuid(name.substr(0, name.find('/')), boards);
  const auto found = std::ranges::find_if(boards, &BoardName::has_instances);
  const bool only = std::ranges::count_if(boards, &BoardName::has_instances) == 1;
  return only ? &*found : nullptr;
}

std::string variable_text(std::string_view variable) {
  return fmt::format("CUDA_VISIBLE_DEVICES=\"{}\"", printable(variable));
}

VisibleGpus instance_alone(std::string_view name, std::string_view variable, Boards boards) {
  const BoardName* const board = board_of_instance(name, boards);
  if (board == nullptr) {
    return {{}, false, variable_text(variable) + " is a MIG instance whose GPU is unknown"};
  }
  return {{board->uuid},
          true,
          fmt::format("{} is a MIG instance of GPU {}: the energy is that of the whole GPU",
                      variable_text(variable), board->index)};
}

}  // namespace

VisibleGpus visible_gpus(std::string_view variable, std::span<const BoardName> boards) {
  VisibleGpus visible;
  std::string_view rest = variable;
  while (!rest.empty()) {
    const std::string_view name = trim(take_until(',', rest), " ");
    if (name.starts_with(kInstancePrefix) && visible.uuids.empty()) {
      return instance_alone(name, variable, boards);
    }
    const BoardName* const board = name.starts_with(kGpuPrefix) ? board_with_uuid(name, boards)
                                                                : board_with_index(name, boards);
    if (board == nullptr) {
      visible.note = fmt::format("{}: CUDA stops at \"{}\", which names no GPU of this machine",
                                 variable_text(variable), printable(name));
      break;
    }
    if (std::ranges::count(visible.uuids, board->uuid) > 0) {
      return {
          {}, true, variable_text(variable) + " names a GPU twice: CUDA shows the command no GPU"};
    }
    visible.uuids.push_back(board->uuid);
  }
  if (visible.uuids.empty()) visible.note = variable_text(variable) + " shows the command no GPU";
  return visible;
}

bool is_without_gpus(std::string_view variable) {
  const std::string_view first = trim(take_until(',', variable), " ");
  return !first.starts_with(kGpuPrefix) && !first.starts_with(kInstancePrefix) &&
         !parse_number<std::uint32_t>(first);
}

}  // namespace gpuyard::cli
