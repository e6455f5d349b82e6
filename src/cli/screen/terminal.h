// What verbs print: data on stdout, messages on stderr.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace gpuyard::cli {

// Writes to stdout. A closed pipe ends the program quietly, a full disk with an error.
void print(std::string_view text);
// The same without ending anything.
Result<void> try_print(std::string_view text);

// To any descriptor. Errc::unavailable: nobody reads the other end any more.
Result<void> write_all(int fd, std::string_view text);

// "gpuyard: <message>" on stderr; returns the exit code of the error.
int complain(const Error&);
// The same with what to do next on lines of its own.
int complain(const Error&, std::string_view advice);
// "gpuyard: <text>" on stderr, where nothing went wrong.
void say(std::string_view text);

// Rows of cells as aligned columns, whatever the screen. Columns of numbers are aligned to the
// right.
struct Table {
  std::vector<std::string> headings;
  std::vector<bool> right;
  std::vector<std::vector<std::string>> rows;

  std::string text() const;
};

}  // namespace gpuyard::cli
