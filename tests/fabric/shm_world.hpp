// The shm fabric as a World: ranks as threads of this process, or as forked processes.
#pragma once

#include <memory>

#include "base/settings.hpp"
#include "fabric/world.hpp"

namespace tutti::test {

std::unique_ptr<World> make_thread_world(const Settings& settings, Wrap wrap = nullptr);
std::unique_ptr<World> make_process_world(const Settings& settings, Wrap wrap = nullptr);

}  // namespace tutti::test
