#include "protocol/warning.h"

namespace chimere::protocol {

std::vector<Warning> warnings_of(const RequestNotes& notes) {
  std::vector<Warning> out;
  if (!notes.ignored.empty()) {
    std::string names;
    for (const std::string& name : notes.ignored)
      names += (names.empty() ? "'" : ", '") + name + "'";
    const bool one = notes.ignored.size() == 1;
    out.push_back({notes.ignored.front(), (one ? "The field " : "The fields ") + names +
                                              (one ? " is" : " are") +
                                              " unknown here and ignored."});
  }
  out.insert(out.end(), notes.changed.begin(), notes.changed.end());
  return out;
}

}  // namespace chimere::protocol
