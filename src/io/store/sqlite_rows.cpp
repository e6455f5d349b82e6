#include "io/store/sqlite_rows.h"

#include "base/text.h"

namespace gpuyard::store {

std::string json_list(std::string_view with_commas) {
  std::vector<std::string> all;
  while (!with_commas.empty()) all.emplace_back(take_until(',', with_commas));
  return json::to_json(all);
}

}  // namespace gpuyard::store
