// The forms of ids, UUIDs, addresses and times in a daemon's answer. What has another form is no
// daemon's of ours: it would become a word of a command line, a path, or a variable of a job.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/json_reader.h"
#include "base/result.h"

namespace gpuyard::client {

// Removes each entry of a list in which such a field has another form, and returns how many those
// are. Errc::internal: one that is in no list has. Looks at fields by their names; those that only
// a newer daemon knows may be anything.
Result<std::size_t> drop_malformed(boost::json::value& answer);

// Reads an answer or an event that a daemon sent, without the entries that drop_malformed()
// removes. `whose` names the daemon in errors. Fields that only a newer daemon knows are ignored;
// `to` points to a new value of this shape.
Result<void> read_answer(std::string_view whose, std::string_view text, const json::Shape&,
                         void* to);

template <class T>
Result<T> answer_from(std::string_view whose, std::string_view text) {
  T value{};
  if (auto done = read_answer(whose, text, json::shape_of<T>, &value); !done) {
    return std::move(done).error();
  }
  return value;
}

}  // namespace gpuyard::client
