// A Response's status line and fields as bytes.
#pragma once

#include <string>

#include "http/message.h"

namespace gpuyard::http {

struct HeadOptions {
  bool keep_alive = true;
  bool http_1_0 = false;  // such a client must be told when the connection stays open
};

// Appends to `out`, up to and with the empty line.
void put_head(std::string& out, const Response& response, HeadOptions options);

// Whether a response of this status has a body at all.
bool has_body(int status);

}  // namespace gpuyard::http
