// Checks the form of IDs, UUIDs, addresses and times in a daemon's answer. They become words of
// command lines, paths and variables of jobs. No gpuyard daemon sends a malformed one.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/json_shape.h"
#include "base/result.h"
#include "base/try.h"

namespace gpuyard::client {

// Removes each list entry that has a malformed field of these kinds, and returns their number.
// Errc::internal: such a field is in no list. Fields are recognised by their names; fields that
// only a newer daemon knows are not checked.
Result<std::size_t> drop_malformed(boost::json::value& answer);

// Reads an answer or an event that a daemon sent, without the entries that drop_malformed()
// removes. `source` names the daemon in errors. Fields that only a newer daemon knows are ignored;
// `to` points to a new value of this shape.
Result<void> read_reply(std::string_view source, std::string_view text, const json::Shape&,
                        void* to);

template <class T>
Result<T> parse_reply(std::string_view source, std::string_view text) {
  T value{};
  GPUYARD_TRY(read_reply(source, text, json::shape_of<T>, &value));
  return value;
}

}  // namespace gpuyard::client
