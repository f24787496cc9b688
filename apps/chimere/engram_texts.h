// Reads the texts that tables are built from: files, folders, chat logs.
#ifndef CHIMERE_APPS_CHIMERE_ENGRAM_TEXTS_H_
#define CHIMERE_APPS_CHIMERE_ENGRAM_TEXTS_H_

#include <string>
#include <vector>

#include "base/result.h"

namespace chimere::app {

/// The documents of a path. A folder: those of its files and folders, in the order of their names;
/// files that are not text are skipped and named on standard error. A file whose name ends in
/// .jsonl: a chat log, one document a line, see below. Any other file, or standard input ("-"): its
/// text, split at zero bytes.
///
/// A line of a chat log is {"messages": [{"role": .., "content": ..}, ..]} (text, or a list of
/// parts with "text"), or has the fields "prompt" and "response", or "text"; contents follow each
/// other with an empty line between them.
///
/// Errors: kNotFound, kIo; kInvalidData (a named file that is not text, a line that is none of
/// these).
Result<std::vector<std::string>> read_documents(const std::string& path);

}  // namespace chimere::app

#endif  // CHIMERE_APPS_CHIMERE_ENGRAM_TEXTS_H_
