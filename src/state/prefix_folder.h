// The folder of cached states: what is in it at the start, and what is too old or too much.
#ifndef CHIMERE_STATE_PREFIX_FOLDER_H_
#define CHIMERE_STATE_PREFIX_FOLDER_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "state/prefix_file.h"

namespace chimere::state {

struct PrefixFolderOptions {
  std::string folder;           ///< <folder>/<fingerprint>/ has the files of a model
  int64_t max_bytes = 0;        ///< of all models together
  int64_t seconds_to_live = 0;  ///< since the last use; 0: for ever
};

struct FoundPrefix {
  PrefixFileInfo info;
  int64_t used_at = 0;  ///< seconds since 1970
};

/// Makes the folder of this model (0700), removes from the folders of all models what is too old
/// and then, oldest first, what is too much, and from this model's also what a killed program left
/// half written and what is damaged or foreign, telling `log` in a sentence each. Returns the rest,
/// oldest first. `path`: where this model's files are. Errors: kIo (the folder cannot be made).
Result<std::vector<FoundPrefix>> open_prefix_folder(
    const PrefixFolderOptions& options, const ImageLayout& layout,
    const std::function<void(const std::string&)>& log, std::string& path);

/// Notes that a file was used now. A file that cannot be touched grows old earlier.
void touch_prefix_file(const std::string& path);

/// What a purge found and removed.
struct Purged {
  int64_t files = 0;
  int64_t bytes = 0;
};
/// Removes the cached states of all models that were not used for so many seconds (0: all). A
/// folder that does not exist is empty. Errors: kIo (something cannot be removed).
Result<Purged> purge_prefix_folder(const std::string& folder, int64_t unused_seconds);

int64_t unix_seconds();

}  // namespace chimere::state

#endif  // CHIMERE_STATE_PREFIX_FOLDER_H_
