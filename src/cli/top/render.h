// Draws the model. Pure: the same model, size and signs make the same grid.
#pragma once

#include "cli/top/model.h"

namespace gpuyard::cli::top {

Grid render(const Model&, Size, Charset);

// The same as lines that can be read aloud: a sentence for each GPU, then what fires.
std::vector<std::string> plain_lines(const Model&);

// The parts, for render(). Each draws into rows [first, until) and returns the first row that it
// left free.
struct RowRange {
  std::size_t first = 0;
  std::size_t until = 0;

  std::size_t count() const { return until > first ? until - first : 0; }
};

std::size_t draw_gpus(Grid&, RowRange, const Model&, Charset);  // a line each, or in columns
std::size_t draw_reason(Grid&, RowRange, const Model&);         // why the one pointed at is slow
std::size_t draw_processes(Grid&, RowRange, const Model&);
std::size_t draw_gpu_page(Grid&, RowRange, const Model&, Charset);
std::size_t draw_list(Grid&, RowRange, const Model&);  // the queue, alerts, usage
void draw_help(Grid&, RowRange, const Model&);
void draw_time(Grid&, std::size_t row, const Model&);  // the line of time
void draw_dialog(Grid&, const Dialog&, const std::string& line);
void draw_footer(Grid&, const Model&);

Tone tone_of(const protocol::Device&);
// "alice", "mallory!" for an unleased process, "-" for nobody.
std::string holder_of(const Model&, const protocol::Device&);
// The reason why the GPU is slow, in a few words.
std::string reason_of(const protocol::Device&);

}  // namespace gpuyard::cli::top
