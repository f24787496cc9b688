#include "retrieval/collection_types.h"

namespace chimere::retrieval {

std::string Passage::place() const {
  if (line == 0) return heading;
  const std::string number = "line " + std::to_string(line);
  return heading.empty() ? number : heading + ", " + number;
}

}  // namespace chimere::retrieval
