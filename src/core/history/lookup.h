// A question with all that memory has for it, to be answered on a worker: there the disk may be
// waited for, and a day of blocks decoded.
#pragma once

#include "history/question.h"
#include "history/series.h"
#include "history/store.h"

namespace gpuyard::history {

struct Lookup {
  Question question;
  std::int64_t cadence_ms = 0;
  DaemonRun run;  // the present one
  View<Point> readings;
  View<Bucket> tens;
  // Boot time from which memory has all there is.
  std::int64_t readings_since_ms = 0;
  std::int64_t tens_since_ms = 0;
  std::int64_t minutes_since_ms = 0;
};

// The finest resolution that reaches back to the question's begin; where only the store does,
// minutes, the newest of them from memory. What a store cannot tell is a note.
Answer answer(const Lookup&, Store&);

}  // namespace gpuyard::history
