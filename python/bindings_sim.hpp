// The simulation and the models, for the module tutti._core.
#pragma once

#include <nanobind/nanobind.h>

void bind_simulation(nanobind::module_& module);
void bind_dedicated(nanobind::module_& module);
void bind_models(nanobind::module_& module);
