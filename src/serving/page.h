// The chat page as embedded files.
#ifndef CHIMERE_SERVING_PAGE_H_
#define CHIMERE_SERVING_PAGE_H_

#include <string_view>

namespace chimere::serving {

struct PageFile {
  std::string_view path;
  std::string_view type;
  std::string_view content;
};

/// The file at `path`; the page itself for any other path.
const PageFile& page_file(std::string_view path);

}  // namespace chimere::serving

#endif  // CHIMERE_SERVING_PAGE_H_
