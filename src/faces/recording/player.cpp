#include "faces/recording/player.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/files.h"
#include "base/try.h"
#include "gpu/device/catalog.h"

namespace gpuyard::recording {

Result<Player> Player::open(const std::string& path) {
  Player player(path);
  GPUYARD_TRY(player.scan());
  GPUYARD_TRY(player.rewind());
  return player;
}

Error Player::line_error(const std::string& what) const {
  return {Errc::invalid, fmt::format("{}:{}: {}", path_, line_number_, what)};
}

Result<std::optional<std::string>> Player::next_line() {
  if (last_line_ != 0 && line_number_ == last_line_) return std::optional<std::string>();
  file_.getline(buffer_.data(), static_cast<std::streamsize>(buffer_.size()));
  const auto length = static_cast<std::size_t>(file_.gcount());
  if (file_.eof()) {
    // No line end: either this is the end of the file, or the recorder did not finish the line.
    if (length > 0) truncated_line_ = line_number_ + 1;
    return std::optional<std::string>();
  }
  ++line_number_;
  if (file_.bad()) return line_error("reading failed");
  if (file_.fail()) return line_error(fmt::format("a line is longer than {} bytes", kMaxLineBytes));
  return std::optional(std::string(buffer_.data(), length - 1));
}

Result<void> Player::rewind() {
  file_ = std::ifstream(path_, std::ios::binary);
  if (!file_) return system_error("opening " + path_);
  line_number_ = 0;
  position_ = Duration(-1);
  lookahead_.reset();
  for (PlayedGpu& gpu : gpus_) gpu = PlayedGpu{gpu.identity, false, {}, "", {}};
  const auto first = GPUYARD_TRY(next_line());
  if (!first) return line_error("not a gpuyard recording");
  auto header = parse_header(*first);
  if (!header) return Error{header.error().code, path_ + ": " + header.error().text()};
  header_ = *std::move(header);
  return {};
}

Result<void> Player::scan() {
  GPUYARD_TRY(rewind());
  for (;;) {
    const auto text = GPUYARD_TRY(next_line());
    if (!text) break;
    const auto line = parse_line(*text);
    if (!line) return line_error(line.error().text());
    const Duration at = std::chrono::milliseconds(line->t_ms);
    if (at < length_) return line_error("its time goes backwards");
    length_ = at;
    GPUYARD_TRY(play(*line));
  }
  last_line_ = line_number_;
  return {};
}

Result<void> Player::seek(Duration position) {
  if (position < position_) {
    GPUYARD_TRY(rewind());
  }
  position_ = position;
  for (;;) {
    if (!lookahead_) {
      const auto text = GPUYARD_TRY(next_line());
      if (!text) return {};
      auto line = parse_line(*text);
      if (!line) return line_error(line.error().text());
      lookahead_ = *std::move(line);
    }
    if (std::chrono::milliseconds(lookahead_->t_ms) > position) return {};
    GPUYARD_TRY(play(*std::exchange(lookahead_, std::nullopt)));
  }
}

Result<void> Player::play(const RecordingLine& line) {
  if (line.gpus) add_gpus(*line.gpus);
  if (!line.gpu) return {};
  PlayedGpu* gpu = find_gpu(*line.gpu);
  if (gpu == nullptr) return line_error(fmt::format("no GPU {} at this point", *line.gpu));
  if (line.condition) {
    gpu->condition = *line.condition;
    gpu->why = line.why.value_or("");
  }
  if (line.readings) {
    gpu->sample.merge(
        protocol::with_reasons(line.readings->sample, line.missing.value_or(protocol::Reasons{})));
  }
  if (line.processes) gpu->sample.set(ProcessList{{}, *line.processes});
  return {};
}

void Player::add_gpus(const std::vector<GpuIdentity>& gpus) {
  for (PlayedGpu& known : gpus_) known.present = false;
  for (const GpuIdentity& identity : gpus) {
    const auto known = std::ranges::find_if(gpus_, [&](const PlayedGpu& one) {
      return one.identity.uuid == identity.uuid &&
             (!identity.uuid.empty() || one.identity.index == identity.index);
    });
    if (known == gpus_.end()) {
      gpus_.push_back({identity, true, {}, "", {}});
    } else {
      *known = PlayedGpu{identity, true, {}, "", {}};
    }
  }
}

PlayedGpu* Player::find_gpu(std::uint32_t index) {
  const auto gpu = std::ranges::find_if(
      gpus_, [&](const PlayedGpu& one) { return one.present && one.identity.index == index; });
  return gpu != gpus_.end() ? &*gpu : nullptr;
}

}  // namespace gpuyard::recording
