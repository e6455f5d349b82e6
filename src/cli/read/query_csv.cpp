#include "cli/read/query_csv.h"

#include <fmt/format.h>

#include "cli/read/device_table.h"
#include "cli/screen/fitted_table.h"
#include "cli/screen/reading_text.h"

namespace gpuyard::cli {

using protocol::Device;
using What = Field::What;

std::string query_csv(const std::vector<Field>& fields, const Queried& queried, CsvStyle style) {
  std::string out;
  const auto add_line = [&](auto cell_of) {
    for (std::size_t i = 0; i < fields.size(); ++i) {
      if (i > 0) out += ", ";
      out += cell_of(fields[i]);
    }
    out += '\n';
  };
  if (style.header) {
    add_line([](const Field& field) {
      const std::string_view unit = unit_of(field);
      return unit.empty() ? field.name : fmt::format("{} [{}]", field.name, unit);
    });
  }
  for (const Device& device : queried.snapshot.devices) {
    add_line([&](const Field& field) { return csv_cell(field, queried, device, style.units); });
  }
  return out;
}

std::string field_table(const std::vector<Field>& fields, const Queried& queried,
                        const Screen& screen) {
  FittedTable table;
  table.columns.push_back({"GPU", true});
  for (const Device& device : queried.snapshot.devices) {
    table.columns.front().cells.push_back({std::to_string(device.index), Tone::strong});
  }
  for (const Field& field : fields) {
    const bool row = field.what == What::row;
    const bool text = field.what == What::word || (row && row_of(field.metric).kind == Kind::text);
    Column column{field.name, !text};
    for (const Device& device : queried.snapshot.devices) {
      const std::string cell = csv_cell(field, queried, device, true);
      const bool missing = cell.starts_with('[') || cell == "N/A";
      column.cells.push_back(missing ? Cell{std::string(kNothing), Tone::faint} : Cell{cell});
    }
    table.columns.push_back(std::move(column));
  }
  return table.text(screen) + device_notes(queried.snapshot, screen);
}

}  // namespace gpuyard::cli
