// The files of a source.
#ifndef CHIMERE_RETRIEVAL_SOURCES_H_
#define CHIMERE_RETRIEVAL_SOURCES_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"

namespace chimere::retrieval {

struct SourceFile {
  std::string path;
  int64_t size = 0;
  int64_t modified_ns = 0;  ///< since 1970
};

/// The files at and below a path, sorted. Hidden files and folders, version control and
/// node_modules are left out unless the path itself names them; links to folders are not followed.
/// Errors: kNotFound, kIo, kCancelled.
Result<std::vector<SourceFile>> files_below(const std::string& path,
                                            const std::function<bool()>& interrupted);

/// The English manual pages below a folder of man1, man2, ..., or below those of this machine
/// (/usr/local/share/man, /usr/share/man) if it is empty; sorted, each page once, whatever links
/// lead to it. Errors: kNotFound, kCancelled.
Result<std::vector<SourceFile>> manual_pages(const std::string& folder,
                                             const std::function<bool()>& interrupted);

}  // namespace chimere::retrieval

#endif  // CHIMERE_RETRIEVAL_SOURCES_H_
