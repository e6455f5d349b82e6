// Draws the model. Pure: the same model, size and signs make the same grid.
#pragma once

#include "cli/top/model.h"

namespace gpuyard::cli::top {

Grid render(const Model&, Size, Charset);

// The parts, for render(). Each draws into rows [first, until) and returns the first row that it
// left free.

struct Rows {
  std::size_t first = 0;
  std::size_t until = 0;

  std::size_t count() const { return until > first ? until - first : 0; }
};

std::size_t draw_gpus(Grid&, Rows, const Model&, Charset);  // a line each, or in columns
std::size_t draw_reason(Grid&, Rows, const Model&);         // why the one pointed at is slow
std::size_t draw_processes(Grid&, Rows, const Model&, std::size_t scrolled);
std::size_t draw_gpu_page(Grid&, Rows, const Model&, Charset);
std::size_t draw_queue(Grid&, Rows, const Model&);
std::size_t draw_alerts(Grid&, Rows, const Model&);

// The lease that has a GPU now; null: none, or nobody told.
const protocol::Lease* lease_of(const Model&, const protocol::Device&);
// The number of rows that the processes of all GPUs need, with their heading.
std::size_t rows_of_processes(const Model&);
Tone tone_of(const protocol::Device&);

}  // namespace gpuyard::cli::top
