// Who asks control, as the API knows him.
#pragma once

#include "api/table.h"
#include "control/request.h"

namespace gpuyard::api {

control::Asker asker_of(const Asked&);

}  // namespace gpuyard::api
