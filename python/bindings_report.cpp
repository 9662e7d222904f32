// The report's page, for the module tutti._core.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "bindings_sim.hpp"
#include "mpi/report/summary.hpp"

void bind_report(nanobind::module_& module) { module.def("report_page", &tutti::report::page_of); }
