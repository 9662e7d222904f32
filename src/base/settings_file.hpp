// The TOML file of settings, reduced to what settings.cpp needs of it. Internal to base.
#pragma once

#include <string>
#include <vector>

namespace tutti {

/// One `key = value` of the file's top level, the value as text ("true", "64K", "0.5").
struct FileEntry {
  std::string key;
  std::string text;
  int line = 0;
  bool scalar = true;  // false: a table, an array or a date, which no setting is
};

/// Reads `path`, in the order of the file. On failure returns false, leaves `*entries` untouched
/// and puts one line without the path into `*why` ("cannot be read: Permission denied",
/// "line 3, column 7: ...").
bool read_settings_file(const std::string& path, std::vector<FileEntry>* entries, std::string* why);

}  // namespace tutti
