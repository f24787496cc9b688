// Editing a text in the user's editor.
#ifndef CHIMERE_APPS_CHIMERE_EXTERNAL_EDITOR_H_
#define CHIMERE_APPS_CHIMERE_EXTERNAL_EDITOR_H_

#include <string>

#include "base/result.h"
#include "base/settings.h"

namespace chimere::app {

/// Opens the text in $VISUAL or $EDITOR and returns what was saved. The file is in the state folder
/// and readable by its owner only; it is removed afterwards. Errors: kIo (no such folder, the
/// editor failed), naming the editor.
Result<std::string> edit_in_editor(const std::string& text, const Settings& settings);

}  // namespace chimere::app

#endif  // CHIMERE_APPS_CHIMERE_EXTERNAL_EDITOR_H_
