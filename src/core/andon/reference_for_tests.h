// docs/andon.md, written from the tables of rules, keys, signals, Xids and severities.
#pragma once

#include <string>

namespace gpuyard::andon {

// Returns the document as Markdown.
std::string reference();

}  // namespace gpuyard::andon
