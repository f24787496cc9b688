// The files of Studio, the server's web page, as web/build.mjs wrote them into web/built.
#ifndef CHIMERE_SERVING_STUDIO_FILES_H_
#define CHIMERE_SERVING_STUDIO_FILES_H_

#include <span>
#include <string_view>

namespace chimere::serving {

struct StudioFile {
  std::string_view name;  ///< "index.html", "studio.js"
  std::string_view type;  ///< of the content, for Content-Type
  bool gzip = false;      ///< whether `content` is compressed
  std::string_view tag;   ///< identifies the content, for ETag
  std::string_view content;
};

/// Every file, by name.
std::span<const StudioFile> studio_files();
/// nullptr: there is no file of that name.
const StudioFile* studio_file(std::string_view name);

}  // namespace chimere::serving

#endif  // CHIMERE_SERVING_STUDIO_FILES_H_
