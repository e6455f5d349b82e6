// The answer to a query as JSON.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/json_shape.h"
#include "base/result.h"
#include "cli/read/query_csv.h"
#include "faces/protocol/resources.h"

namespace gpuyard::cli {

// The value of --format: "json", or "csv" with its further words.
struct QueryFormat {
  bool json = false;
  CsvStyle csv;
};
Result<QueryFormat> parse_query_format(const std::string& text);

// The values of a query as JSON, by field name: a row's own JSON key, or nvidia-smi's name for a
// part of a row.
struct Values {
  std::vector<std::pair<std::string, std::string>> by_name;
};
void put_json(std::string& out, const Values&);
void schema_of(std::type_identity<Values>, boost::json::object& out);

struct QueriedDevice {
  std::uint32_t index = 0;
  std::string uuid;
  std::string pci_address;
  DeviceCondition condition = DeviceCondition::responsive;
  std::optional<std::string> why;
  std::optional<std::int64_t> age_ms;
  Values values;
  std::map<std::string, std::string> missing;  // name of a null: why it is null
};
BOOST_DESCRIBE_STRUCT(QueriedDevice, (),
                      (index, uuid, pci_address, condition, why, age_ms, values, missing))

struct QueryAnswer : protocol::AnswerHead {
  std::string taken_at;
  std::vector<QueriedDevice> devices;
};
BOOST_DESCRIBE_STRUCT(QueryAnswer, (protocol::AnswerHead), (taken_at, devices))

QueryAnswer query_answer(const std::vector<Field>&, const QueryInput&);

}  // namespace gpuyard::cli
