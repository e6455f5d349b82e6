// An alert as one line of the program's log.
#pragma once

#include <string>

#include "notify/notice.h"

namespace gpuyard::notify {

// "ALERT [severity 85]: GPU 3 is at 91 °C"; "RESOLVED [severity 85]: ..." of one that is over.
std::string log_line(const Notice&);

// At once, at the level of the alert.
void put_into_log(const Notice&);

}  // namespace gpuyard::notify
