// Why somebody waits, in words: what it is, why, and what to do.
#pragma once

#include <string>

#include "api/lease_board.h"
#include "api/lease_view.h"

namespace gpuyard::api {

// The board of all streams and answers; made when it is first wanted.
LeaseBoard& board_of(Context&);

protocol::LeasePlace place_of(Context&, const lease::Lease&, const lease::Outlook&,
                              const Viewer& = {});

// A lease with its place, if it has one that is known.
protocol::Lease placed_view_of(Context&, const lease::Lease&, const Viewer& = {});

}  // namespace gpuyard::api
