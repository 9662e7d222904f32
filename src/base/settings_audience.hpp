// Which settings are there for tests of tutti itself: lists for users show them apart.
#pragma once

#include <string_view>

namespace tutti {

/// `name` as in SettingLine.
bool is_for_tests(std::string_view name) noexcept;

}  // namespace tutti
