// Where in the program an MPI function was called, for the report.
#pragma once

#include <string>

namespace tutti::mpi {

/// The address behind the program's call: the first frame that is neither tutti's nor the MPI's
/// (nor that of its Fortran layer). nullptr when there is none. Takes a microsecond or two.
/// Thread-safe.
const void* call_site() noexcept;

/// "program+0x1234 (function)"; the function where the dynamic linker knows its name.
std::string describe_site(const void* site);

}  // namespace tutti::mpi
